/*
 * correlation.h: extends CUPTI's correlation ids to 64 bits. Its own have 32 bits and wrap after 13
 * hours of eager training.
 *
 * CUPTI numbers calls in the order in which they begin. The launch side therefore notes when calls
 * enter each half (2^31) of the ids: half 0, 1, 2 … since the first call. An id and a time give the
 * 64-bit id: it lies in the half that calls were in at that time, if that half's parity equals the
 * id's highest bit. Otherwise the id belongs to the half before, because work begins after its call
 * and a kernel may have waited in a queue while calls entered the next half. It belongs to the half
 * after only if that was entered within SLACK_NS after the time (which is a GPU clock's, or noted
 * late by a slow thread), and much sooner after it than the current half was entered before it.
 *
 * A call's time is its beginning, a record's time is the beginning of its work; a record without
 * time counts as being of now. The result is wrong for work that begins more than 2^31 calls after
 * its own. A thread that enters late with an id of the half before is recognized by the id: it is
 * one of the last LATE_IDS of a half.
 */
#ifndef PITOT_CAPTURE_CUDA_CORRELATION_H
#define PITOT_CAPTURE_CUDA_CORRELATION_H

#include <stdatomic.h>

#include "base/compiler.h"

#define CORRELATION_NOW UINT64_MAX /* the time of a record that has none */

#define CORRELATION_NONE (1u << 31)

/* The half that calls are in; CORRELATION_NONE: there was no call. */
extern atomic_uint correlation_half;
void correlation_cross(uint32_t id, uint64_t now_ns);

/* Must be called when a call begins. Any thread; on the launch path. */
static inline void correlation_enter(uint32_t id, uint64_t now_ns)
{
	unsigned half = atomic_load_explicit(&correlation_half, memory_order_relaxed);

	if (unlikely((half ^ id >> 31) & (CORRELATION_NONE | 1)))
		correlation_cross(id, now_ns);
}

/*
 * Returns the 64-bit id of a call, or of work that began at time_ns (CLOCK_MONOTONIC). 0, which
 * means none, stays 0. Collector's thread.
 */
uint64_t correlation_widen(uint32_t id, uint64_t time_ns);

/* Called in the child of a fork, where ids start again. */
void correlation_reset(void);

#endif
