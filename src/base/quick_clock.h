/*
 * quick_clock.h: CLOCK_MONOTONIC for threads that read it often, in less than half the time. For
 * about 20 us after reading the clock, the time stamp counter tells how much later it is. A thread
 * that reads less often reads the clock itself.
 *
 * The counter's rate is measured, and each span is compared with the clock. When they disagree (the
 * clock is slewed, or a tape's), the clock is read directly until the rate is measured anew. A
 * quick reading may be some ns behind the clock; it is never ahead of it or before the previous
 * reading.
 */
#ifndef PITOT_BASE_QUICK_CLOCK_H
#define PITOT_BASE_QUICK_CLOCK_H

#include <stdatomic.h>

#include "arch/processor.h"
#include "base/clock.h"
#include "base/compiler.h"

#define QUICK_CLOCK_TICKS 65536u

/* State of one thread; starts zeroed. */
struct quick_clock {
	uint64_t ns,
		/*
		 * last reading of the clock and of the counter; ticks 0: read the clock next time
		 */
		ticks;
};

/* ns per tick, times 2^32; 0: unknown. */
extern atomic_uint_fast64_t quick_clock_rate;

uint64_t quick_clock_read(struct quick_clock *c);

/* Measures the rate while it is unknown. Must be called now and then, on one thread only. */
void quick_clock_calibrate(void);

static inline uint64_t quick_clock_ns(struct quick_clock *c)
{
	uint64_t rate = atomic_load_explicit(&quick_clock_rate, memory_order_relaxed), passed;

	if (likely(rate && c->ticks)) {
		passed = arch_ticks() - c->ticks;
		if (likely(passed < QUICK_CLOCK_TICKS))
			return c->ns + (passed * rate >> 32);
	}
	return quick_clock_read(c);
}

#endif
