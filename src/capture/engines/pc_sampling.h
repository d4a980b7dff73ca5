/*
 * pc_sampling.h: --engine pc-sampling: what warps of kernels wait for, and where, beside the trace.
 * Tables pc_reading, pc_sample and cubin. What the hardware or its driver refuses is in the
 * capability "engine"; the trace goes on.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_SAMPLING_H
#define PITOT_CAPTURE_ENGINES_PC_SAMPLING_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"
#include "capture/source.h"

extern const struct source pc_sampling_source;

/* A value of the setting has it. */
static inline bool pc_sampling_is(int engine)
{
	return engine == SETTING_ENGINE_PC_SAMPLING || engine == SETTING_ENGINE_DEEP;
}

/*
 * CUPTI is subscribed to: contexts that are created from now on are sampled. `late`: there may be
 * contexts already. Again for nothing. On the thread that subscribes, or the vendor thread.
 */
void pc_sampling_attach(const struct cupti *cupti, CUpti_SubscriberHandle subscriber, bool late);
/*
 * The subscription is to end. false: contexts are sampled, so it must stay. Vendor thread, after
 * pc_sampling_source's.
 */
bool pc_sampling_detach(void);

/* A callback of the resource domain, on the thread that it is about. */
void pc_sampling_callback(CUpti_CallbackId cbid, const CUpti_ResourceData *data);

/*
 * The calling thread begins or ends a call of the driver that loads or unloads code: CUPTI's tables
 * of functions change, and no samples are read meanwhile. Code that a launch loads lazily is not
 * announced.
 */
void pc_sampling_module_call(bool begins);

#endif
