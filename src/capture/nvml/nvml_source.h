/*
 * nvml_source.h: utilization, clocks, power, temperature, memory and energy of the GPUs that the process uses, read from NVML
 * (libnvidia-ml, found at run time) on the vendor thread, into the tables counter (ids 1 to NVML_COUNTERS) and counter_sample.
 *
 * A counter whose function is missing, or that a GPU does not support, is left out, and a capability row says so; the others go
 * on. NVML is never shut down: the process may be dying, and others in it may use NVML. Where several processes of a recording
 * use one GPU, the first of them reads it.
 */
#ifndef PITOT_CAPTURE_NVML_NVML_SOURCE_H
#define PITOT_CAPTURE_NVML_NVML_SOURCE_H

#include "capture/source.h"

#define NVML_COUNTERS 8
#define NVML_DEVICES_MAX 64

extern const struct source nvml_source;

#endif
