/* burn.h: work of a known length, for programs that are sampled. */
#ifndef PITOT_TESTS_BURN_H
#define PITOT_TESTS_BURN_H

#include <stdint.h>
#include <time.h>

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

#endif
