/*
 * vendor_thread.h: the thread that makes the calls which can hang with a GPU or wait for a vendor's
 * lock: flushes, clocks, counters. The collector requests them without waiting; their results come
 * back through this thread's ring and through CUPTI's buffers.
 */
#ifndef PITOT_CAPTURE_VENDOR_THREAD_H
#define PITOT_CAPTURE_VENDOR_THREAD_H

#include <stdbool.h>

#include "capture/core/source.h"

#define HANG_NS (2 * NS_PER_S)
#define LONG_HANG_NS (60 * NS_PER_S)

/* Starts the thread, which waits for vendor_thread_begin(). Returns 0 or a negative errno. */
int vendor_thread_start(void);
void vendor_thread_begin(void);

/* Requests a round: a call of all sources' `vendor`. Returns the round's number. Any thread. */
unsigned vendor_thread_request(enum vendor_reason reason);
/* Whether that round is over. Any thread. */
bool vendor_thread_done(unsigned round);
/*
 * Waits until that round is over, at most limit_ns: the vendor thread may hang with a GPU. Any
 * thread but the vendor thread and the collector's.
 */
void vendor_thread_wait(unsigned round, uint64_t limit_ns);

/* Returns the call (a literal) that the thread has been in since *since_ns; NULL: none. */
const char *vendor_thread_current_call(uint64_t *since_ns);

/*
 * From now on calls wait for something that is known to take long, or no more: HANG_NS becomes
 * LONG_HANG_NS. Any thread.
 */
void vendor_thread_expect_long(bool does);
/* Returns how long a call may take before the GPU is said to hang. */
uint64_t vendor_thread_patience_ns(void);

/* CPU time of the thread so far. */
uint64_t vendor_thread_cpu_ns(void);

/*
 * Enclose a call that can hang. Must be called on the vendor thread, or on any other thread before
 * the vendor thread runs (then they have no effect).
 */
void vendor_enter(const char *function);
void vendor_leave(void);

/*
 * Enclose calls of a library whose destructors may run once the recorder has let the process exit.
 * vendor_hold() returns false, and must then not be followed by the call, if the recorder waits no
 * longer for the thread. Loading such a library, with process_exit_register() after it, is enclosed
 * with `loads`: if the process begins to exit meanwhile, the destructors come before the recorder's
 * own exit handler, and the library is never called again.
 */
bool vendor_hold(bool loads);
void vendor_let(bool loads);
/* Called when the process begins to exit. */
void vendor_thread_exit_begins(void);

/*
 * Called when the collector ends: ends the thread as well, unless it hangs in a call. What is
 * between vendor_hold() and vendor_let() is waited for, 100 ms at most.
 */
void vendor_thread_stop(void);

void vendor_thread_after_fork(void);

#endif
