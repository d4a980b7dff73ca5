/*
 * correlation.h: makes 64-bit correlation ids of CUPTI's, which are 32 bits and wrap after 13 hours
 * of eager training.
 *
 * CUPTI numbers calls in the order in which they begin. So the launch side notes when it enters
 * each half (2^31) of the ids: half 0, 1, 2 … since the first call. An id and a time give the
 * 64-bit id: the half in which calls were at that time, if its parity is that of the id's highest
 * bit. If not, the id belongs to the half before: work begins after its call, and a kernel may have
 * waited in a queue while the next half was entered. Only where the half after was entered within
 * SLACK_NS after that time (of a GPU's clock, or of a thread that was slow to note it), and much
 * sooner than the last one was before it, it is that one.
 *
 * A call has the time of its beginning, a record that of the work's beginning; a record without any
 * is taken to be of now. Wrong would be work that begins after 2^31 later calls. A thread that is
 * late with an id of the half before is known by its id: one of the last LATE_IDS of a half.
 */
#ifndef PITOT_CAPTURE_CUDA_CORRELATION_H
#define PITOT_CAPTURE_CUDA_CORRELATION_H

#include <stdatomic.h>

#include "base/compiler.h"

#define CORRELATION_NOW UINT64_MAX /* the time of a record that has none */

#define CORRELATION_NONE (1u << 31)

/* The half in which calls are now; CORRELATION_NONE: there was none. */
extern atomic_uint correlation_half;
void correlation_cross(uint32_t id, uint64_t now_ns);

/* A call begins. Any thread; on the launch path. */
static inline void correlation_enter(uint32_t id, uint64_t now_ns)
{
	unsigned half = atomic_load_explicit(&correlation_half, memory_order_relaxed);

	if (unlikely((half ^ id >> 31) & (CORRELATION_NONE | 1)))
		correlation_cross(id, now_ns);
}

/*
 * The 64-bit id of a call, or of work that began at that time (CLOCK_MONOTONIC). 0 stays 0: there
 * is none. Collector's thread.
 */
uint64_t correlation_widen(uint32_t id, uint64_t time_ns);

/* In the child of a fork, where ids begin anew. */
void correlation_reset(void);

#endif
