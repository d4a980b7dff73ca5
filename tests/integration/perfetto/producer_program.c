/*
 * producer_program: a program that is a producer (perfetto/producer.h) and nothing else.
 *
 *	producer_program [OPTION=NUMBER]… SOURCE…
 *
 * For each instance a thread writes `packets` packets into each of `sequences` sequences. Each
 * packet has a time and, as for_testing, its sequence, its number from 0 and a text, so that it has
 * `size` bytes or a few more. What happens is printed, a line each. Lines of standard input are
 * commands: fork, replace FILE, stop. The program ends with its input. After the
 * packets it writes `ends` ends of slices.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/clock.h"
#include "base/proto.h"
#include "perfetto/producer.h"

enum { INSTANCES = 64 * PRODUCER_INSTANCES_MAX, SEQUENCES = PRODUCER_SEQUENCES_MAX };

static struct producer *producer;
static atomic_bool ready; /* producer is set; handlers may run before that */
static atomic_uint writing; /* threads */
static unsigned long packets = 1000, size = 60, sequences = 1, queue, delay_us;
static unsigned long keep = 1; /* wait for room in the queue; 0: packets are lost */
static unsigned long late; /* answer from the thread, when it has written everything */
static unsigned long silent; /* answer nothing */
static unsigned long ends;

static const struct {
	const char *name;
	unsigned long *value;
} options[] = {
	{ "packets", &packets },   { "size", &size },     { "sequences", &sequences },
	{ "queue", &queue },       { "keep", &keep },     { "late", &late },
	{ "delay_us", &delay_us }, { "silent", &silent }, { "ends", &ends },
};

static struct written {
	uint32_t number;
	atomic_uint asked; /* questions without an answer */
	atomic_bool gone, cleared;
} instances[INSTANCES];

static void make_packet(struct strbuf *s, uint32_t sequence, uint64_t n, bool begins)
{
	static char text[PRODUCER_PACKET_MAX + 1];
	size_t token;

	strbuf_clear(s);
	raw_reserve(s, size);
	proto_uint(s, 8, clock_read_ns(CLOCK_BOOTTIME));
	if (begins)
		proto_uint(s, 13, 1);
	token = proto_open(s, 900);
	proto_uint(s, 2, sequence);
	proto_uint(s, 3, n);
	if (s->length < size)
		proto_bytes(s, 1, text, size - s->length);
	proto_close(s, token);
}

static void answer(struct written *w)
{
	while (!silent && atomic_load(&w->asked)) {
		atomic_fetch_sub(&w->asked, 1);
		producer_done(producer, w->number);
	}
}

static bool write_one(struct written *w, uint32_t sequence, const struct strbuf *s)
{
	bool ok = producer_write(producer, w->number, sequence, s->data, s->length, false);

	while (!ok && keep && !atomic_load(&w->gone)) {
		usleep(500);
		ok = producer_write(producer, w->number, sequence, s->data, s->length, false);
	}
	return ok;
}

static void *write_packets(void *user)
{
	_cleanup_strbuf_ struct strbuf s = STRBUF_INIT;
	_cleanup_free_ bool *began = calloc(SEQUENCES + 1, sizeof(bool));
	struct written *w = user;
	unsigned long taken = 0;
	uint64_t refused = 0;

	for (uint64_t n = 0; n < packets && !atomic_load(&w->gone); n++) {
		if (atomic_exchange(&w->cleared, false))
			memset(began, 0, SEQUENCES + 1);
		for (uint32_t i = 1; i <= sequences; i++) {
			make_packet(&s, i, n, !began[i]);
			began[i] = write_one(w, i, &s);
			refused += !began[i];
		}
		if (delay_us)
			usleep((useconds_t)delay_us);
	}
	for (unsigned long n = 0; n < ends; n++)
		taken += producer_write(producer, w->number, 1, s.data, s.length, true);
	if (ends)
		printf("ends %u %lu\n", w->number, taken);
	printf("written %u %llu %llu\n", w->number, (unsigned long long)refused,
	       (unsigned long long)producer_lost(producer, w->number));
	for (; late && !atomic_load(&w->gone); usleep(1000))
		answer(w);
	atomic_fetch_sub(&writing, 1);
	return NULL;
}

