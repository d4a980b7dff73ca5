/* burn.h: work of a known length, for programs that are sampled. */
#ifndef PITOT_TESTS_BURN_H
#define PITOT_TESTS_BURN_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t sink;

static inline double cpu_seconds(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Works for so many seconds of the thread's CPU time. */
static inline __attribute__((always_inline)) void burn(double seconds)
{
	double end = cpu_seconds() + seconds;

	do {
		uint64_t x = sink;

		for (int i = 0; i < 2000; i++)
			x = x * 6364136223846793005u + 1442695040888963407u;
		sink = x;
	} while (cpu_seconds() < end);
}

/* How many timers the process has on the CPU clock of this thread; or of any. */
static inline int timers(bool any)
{
	FILE *f = fopen("/proc/self/timers", "re");
	char line[128], wanted[32];
	int found = 0;

	snprintf(wanted, sizeof(wanted), "ClockID: %d\n", (int)(~(unsigned)gettid() << 3 | 6));
	while (f && fgets(line, sizeof(line), f))
		found += any ? !strncmp(line, "ClockID:", 8) : !strcmp(line, wanted);
	if (f)
		fclose(f);
	return found;
}

/*
 * Until the recorder has given this thread a timer, which it does once the process has worked for a
 * moment.
 */
static inline void until_sampled(void)
{
	burn(0.01);
	for (int i = 0; i < 6000 && !timers(false); i++)
		usleep(10000);
}

#endif
