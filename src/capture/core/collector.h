/*
 * collector.h: the thread that takes events from the rings and from the sources, turns them into
 * rows, and has them written. It makes no blocking call except write(2) (the vendor thread makes
 * the others), and sleeps while CPU and GPU are idle.
 */
#ifndef PITOT_CAPTURE_COLLECTOR_H
#define PITOT_CAPTURE_COLLECTOR_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "capture/core/source.h"

/*
 * Events reach the disk within this time. Where nobody holds the shared area, SIGKILL loses no more
 * than that, plus the kernels in the buffer that CUPTI has open (buffers.h).
 */
#define COLLECTOR_SEAL_NS (200 * NS_PER_MS)
/*
 * Starts this thread and the vendor thread, with all signals blocked. Both wait for
 * collector_begin. Returns 0 or a negative errno.
 */
int collector_start(void);

/* Lets the threads begin once the sources have started. `w` must outlive the collector. */
void collector_begin(struct writer *w, const struct source_start *start);

/*
 * Asks the thread to end in order, for VENDOR_CLOSE or VENDOR_EXIT, and waits until it has: at most
 * limit_ns, and no longer than a second without progress. VENDOR_EXIT: also until all sessions that
 * ended before are on disk. Returns true if that is so. Async-signal-safe, for signal handlers; may
 * be called several times.
 */
bool collector_stop(uint64_t limit_ns, enum vendor_reason reason);

/*
 * Waits until everything recorded so far is on disk, finished GPU work included unless the GPU
 * hangs. Returns 0, also if nothing is being recorded; -ETIMEDOUT after limit_ns; or the negative
 * errno for which rows are being lost. May be called on any thread except the recorder's.
 */
int collector_flush(uint64_t limit_ns);

/*
 * Called on the collector's thread, when everything is written because the process ends and before
 * collector_stop() returns. NULL: nothing.
 */
extern void (*_Atomic collector_at_exit)(void);
/* A signal that the thread sends to the process when it has ended; 0: none. */
extern atomic_int collector_signal;

/* True between collector_begin and the end of the thread. */
bool collector_running(void);
/* True from collector_stop() on, while it is still running. */
bool collector_ending(void);

/* Called in the child of a fork, where the thread does not exist. */
void collector_after_fork(void);

#endif
