/* layer: perfetto */
/*
 * bench_producer: the throughput of packets from one thread, through the producer, to a service
 * that reads and counts them: a second thread of this program, which does nothing else. Each packet
 * has 64 bytes; when the queue is full, the sender waits.
 *
 *	bench_producer [thousands of packets]
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/helper_thread.h"
#include "base/io.h"
#include "base/proto.h"
#include "base/proto_read.h"
#include "perfetto/ipc_frames.h"
#include "perfetto/producer.h"

#define PACKET_BYTES 64

static atomic_uint_fast64_t received;
static atomic_uint instance;
static int listener;

static void die(const char *what)
{
	fprintf(stderr, "bench_producer: %s\n", what);
	exit(1);
}

static void send_frame(int fd, struct strbuf *frame)
{
	uint8_t length[4];

	store_u32(length, (uint32_t)frame->length);
	if (io_write_all(fd, length, 4) < 0 || io_write_all(fd, frame->data, frame->length) < 0)
		die("the producer has disconnected");
	strbuf_clear(frame);
}

static void send_methods(int fd, struct strbuf *out)
{
#define NAME(name_, text) text,
	static const char *const names[] = { IPC_METHODS(NAME) };
	size_t reply, method;

	proto_uint(out, 2, 1);
	reply = proto_open(out, 4);
	proto_uint(out, 1, 1);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		method = proto_open(out, 3);
		proto_uint(out, 1, 1 + i);
		proto_string(out, 2, names[i]);
		proto_close(out, method);
	}
	proto_close(out, reply);
	send_frame(fd, out);
}

/* Sends a command as a reply to request 3, the third of the producer. */
static void send_command(int fd, struct strbuf *out, uint32_t command, const char *message,
			 size_t length)
{
	size_t reply, body;

	proto_uint(out, 2, 3);
	reply = proto_open(out, 6);
	proto_uint(out, 1, 1);
	proto_uint(out, 2, 1);
	body = proto_open(out, 3);
	proto_bytes(out, command, message, length);
	proto_close(out, body);
	proto_close(out, reply);
	send_frame(fd, out);
}

static struct cursor field_of(struct cursor message, uint64_t number)
{
	struct proto_field f;

	while (proto_next(&message, &f))
		if (f.number == number && f.wire == PROTO_READ_BYTES)
			return proto_message(&f);
	return cursor_of("", 0);
}

/* Counts the packets in the chunk of a CommitData request. */
static void count(const uint8_t *bytes, size_t length)
{
	struct cursor arguments = field_of(field_of(cursor_of(bytes, length), 5), 3);
	struct cursor chunk = field_of(field_of(arguments, 1), 4);

	if (cursor_left(&chunk) > 8)
		atomic_fetch_add(&received, load_u16(chunk.p + 6) & 1023);
}

static void *serve(void *user)
{
	static uint8_t in[2 << 20];
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	size_t have = 0;
	int fd = accept(listener, NULL, NULL);
	ssize_t n;

	(void)user;
	raw_init(&out);
	send_methods(fd, &out);
	send_command(fd, &out, 3, "", 0);
	send_command(fd, &out, 1, "\x08\x01\x12\x02\x10\x01", 6); /* instance 1, buffer 1 */
	while ((n = read(fd, in + have, sizeof(in) - have)) > 0) {
		size_t at = 0;

		for (have += (size_t)n; have - at >= 4 && have - at - 4 >= load_u32(in + at);
		     at += 4 + load_u32(in + at))
			count(in + at + 4, load_u32(in + at));
		have -= at;
		memmove(in, in + at, have);
	}
	return NULL;
}

static void on_start(void *user, uint32_t number, const struct perfetto_config *config)
{
	(void)user;
	(void)config;
	atomic_store(&instance, number);
}

static void ignore(void *user, uint32_t number)
{
	(void)user;
	(void)number;
}

static void on_lost(void *user)
{
	(void)user;
	die("the connection is lost");
}

static struct producer *start(void)
{
	static const char *const source = "bench";
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct producer_options options = {
		.socket = address.sun_path,
		.name = "bench_producer",
		.sources = &source,
		.source_count = 1,
		.handler = { .start = on_start, .flush = ignore, .stop = ignore, .lost = on_lost },
	};
	struct producer *p;
	struct error e = { 0 };
	pthread_t thread;

	snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/bench_producer.%d", getpid());
	listener = socket(AF_UNIX, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&address, sizeof(address)) < 0 ||
	    listen(listener, 1) < 0)
		die("cannot listen");
	pthread_create(&thread, NULL, serve, NULL);
	p = producer_start(&options, &e);
	if (!p)
		die(e.text);
	while (!atomic_load(&instance))
		usleep(1000);
	unlink(address.sun_path);
	return p;
}

int main(int argc, char **argv)
{
	uint64_t packets = (argc > 1 ? strtoull(argv[1], NULL, 10) : 5000) * 1000;
	struct producer *p = start();
	uint8_t packet[PACKET_BYTES] = { 0xa2, 0x38, PACKET_BYTES - 3 };
	uint64_t began = clock_monotonic_ns(), mine = clock_read_ns(CLOCK_THREAD_CPUTIME_ID),
		 waits = 0;
	uint64_t wall, sender = helper_threads_cpu_ns();

	for (uint64_t i = 0; i < packets; i++)
		while (!producer_write(p, atomic_load(&instance), 1, packet, sizeof(packet),
				       false)) {
			waits++;
			usleep(200);
		}
	mine = clock_read_ns(CLOCK_THREAD_CPUTIME_ID) - mine;
	while (atomic_load(&received) < packets)
		usleep(200);
	wall = clock_monotonic_ns() - began;
	sender = helper_threads_cpu_ns() - sender;
	printf("%llu packets of %d bytes: %.2f million per second; CPU time per packet: %.0f ns of "
	       "the caller, %.0f ns of the producer's thread; the queue was full %llu times\n",
	       (unsigned long long)packets, PACKET_BYTES, (double)packets * 1e3 / (double)wall,
	       (double)mine / (double)packets, (double)sender / (double)packets,
	       (unsigned long long)waits);
	producer_stop(p);
	return 0;
}
