/*
 * app_additions.h: what threads add to the program's counters, by the scope in which they add it.
 *
 * A thread adds to its own sums, in its ring's memory, which only grow by what it adds. Bits say to
 * which counters it has added since its last push or pop of a range. Before the next push or pop,
 * it puts the sums of these counters into its ring, so they stand between the events of the range
 * in which they were added. The collector writes the difference to the sums before: a row of
 * counter_addition, whose thread and time lead to the scope, as those of a call do. In a range that
 * stays open, the collector reads the sums themselves at each tick. It knows that they belong to
 * the same range if it has consumed all sums that the thread has put into the ring. The time of a
 * row is that of the push or pop before the additions, or of the collector's last tick after it:
 * an addition reads no clock.
 *
 * Threads without a ring share a sum for each counter, whose rows have no thread. Nor have rows of
 * sums that found no room in the ring (`mixed`): they belong to several ranges.
 *
 * RING_ADDITIONS, one slot: a range_ns; b sum; c counter; d, e count, its low and its high half;
 * flags 1: mixed.
 */
#ifndef PITOT_CAPTURE_APP_APP_ADDITIONS_H
#define PITOT_CAPTURE_APP_APP_ADDITIONS_H

#include "capture/core/source.h"

/* For the calling thread's ring, and counters that exist. */
void additions_without_ring(uint32_t counter, int64_t by);
void additions_push(struct ring *r);

/* Must be called before the thread puts a push or a pop of a range into its ring. */
static inline void additions_leave_range(struct ring *r)
{
	if (unlikely(atomic_load_explicit(&r->added_words, memory_order_relaxed)))
		additions_push(r);
}

static inline void additions_mark(struct ring *r, uint32_t counter)
{
	counter_set_bits_here(&r->added[counter / 64], UINT64_C(1) << counter % 64);
	counter_set_bits_here(&r->added_words, UINT64_C(1) << counter / 64);
}

/* Must be called after that, with the event's time. */
static inline void additions_enter_range(struct ring *r, uint64_t time_ns)
{
	atomic_store_explicit(&r->range_ns, time_ns, memory_order_release);
}

/* An addition comes before its bit: if a signal handler pushes in between, it is pushed later. */
static inline void additions_add(struct ring *r, uint32_t counter, int64_t by)
{
	struct ring_addition *a = &r->additions[counter];

	counter_add_here(&a->sum, (uint64_t)by);
	counter_add_here(&a->count, 1);
	if (unlikely(!(atomic_load_explicit(&r->added[counter / 64], memory_order_relaxed) >>
			       counter % 64 &
		       1)))
		additions_mark(r, counter);
}

/* --- the collector's thread --- */

/* Receives what was added to a counter: `tid` is 0 if the thread or its range is unknown. */
typedef void additions_write(struct writer *w, uint32_t counter, uint32_t tid, uint64_t time_ns,
			     int64_t sum, uint64_t count);

/* Passes on a RING_ADDITIONS. */
void additions_event(struct writer *w, const struct ring *r, uint64_t position,
		     additions_write *write);
/*
 * Passes on what threads have added to the first `counters` counters and not put into their rings.
 * Returns the number of rings that have to be read again.
 */
uint64_t additions_collect(struct writer *w, uint64_t now_ns, uint32_t counters,
			   additions_write *write);
/*
 * Passes on, without a thread, what is left of an earlier recording, before the collector begins.
 */
void additions_forget(uint32_t counters, additions_write *write);

#endif
