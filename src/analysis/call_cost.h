/* call_cost.h: what is known of the cost that recording adds to the calls of a process. */
#ifndef PITOT_ANALYSIS_CALL_COST_H
#define PITOT_ANALYSIS_CALL_COST_H

#include "system/calibration.h"
#include "trace/trace.h"

/*
 * Whether the process was recorded on the calibrated machine. E_UNSUPPORTED describes the
 * difference. Table device has been loaded.
 */
int calibration_fits(const struct calibration *c, const struct trace *t, size_t process,
		     struct error *e) MUST_USE;

/* Finds the calibration of the recording that fits the process. 1, 0: none, or a negative code. */
int calibration_recorded(struct calibration *c, struct trace *t, size_t process,
			 struct error *e) MUST_USE;

#endif
