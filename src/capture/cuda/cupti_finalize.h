/*
 * cupti_finalize.h: ends CUPTI in the process when a recording is left, so that the program goes on
 * as if it had never been recorded. Unsubscribing is not enough: on an H200 with CUPTI 13.0 a
 * launch then takes 20 % longer than before, for good; after cuptiFinalize nothing shows. CUPTI
 * begins anew when somebody subscribes again.
 *
 * CUPTI is finalized where a call of the driver ends, as its documentation recommends. It then
 * waits for the work of all contexts and holds up the calls of all threads, so that must not be
 * done while work may never end, or a stream is being captured, which waiting would break. This is
 * so where one of the program's own calls has just waited for the GPU and succeeded. If there is no
 * such call in CALL_NS, and no call at all, the vendor thread makes one itself, one that does
 * nothing (cuDeviceGetCount).
 *
 * CUPTI stays where that could harm: see refusal_of() and may_wait(). What stays costs time, so it
 * is said: by a row of `capability`, and REFUSAL_LEAVING.
 */
#ifndef PITOT_CAPTURE_CUDA_CUPTI_FINALIZE_H
#define PITOT_CAPTURE_CUDA_CUPTI_FINALIZE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "capture/cuda/hub/hub.h"
#include "capture/cuda/vendor.h"

/* The client of the hub that hears of calls that wait. */
extern const struct hub_client finalize_client;

/* What is known of the work that was launched in the recording. */
struct launched_work {
	atomic_bool is_under_way; /* calls launched work whose records have not come */
	atomic_bool has_captured; /* some of these calls may have been captured, not launched */
	atomic_bool has_ended; /* some of it */
};

struct finalize_how {
	const struct cupti *cupti;
	const struct driver *driver;
	/* Returns who else uses CUPTI, as a reason; NULL: nobody. Any thread; never waits. */
	const char *(*used_by)(void);
	const char *engine; /* it has used CUPTI's profilers; NULL: none has */
	const struct launched_work *work;
};

/*
 * Finalizes CUPTI, which the recorder is subscribed to, and for which nothing is enabled any more.
 * Returns whether it has done so; otherwise the subscription is as it was. Does not return while
 * cuptiFinalize does not. On the vendor thread.
 */
bool cupti_finalize(const struct finalize_how *how);

/*
 * Enclose calls by which the program's own profiler begins to use CUPTI. The first one cancels a
 * finalization that has not begun, and waits for one that has. Any thread.
 */
void cupti_finalize_hold(void);
void cupti_finalize_let(void);

/* Called in the child of a fork. */
void cupti_finalize_after_fork(void);

#endif
