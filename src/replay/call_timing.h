/*
 * call_timing.h: what calls of the CUDA driver take in this process, in loops of its own: launches
 * of a short kernel, synchronizations that have nothing to wait for, launches of graphs, and
 * launches like those of an eager framework; and what the GPU needs between kernels.
 *
 * Between two launches a loop writes to more memory than the first cache has, as programs do:
 * recording a call costs more when its code and data are not cached. That time is part of
 * `launch_ns` and `eager_ns`, which are therefore only good for comparing two processes.
 */
#ifndef PITOT_REPLAY_CALL_TIMING_H
#define PITOT_REPLAY_CALL_TIMING_H

#include "system/calibration.h"

/* Kernels that are measured, outside of graphs; more come before. */
#define CALL_TIMING_LAUNCHES 6144u

/*
 * Sets what calls took, and what was between kernels, in the members without _bare and _spread:
 * 10th percentiles, since what disturbs a loop only makes it slower. node_latency_ns is left
 * unknown. Describes the first GPU, on which the loops run. E_UNSUPPORTED: no driver, no GPU, or a
 * call of the driver failed.
 */
int call_timing_measure(struct calibration *out, struct error *e) MUST_USE;

#endif
