/*
 * pm_sampling.h: --engine pm-sampling: hardware counters of the GPUs over time, beside the trace,
 * as rows of counter and counter_sample. What the hardware or its driver refuses is in the
 * capability "engine"; the trace goes on.
 */
#ifndef PITOT_CAPTURE_ENGINES_PM_SAMPLING_H
#define PITOT_CAPTURE_ENGINES_PM_SAMPLING_H

#include "capture/cuda/vendor.h"
#include "capture/source.h"
#include "cupti/profiler_host.h"

extern const struct source pm_sampling_source;

/* CUPTI is subscribed to, or was before. Again for nothing. */
void pm_sampling_attach(const struct cupti *cupti, CUpti_SubscriberHandle subscriber);

#ifdef PITOT_HAS_PROFILER_HOST
/* On the thread that creates it. */
void pm_sampling_context_created(void);
#else /* headers of an older CUDA */
#define pm_sampling_context_created() ((void)0)
#endif

#endif