static void on_start(void *user, uint32_t instance, const struct perfetto_config *c)
{
	struct written *w = &instances[instance % INSTANCES];
	pthread_t thread;

	(void)user;
	while (!atomic_load(&ready))
		usleep(100);
	printf("start %u %s %u %s\n", instance, c->source, c->target_buffer,
	       c->counter_names.count ? c->counter_names.items[0] : "-");
	w->number = instance;
	atomic_store(&w->asked, 0);
	atomic_store(&w->gone, false);
	atomic_fetch_add(&writing, 1);
	if (pthread_create(&thread, NULL, write_packets, w) == 0)
		pthread_detach(thread);
}

static void ask(const char *what, uint32_t instance)
{
	struct written *w = &instances[instance % INSTANCES];

	printf("%s %u\n", what, instance);
	atomic_fetch_add(&w->asked, 1);
	if (!late)
		answer(w);
}

static void on_flush(void *user, uint32_t instance)
{
	(void)user;
	ask("flush", instance);
}

static void on_stop(void *user, uint32_t instance)
{
	(void)user;
	ask("stop", instance);
}

static void on_clear(void *user, uint32_t instance)
{
	(void)user;
	printf("clear %u\n", instance);
	atomic_store(&instances[instance % INSTANCES].cleared, true);
}

static void on_lost(void *user)
{
	(void)user;
	printf("lost\n");
	for (size_t i = 0; i < INSTANCES; i++)
		atomic_store(&instances[i].gone, true);
}

/*
 * A child that forgets the producer; its exit status is 0 if it can neither write nor has the
 * connection.
 */
static void fork_child(void)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		bool has = false;

		producer_after_fork(producer);
		for (size_t i = 0; i < INSTANCES; i++)
			has |= producer_write(producer, instances[i].number, 1, "", 1, false);
		producer_done(producer, instances[0].number);
		producer_stop(producer);
		for (int fd = 3; fd < 64; fd++)
			has |= fcntl(fd, F_GETFD) >= 0;
		_exit(has);
	}
	waitpid(child, &status, 0);
	printf("forked %d\n", status);
}

/* As a daemon does that closes what it does not know, and then opens files of its own. */
static void replace_descriptors(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);

	for (int i = 3; i < 16; i++)
		if (i != fd)
			dup2(fd, i);
}

static void stop(void)
{
	uint64_t before = clock_monotonic_ns();

	producer_stop(producer);
	printf("stopped %llu\n", (unsigned long long)((clock_monotonic_ns() - before) / NS_PER_MS));
	for (size_t i = 0; i < INSTANCES; i++)
		atomic_store(&instances[i].gone, true);
}

/* Whether it is one. */
static bool read_option(char *argument)
{
	char *value = strchr(argument, '=');

	for (size_t i = 0; value && i < ARRAY_SIZE(options); i++)
		if (strncmp(argument, options[i].name, (size_t)(value - argument)) == 0)
			*options[i].value = strtoul(value + 1, NULL, 10);
	return value;
}

int main(int argc, char **argv)
{
	const char *sources[PRODUCER_SOURCES_MAX];
	struct producer_options o = {
		.name = "producer_program",
		.sources = sources,
		.handler = { .start = on_start,
			     .flush = on_flush,
			     .stop = on_stop,
			     .clear = on_clear,
			     .lost = on_lost },
	};
	struct error e = { 0 };
	char line[512], path[512];

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 1; i < argc; i++)
		if (!read_option(argv[i]) && o.source_count < PRODUCER_SOURCES_MAX)
			sources[o.source_count++] = argv[i];
	o.queue_bytes = queue;
	producer = producer_start(&o, &e);
	if (!producer) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	atomic_store(&ready, true);
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "fork\n") == 0)
			fork_child();
		else if (strcmp(line, "stop\n") == 0)
			stop();
		else if (sscanf(line, "replace %511s", path) == 1)
			replace_descriptors(path);
	}
	stop();
	while (atomic_load(&writing))
		usleep(1000);
	return 0;
}
