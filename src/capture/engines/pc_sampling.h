/*
 * pc_sampling.h: --engine pc-sampling: samples what warps of kernels wait for, and at which
 * instruction, in addition to the trace (tables pc_reading, pc_sample and cubin). If the hardware
 * or its driver refuses, the capability "engine" says why, and the trace goes on.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_SAMPLING_H
#define PITOT_CAPTURE_ENGINES_PC_SAMPLING_H

#include <stdbool.h>

#include "capture/cuda/vendor.h"
#include "capture/core/source.h"

extern const struct source pc_sampling_source;

/* Whether a value of the setting "engine" includes PC sampling. */
static inline bool pc_sampling_is(int engine)
{
	return engine == SETTING_ENGINE_PC_SAMPLING || engine == SETTING_ENGINE_DEEP;
}

/*
 * Enables the engine's callbacks: contexts that are created from now on are sampled. `late`:
 * contexts may exist already. Idempotent. On the thread that subscribes, or the vendor thread.
 */
void pc_sampling_attach(const struct cupti *cupti, CUpti_SubscriberHandle subscriber, bool late);
/*
 * Detaches before the subscription ends. Returns false if contexts are still sampled: then the
 * subscription must stay. Vendor thread, after `vendor` of pc_sampling_source.
 */
bool pc_sampling_detach(void);

/* Handles a callback of the resource domain, on the thread that caused it. */
void pc_sampling_callback(CUpti_CallbackId cbid, const CUpti_ResourceData *data);

/*
 * The calling thread begins or ends a driver call that loads or unloads code. CUPTI's function
 * tables change meanwhile, so no samples are read. Code that a launch loads lazily is not
 * announced.
 */
void pc_sampling_module_call(bool begins, uint32_t correlation);

#endif
