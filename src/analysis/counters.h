/*
 * counters.h: hardware counters of launches that were measured, by kernel and metric.
 *
 * What is a rate or a share (per second, per cycle, percent of a peak, ratio) has a mean that is
 * weighted by how long the launches took; amounts (bytes, instructions, cycles) are of a launch, so
 * each launch counts alike. A launch took gpu__time_duration.sum where that was measured, else as
 * long as its record says: kernels that are replayed often have records without times.
 */
#ifndef PITOT_ANALYSIS_COUNTERS_H
#define PITOT_ANALYSIS_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/roofline.h"

/* What a metric is about. */
enum counter_group {
	COUNTER_SPEED_OF_LIGHT,
	COUNTER_COMPUTE,
	COUNTER_MEMORY,
	COUNTER_OCCUPANCY,
	COUNTER_OTHER,
};

/* Shares of a peak by which kernels are compared. */
enum counter_share {
	SHARE_SM,
	SHARE_MEMORY, /* the busiest of its units */
	SHARE_DRAM,
	SHARE_L2,
	SHARE_L1,
	SHARE_OCCUPANCY, /* warps of those that a multiprocessor can hold */
	SHARE_THEORETICAL, /* those of them that fit, of the first launch; not measured */
	COUNTER_SHARES,
};

/* What was measured as one. */
enum counted_kind { COUNTED_KERNEL, COUNTED_NVTX, COUNTED_SCOPE, COUNTED_GRAPH, COUNTED_KINDS };

/* A kernel that was measured, or a range of the program or graph (--measure). */
struct counted_kernel {
	uint8_t kind; /* enum counted_kind */
	uint32_t name, number; /* string id; its place */
	uint32_t config, device; /* rows of its first launch that was measured, or TRACE_NO_ROW */
	uint64_t launches, timed; /* launches or measurements; those of which the time is known */
	uint64_t passes; /* occurrences of a range for them */
	double total_ns;
	size_t first, end; /* its items */
	double percent[COUNTER_SHARES]; /* NAN: unknown */
	uint8_t limiter; /* enum occupancy_limiter, of SHARE_THEORETICAL */
};

struct counter_of_kernel {
	uint32_t kernel; /* string id of its name */
	uint32_t metric, unit; /* string ids */
	uint32_t number, order; /* of the kernel; of the metric */
	uint64_t count; /* launches with a value */
	double mean, min, max;
	bool is_rate; /* its mean is weighted by time */
	bool is_first; /* of its kernel and group */
	enum counter_group group;
	double sum, weight;
};

struct counters {
	/* kernel by kernel, ranges behind them, those with most measured time first */
	struct counter_of_kernel *items;
	size_t count;
	struct counted_kernel *kernels; /* in that order */
	size_t kernel_count;
	struct roofline roofline;
	uint64_t launches, measurements; /* of kernels; of ranges; that are wanted */
	size_t range_count; /* of `kernels` */
	uint64_t rows; /* in the recording */
};

/* Whether a metric of this name is a rate or a share. */
bool counter_is_rate(const char *metric);
/* "kernel", "NVTX range" */
const char *counted_kind_name(unsigned kind);
/* "speed of light" */
const char *counter_group_name(unsigned group);

#endif
