/*
 * vendor_thread.h: the thread that makes the calls which can hang with a GPU or wait for a vendor's
 * lock: flushes, clocks, counters. The collector asks it and goes on; what it finds out comes back
 * through its ring and through CUPTI's buffers.
 */
#ifndef PITOT_CAPTURE_VENDOR_THREAD_H
#define PITOT_CAPTURE_VENDOR_THREAD_H

#include <stdbool.h>

#include "capture/source.h"

/* Starts the thread, which does nothing before vendor_thread_begin(). 0 or a negative errno. */
int vendor_thread_start(void);
void vendor_thread_begin(void);

/* Asks for a round of all sources' `vendor`. Returns the round's number. Any thread. */
unsigned vendor_thread_request(enum vendor_reason reason);
/* Whether that round is over. Any thread. */
bool vendor_thread_done(unsigned round);
/*
 * Waits for that, at most so long: the thread may hang with a GPU. Any thread but that and the
 * collector's.
 */
void vendor_thread_wait(unsigned round, uint64_t limit_ns);

/* The thread is in this call (a literal) since then; NULL: in none. */
const char *vendor_thread_in(uint64_t *since_ns);

/* CPU time of the thread so far. */
uint64_t vendor_thread_cpu_ns(void);

/*
 * Around a call that can hang. On the vendor thread, or on any other before that runs (then without
 * effect).
 */
void vendor_enter(const char *function);
void vendor_leave(void);

/* The collector ends: the thread does, too, if it is in no call that hangs. */
void vendor_thread_stop(void);

void vendor_thread_after_fork(void);

#endif
