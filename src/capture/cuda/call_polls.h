/*
 * call_polls.h: queries of events and streams, which a thread may make a million times a second.
 *
 * A thread that queries until its work is done waits. One event stands for such a wait: that of the
 * query that found the work done, with the start of the thread's first query since its last other
 * call. Queries that find work unfinished, or that never found it unfinished before, leave none.
 */
#ifndef PITOT_CAPTURE_CUDA_CALL_POLLS_H
#define PITOT_CAPTURE_CUDA_CALL_POLLS_H

#include "capture/core/ring.h"

/* A query that begins later than this after the one before begins another wait. */
#define CALL_POLL_NS UINT64_C(100000)
#define CALL_NOT_READY 600u /* of both APIs */

/*
 * Counts a query of a handle from start_ns to end_ns, on the ring's thread. Returns the start of
 * the wait that it ends; 0: it ends none.
 */
uint64_t call_poll(struct ring *r, uint64_t handle, bool done, uint64_t start_ns, uint64_t end_ns);

#endif
