/*
 * counters.h: hardware counters of launches that were measured, by kernel and metric.
 *
 * What is a rate or a share (per second, per cycle, percent of a peak, ratio) has a mean that is weighted by how long the launches
 * took; amounts (bytes, instructions, cycles) are of a launch, so each launch counts alike.
 */
#ifndef PITOT_ANALYSIS_COUNTERS_H
#define PITOT_ANALYSIS_COUNTERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct counter_of_kernel {
	uint32_t kernel; /* string id of its name */
	uint32_t metric, unit; /* string ids */
	uint32_t number, order; /* of the kernel; of the metric */
	uint64_t count; /* launches with a value */
	double mean, min, max;
	bool is_rate; /* its mean is weighted by time */
	bool is_first; /* of its kernel */
	double sum, weight;
};

struct counters {
	struct counter_of_kernel *items; /* kernel by kernel, the one with most measured time first */
	size_t count;
	uint64_t launches; /* that were measured and are wanted */
	uint64_t rows; /* in the recording */
};

/* Whether a metric of this name is a rate or a share. */
bool counter_is_rate(const char *metric);

#endif
