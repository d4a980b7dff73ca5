/* counted_kernels.h: kernels and ranges with hardware counters, and their metrics. */
#ifndef PITOT_ANALYSIS_COUNTED_KERNELS_H
#define PITOT_ANALYSIS_COUNTED_KERNELS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "schema/theoretical_occupancy.h"

/* Subject of a metric. */
enum counter_group {
	COUNTER_SPEED_OF_LIGHT,
	COUNTER_COMPUTE,
	COUNTER_MEMORY,
	COUNTER_OCCUPANCY,
	COUNTER_OTHER,
};

/* Shares of a peak, by which kernels are compared. */
enum counter_share {
	SHARE_SM,
	SHARE_MEMORY, /* of the busiest memory unit */
	SHARE_DRAM,
	SHARE_L2,
	SHARE_L1,
	SHARE_OCCUPANCY, /* achieved: active warps of those that a multiprocessor can hold */
	SHARE_THEORETICAL, /* theoretical occupancy of the first launch; computed, not measured */
	COUNTER_SHARES,
};

/* What a measurement is about. */
enum counted_kind { COUNTED_KERNEL, COUNTED_NVTX, COUNTED_SCOPE, COUNTED_GRAPH, COUNTED_KINDS };

/* A measured kernel, or a range of the program or graph (--measure). */
struct counted_kernel {
	uint8_t kind; /* enum counted_kind */
	uint32_t name, number; /* string id; index in counters.kernels */
	uint32_t config, device; /* rows of its first measured launch, or TRACE_NO_ROW */
	uint64_t launches, timed; /* launches or measurements; those with a known duration */
	uint64_t passes; /* occurrences of a range that the measurements took */
	double total_ns;
	size_t first, end; /* its items */
	double percent[COUNTER_SHARES]; /* NAN: unknown */
	struct occupancy occupancy; /* of the first launch; warps 0: unknown */
};

struct counter_of_kernel {
	uint32_t kernel; /* string id of its name */
	uint32_t metric, unit; /* string ids */
	uint32_t number, order; /* number of the kernel; order of the metric */
	uint64_t count; /* launches with a value */
	double mean, min, max;
	bool is_rate; /* its mean is weighted by time */
	bool is_first; /* first metric of its kernel and group */
	enum counter_group group;
	double sum, weight;
};

#endif
