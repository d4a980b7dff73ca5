/*
 * pc_sampling.h: --engine pc-sampling: samples what warps of kernels wait for, and at which
 * instruction, in addition to the trace (tables pc_reading, pc_sample and cubin). If the hardware
 * or its driver refuses, the capability "engine" says why, and the trace goes on.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_SAMPLING_H
#define PITOT_CAPTURE_ENGINES_PC_SAMPLING_H

#include <stdbool.h>

#include "capture/cuda/hub/hub.h"
#include "capture/core/source.h"

extern const struct source pc_sampling_source;
extern const struct hub_client pc_sampling_client;

/* Whether a value of the setting "engine" includes PC sampling. */
static inline bool pc_sampling_is(int engine)
{
	return engine == SETTING_ENGINE_PC_SAMPLING || engine == SETTING_ENGINE_DEEP;
}

#endif
