/*
 * pm_sampling.h: --engine pm-sampling: samples hardware counters of the GPUs over time, in addition
 * to the trace (tables counter and counter_sample). If the hardware or its driver refuses, the
 * capability "engine" says why, and the trace goes on.
 */
#ifndef PITOT_CAPTURE_ENGINES_PM_SAMPLING_H
#define PITOT_CAPTURE_ENGINES_PM_SAMPLING_H

#include "capture/cuda/hub/hub.h"
#include "capture/core/source.h"
#include "cupti/profiler_host.h"

extern const struct source pm_sampling_source;
extern const struct hub_client pm_sampling_client;

#endif
