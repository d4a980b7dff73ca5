/*
 * quick_clock.h: CLOCK_MONOTONIC for threads that ask for it again and again. For some 20 us after
 * a reading of the clock the processor's own counter says how much later it is, in less than half
 * the time; who asks less often than that has the clock itself.
 *
 * The counter's rate is measured, and every such span is compared with the clock: where that runs
 * differently from then on (slewed, or of a tape), the clock is read until the rate is known anew.
 * A quick reading is some ns before the clock, never after it, and never before the reading before.
 */
#ifndef PITOT_BASE_QUICK_CLOCK_H
#define PITOT_BASE_QUICK_CLOCK_H

#include <stdatomic.h>

#include "base/clock.h"
#include "base/compiler.h"

#define QUICK_CLOCK_TICKS 65536u

/* One thread's; zeroed at first. */
struct quick_clock {
	uint64_t ns,
		ticks; /* of the last reading of the clock; ticks 0: the next one reads it too */
};

/* ns per tick, times 2^32; 0: unknown. */
extern atomic_uint_fast64_t quick_clock_rate;

uint64_t quick_clock_read(struct quick_clock *c);

/* Now and then, from one thread: measures the rate where that is unknown. */
void quick_clock_calibrate(void);

static inline uint64_t quick_clock_ticks(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

static inline uint64_t quick_clock_ns(struct quick_clock *c)
{
	uint64_t rate = atomic_load_explicit(&quick_clock_rate, memory_order_relaxed), passed;

	if (likely(rate && c->ticks)) {
		passed = quick_clock_ticks() - c->ticks;
		if (likely(passed < QUICK_CLOCK_TICKS))
			return c->ns + (passed * rate >> 32);
	}
	return quick_clock_read(c);
}

#endif
