/* clock.h: reads the clocks of a recording, in nanoseconds. */
#ifndef PITOT_BASE_CLOCK_H
#define PITOT_BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Multiplies timeouts. Builds with sanitizers are slower and set it above 1. */
#ifndef PITOT_SLOWNESS
#define PITOT_SLOWNESS 1
#endif

#define NS_PER_US UINT64_C(1000)
#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_S UINT64_C(1000000000)

/* Reads all clocks: clock_gettime(), until clock_use_libc(). */
extern int (*clock_function)(clockid_t clock, struct timespec *t);

/*
 * From now on reads the C library's own clock, not that of a preloaded library that fakes the time.
 * If the program itself defines clock_gettime(), as a tape player does, its clock stays.
 */
void clock_use_libc(void);

static inline uint64_t clock_read_ns(clockid_t clock)
{
	struct timespec t;

	clock_function(clock, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/* The clock of all timestamps in a recording. */
static inline uint64_t clock_monotonic_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

/*
 * Reads the machine's clock, for timeouts. While a tape is played, clock_gettime() returns the
 * tape's time, which stands still at its end.
 */
static inline uint64_t clock_machine_ns(void)
{
	struct timespec t;

	syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

/*
 * Whether the clock that is read is not the machine's: a tape player's. Durations measured with it
 * are then meaningless.
 */
static inline bool clock_is_replaced(void)
{
	uint64_t before = clock_machine_ns(), now = clock_monotonic_ns();

	return now < before || now > clock_machine_ns();
}

/* Returns the timer tick of the operating system's kernel. */
static inline uint64_t clock_tick_ns(void)
{
	struct timespec t = { 0 };

	clock_getres(CLOCK_MONOTONIC_COARSE, &t);
	return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

#endif
