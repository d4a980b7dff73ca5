/*
 * late.c: linked into hostile.c. The recorder in it starts as late as on a busy machine: when the
 * last other thread of a program without a main thread has ended ("left", "exited"), or so that its
 * collector begins when the program exits.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static volatile bool exits; /* the program does, rather than its main thread alone */
static volatile bool exiting;
static bool is_late;

static void on_exit_begins(void)
{
	exiting = true;
}

__attribute__((constructor)) static void begin(int argc, char **argv)
{
	exits = argc > 1 && strcmp(argv[1], "left") != 0 && strcmp(argv[1], "exited") != 0;
	atexit(on_exit_begins);
}

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

/* Whether only the calling thread is left, and the main thread as a zombie. */
static bool is_alone(void)
{
	char path[64], text[256] = "";
	struct stat task;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
	f = fopen(path, "r");
	if (f) {
		(void)!fgets(text, sizeof(text), f);
		fclose(f);
	}
	return strstr(text, ") Z") && stat("/proc/self/task", &task) == 0 && task.st_nlink == 4;
}

/* The recorder's first wait is that for the program's first milliseconds. */
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *t, struct timespec *left)
{
	int (*real)(clockid_t, int, const struct timespec *, struct timespec *);

	*(void **)&real = dlsym(RTLD_NEXT, "clock_nanosleep");
	while (!exits && !is_late && !is_alone())
		sleep_ms(1);
	is_late = true;
	return real(clock, flags, t, left);
}

/* The first call of the recorder's collector. */
int pthread_setname_np(pthread_t thread, const char *name)
{
	int (*real)(pthread_t, const char *);

	*(void **)&real = dlsym(RTLD_NEXT, "pthread_setname_np");
	while (exits && !exiting && strcmp(name, "pitot") == 0)
		sleep_ms(1);
	if (exits && strcmp(name, "pitot") == 0)
		sleep_ms(100);
	return real(thread, name);
}
