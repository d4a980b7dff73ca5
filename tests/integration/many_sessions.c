/*
 * many_sessions ROUNDS: starts and stops ROUNDS sessions, in all the ways that there are, while
 * threads come and go, and prints memory (KiB), descriptors, threads, mappings and the heap in use
 * (KiB) after a tenth of them, and at the end. With CUDA in the process, if there is one.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <ftw.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <pitot/pitot.h>

static uint32_t counter;

static void die(const char *what)
{
	fprintf(stderr, "%s: %s\n", what, pitot_error());
	exit(1);
}

static unsigned entries(const char *folder)
{
	DIR *d = opendir(folder);
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static unsigned lines(const char *path, const char *key, unsigned *value)
{
	FILE *f = fopen(path, "r");
	char line[512], format[32];
	unsigned n = 0;

	snprintf(format, sizeof(format), "%s %%u", key);
	while (fgets(line, sizeof(line), f)) {
		sscanf(line, format, value);
		n++;
	}
	fclose(f);
	return n;
}

/* One that has been joined is listed until the kernel has taken it down. */
static unsigned threads(void)
{
	unsigned n;

	for (int tries = 0; (n = entries("/proc/self/task") - 2) > 1 && tries < 1000; tries++)
		usleep(10000);
	return n;
}

static void print_what_is_there(void)
{
	unsigned resident = 0, mappings;
	struct mallinfo2 heap = mallinfo2();

	mappings = lines("/proc/self/maps", "none", &resident);
	lines("/proc/self/status", "VmRSS:", &resident);
	printf("%u %u %u %u %zu\n", resident, entries("/proc/self/fd"), threads(), mappings,
	       (heap.uordblks + heap.hblkhd) >> 10);
	fflush(stdout);
}

/* To find what has stayed open. */
static void tell_descriptors(void)
{
	char path[32], target[256];

	for (int fd = 0; fd < 256; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, target, sizeof(target));
		if (n > 0)
			fprintf(stderr, "%d %.*s\n", fd, (int)n, target);
	}
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *f)
{
	(void)s;
	(void)type;
	(void)f;
	return remove(path);
}

/* A tenth of 300 rounds of it fills a ring, whose pages stay. */
static void *work(void *unused)
{
	char name[32];

	for (int i = 0; i < 400; i++) {
		snprintf(name, sizeof(name), "step %d", i % 20);
		pitot_scope_begin(name);
		pitot_mark("in the middle");
		pitot_counter_add(counter, 1);
		pitot_scope_end();
	}
	return unused;
}

static struct pitot_session *start(const char *folder, const char *logs)
{
	struct pitot_options options = { .size = sizeof(options),
					 .directory = folder,
					 .log_path = logs };
	struct pitot_session *session = pitot_start(&options);

	if (!session)
		die(folder);
	return session;
}

static void one(int round)
{
	struct pitot_options options = { .size = sizeof(options), .directory = "r/init" };
	struct pitot_session *a, *b = NULL;
	pthread_t thread;

	mkdir("r", 0700);
	a = start("r/a", round % 3 ? NULL : "r/logs");
	if (round % 5 == 0)
		b = start("r/b", NULL);
	if (round % 7 == 0 && pitot_init(&options) != 1)
		die("init");
	if (pthread_create(&thread, NULL, work, NULL))
		die("thread");
	work(NULL);
	pthread_join(thread, NULL);
	if (pitot_stop(a) < 0 || pitot_stop(b) < 0)
		die("stop");
	pitot_shutdown();
	if (nftw("r", remove_one, 8, FTW_DEPTH | FTW_PHYS))
		die("remove");
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 0;
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW);
	int (*init)(unsigned);

	if (rounds < 10 || (cuda && (!(*(void **)&init = dlsym(cuda, "cuInit")) || init(0))))
		return 2;
	counter = pitot_counter("steps", "", "");
	for (int i = 0; i < rounds; i++) {
		if (i == rounds / 10)
			print_what_is_there();
		one(i);
	}
	print_what_is_there();
	tell_descriptors();
	return 0;
}
