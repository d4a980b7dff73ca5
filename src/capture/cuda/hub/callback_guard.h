/*
 * callback_guard.h: callbacks that call CUPTI themselves, for ids of streams, graphs and contexts.
 * CUPTI must not be finalized while a thread does so.
 *
 * A callback sets a mark in its thread's ring, without a barrier: the one who closes the guard has
 * all threads execute one instead (membarrier), and then reads the marks.
 */
#ifndef PITOT_CAPTURE_CUDA_HUB_CALLBACK_GUARD_H
#define PITOT_CAPTURE_CUDA_HUB_CALLBACK_GUARD_H

#include "capture/core/ring.h"

extern atomic_bool callback_guard_closed;

static inline void callback_guard_leave(struct ring *r)
{
	if (r)
		atomic_store_explicit(&r->in_cupti, false, memory_order_release);
}

/*
 * Encloses, with callback_guard_leave(), calls of CUPTI in a callback on the ring's thread; r NULL:
 * the thread has none. Returns false if CUPTI must not be called.
 */
static inline bool callback_guard_enter(struct ring *r)
{
	if (r)
		atomic_store_explicit(&r->in_cupti, true, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	if (likely(!atomic_load_explicit(&callback_guard_closed, memory_order_relaxed)))
		return true;
	callback_guard_leave(r);
	return false;
}

/* No callback enters from now on; callback_guard_is_empty() says when the last one has left. */
void callback_guard_close(void);
bool callback_guard_is_empty(void);
void callback_guard_open(void);

#endif
