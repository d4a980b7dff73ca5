/*
 * collector.h: the thread that takes events from the rings and from the sources, makes rows of
 * them, and has them written. It calls nothing that can block but write(2) (vendor_thread.h does),
 * and sleeps while nothing happens on CPU and GPU.
 */
#ifndef PITOT_CAPTURE_COLLECTOR_H
#define PITOT_CAPTURE_COLLECTOR_H

#include <stdbool.h>

#include "base/clock.h"
#include "capture/source.h"

/*
 * What the recorder has is on disk no later than this: SIGKILL costs no more of it, and of kernels
 * what is in the buffer that CUPTI has open (buffers.h).
 */
#define COLLECTOR_SEAL_NS (200 * NS_PER_MS)
/*
 * Starts the thread, and the vendor thread, with all signals blocked. Both do nothing yet. 0 or a
 * negative errno.
 */
int collector_start(void);

/* The sources have started, and the threads begin. `w` must stay until the collector has ended. */
void collector_begin(struct writer *w, const struct source_start *start);

/*
 * Asks the thread to end in order, for VENDOR_CLOSE or VENDOR_EXIT, and waits until it has: at most
 * limit_ns, and no longer than a second without progress. true when it ended. Async-signal-safe, so
 * that a handler may call it; may be called several times.
 */
bool collector_stop(uint64_t limit_ns, enum vendor_reason reason);

/*
 * Waits until what was recorded so far is on disk: finished GPU work, too, if the GPU does not
 * hang. 0, also where nothing is being recorded; -ETIMEDOUT: it is not, after limit_ns; or the
 * negative errno for which rows are being lost. Any thread but ours.
 */
int collector_flush(uint64_t limit_ns);

/* Something goes on: for those who wait for the end. Any thread. */
void collector_moved(void);

/* Between collector_begin and the thread's end. */
bool collector_running(void);

/* In the child of a fork: there is no such thread here. */
void collector_after_fork(void);

#endif
