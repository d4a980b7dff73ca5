/*
 * collector.h: the one thread of Pitot inside the target. It takes events from the rings and buffers from CUPTI, makes
 * rows of them, and writes blocks. It sleeps while nothing happens.
 */
#ifndef PITOT_CAPTURE_COLLECTOR_H
#define PITOT_CAPTURE_COLLECTOR_H

#include <stdbool.h>

#include "base/clock.h"
#include "capture/settings.h"
#include "format/writer.h"

struct collector_start {
	struct settings settings;
	struct writer *writer;		/* owned by the collector from now on */
	uint64_t setup_ns;		/* what starting cost the target's thread */
	uint64_t setup_start_ns;
	bool cuda;			/* the CUDA source was started, perhaps in vain: it has something to say */
};

/* Starts the thread with all signals blocked. 0 or a negative errno; then the caller still owns the writer. */
int collector_start(const struct collector_start *start);

/* The CUDA source was started after the collector (NVTX came first). */
void collector_cuda_started(void);

/*
 * Asks the thread to end in order and waits until it has: at most limit_ns, and no longer than its patience without
 * progress. true when it ended. Async-signal-safe, so that a handler may call it; may be called several times.
 *
 * A call of CUPTI takes milliseconds or hangs with the GPU: none waits for what the GPU does. One write can take longer
 * than that on a disk that is slow or busy, and is all that is left to do. All takes longer in a build with sanitizers.
 */
#ifndef PITOT_SLOWNESS
#define PITOT_SLOWNESS 1
#endif
#define COLLECTOR_VENDOR_PATIENCE_NS (PITOT_SLOWNESS * 200 * NS_PER_MS) /* in a call of a vendor's library */
#define COLLECTOR_PATIENCE_NS (PITOT_SLOWNESS * NS_PER_S) /* in anything else */
bool collector_stop(uint64_t limit_ns);

/* Before and after such a call, on the collector's thread. */
void collector_in_vendor(bool in);
/* Something goes on in such a call. Any thread. */
void collector_moved(void);

bool collector_running(void);

/* In the child of a fork: there is no such thread here. */
void collector_after_fork(void);

#endif
