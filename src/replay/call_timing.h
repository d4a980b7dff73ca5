/*
 * call_timing.h: what calls of the CUDA driver take in this process, in a loop of its own: launches
 * of a short kernel, and synchronizations that have nothing to wait for.
 *
 * Between two launches the loop writes to more memory than the first cache has, as programs do:
 * recording a call costs more when its code and data are not cached. That time is part of
 * `launch_ns`, which is therefore only good for comparing two processes.
 */
#ifndef PITOT_REPLAY_CALL_TIMING_H
#define PITOT_REPLAY_CALL_TIMING_H

#include "system/calibration.h"

#define CALL_TIMING_LAUNCHES 4096u /* that are measured; fewer come before */

/*
 * Sets launch_ns and synchronize_ns to 10th percentiles of what calls took, since what disturbs a
 * loop only makes it slower, and describes the first GPU, on which the loop runs. E_UNSUPPORTED: no
 * driver, no GPU, or a call of the driver failed.
 */
int call_timing_measure(struct calibration *out, struct error *e) MUST_USE;

#endif
