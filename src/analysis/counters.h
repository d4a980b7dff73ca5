/*
 * counters.h: hardware counters of measured launches, by kernel and metric.
 *
 * The mean of a rate or share (per second, per cycle, percent of a peak, ratio) is weighted by the
 * duration of the launches. Amounts (bytes, instructions, cycles) are per launch, and each launch
 * has equal weight. The duration of a launch is gpu__time_duration.sum if that was measured, else
 * that of its record: replayed kernels often have records without times.
 */
#ifndef PITOT_ANALYSIS_COUNTERS_H
#define PITOT_ANALYSIS_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/counted_kernels.h"
#include "analysis/roofline.h"

struct counters {
	/* by kernel, ranges behind kernels, those with most measured time first */
	struct counter_of_kernel *items;
	size_t count;
	struct counted_kernel *kernels; /* in the same order */
	size_t kernel_count;
	struct roofline roofline;
	uint64_t launches, measurements; /* of kernels; of ranges; measured and selected */
	size_t range_count; /* of `kernels` */
	uint64_t rows; /* in the recording, selected or not */
};

/* "kernel", "NVTX range" */
const char *counted_kind_name(unsigned kind);
/* "speed of light" */
const char *counter_group_name(unsigned group);

#endif
