/*
 * range_times.h: ranges by text: number, duration, and GPU time of the work launched inside. Work
 * counts in every range around its launch (nvtx_ranges.h), once for each text. A carried range
 * counts as the range that it continues.
 */
#ifndef PITOT_ANALYSIS_RANGE_TIMES_H
#define PITOT_ANALYSIS_RANGE_TIMES_H

#include "analysis/nvtx_ranges.h"
#include "analysis/stats.h"

struct range_group {
	uint32_t message; /* string id; 0: ranges without a text */
	uint64_t count; /* ranges that began in the window */
	uint64_t open; /* of these, ranges that never ended; not included in `time` */
	struct duration_stats time; /* from push to pop, or from start to end */
	/* some were pushed; the work of start/end ranges, which cross threads, is unknown */
	bool launches;
	uint64_t work, gpu_ns; /* number and total duration of the work launched inside */
};

struct range_times {
	struct range_group *items; /* by GPU time, then by time */
	size_t count;
	uint64_t ranges;
	uint64_t gpu_ns; /* of all selected work */
	uint64_t outside_ns; /* of work launched outside of all ranges, or with an unknown launch */
};

#endif
