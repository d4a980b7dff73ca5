/*
 * pm_sampling.h: --engine pm-sampling: samples hardware counters of the GPUs over time, in addition
 * to the trace (tables counter and counter_sample). If the hardware or its driver refuses, the
 * capability "engine" says why, and the trace goes on.
 */
#ifndef PITOT_CAPTURE_ENGINES_PM_SAMPLING_H
#define PITOT_CAPTURE_ENGINES_PM_SAMPLING_H

#include "capture/cuda/vendor.h"
#include "capture/core/source.h"
#include "cupti/profiler_host.h"

extern const struct source pm_sampling_source;

/* Enables the engine once CUPTI is subscribed to. Idempotent for the same subscription. */
void pm_sampling_attach(const struct cupti *cupti, CUpti_SubscriberHandle subscriber);

#ifdef PITOT_HAS_PROFILER_HOST
/* Called on the thread that has created a context. */
void pm_sampling_context_created(void);
#else /* headers of an older CUDA */
#define pm_sampling_context_created() ((void)0)
#endif

#endif
