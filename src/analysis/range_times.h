/*
 * range_times.h: ranges by their text: how often, how long, and the GPU time of the work that was
 * launched inside them. Work counts in every range around its launch, once for each text; which
 * ranges those are, nvtx_ranges.h says. A carried range counts as the one that it carries on.
 */
#ifndef PITOT_ANALYSIS_RANGE_TIMES_H
#define PITOT_ANALYSIS_RANGE_TIMES_H

#include "analysis/nvtx_ranges.h"
#include "analysis/stats.h"

struct range_group {
	uint32_t message; /* string id; 0: ranges without a text */
	uint64_t count; /* ranges that began in the window */
	uint64_t open; /* of them, those that never ended: in no time below */
	struct duration_stats time; /* from push to pop, or from start to end */
	/* some were pushed: of the others, which cross threads, the work is not known */
	bool launches;
	uint64_t work, gpu_ns; /* pieces of work that were launched inside, and their sum */
};

struct range_times {
	struct range_group *items; /* by GPU time, then by time */
	size_t count;
	uint64_t ranges;
	uint64_t gpu_ns; /* of all work that the selection wants */
	uint64_t outside_ns; /* of it, launched outside of all ranges, or where that is not known */
};

#endif
