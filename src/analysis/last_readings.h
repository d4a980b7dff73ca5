/*
 * last_readings.h: what GPUs said when a dump was made or a process died: the last reading of each
 * metric before that moment, if it is at most LAST_READING_AGE_NS older, and the last Xid.
 */
#ifndef PITOT_ANALYSIS_LAST_READINGS_H
#define PITOT_ANALYSIS_LAST_READINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "system/metrics.h"

#define LAST_READING_AGE_NS UINT64_C(5000000000)
#define LAST_XID_AGE_NS UINT64_C(60000000000)

struct last_reading {
	uint64_t time_ns; /* 0: there is none */
	int64_t value; /* in the decimals of the metric */
};

struct gpu_last_readings {
	struct last_reading at[METRIC_GPU_END]; /* by id of the metric */
};

struct last_readings {
	struct gpu_last_readings *gpus; /* as report.gpus; NULL: nothing had not ended */
	uint64_t seen_ns; /* the moment: the newest row of `unfinished` */
	const char *refusal; /* why the GPUs could not be read then; "": they were, or nobody did */
};

#endif
