/*
 * memory_steps.h: what memory does over the steps of a loop: lines whose live memory grows, calls
 * that allocate and release within steps, and how long memory lives. Computed if
 * report_options.memory.
 *
 * A line is a leak suspect if what it has allocated and is live at the ends of steps grows from
 * step to step: by the slope of Theil and Sen, the test of Mann and Kendall at 1 %, and still in
 * the last third. Warm-up and caches that fill up do not. Fewer than MEMORY_LEAK_STEPS never do.
 */
#ifndef PITOT_ANALYSIS_MEMORY_MEMORY_STEPS_H
#define PITOT_ANALYSIS_MEMORY_MEMORY_STEPS_H

#include "analysis/memory/memory_peak.h"

#define MEMORY_LEAK_STEPS 6u /* with fewer, no order of values is rarer than 1 % */
#define MEMORY_LEAK_SAMPLES 200u /* steps are looked at, evenly spread over all */
#define MEMORY_LEAK_P 0.01

struct memory_leak {
	uint32_t group, line; /* line: as memory_line */
	uint64_t steps; /* of the loop */
	uint64_t first_bytes, last_bytes; /* live at the ends of the first and the last step */
	uint64_t last_count; /* blocks */
	double step_bytes; /* slope */
	double p;
};

struct memory_churn {
	uint32_t process, line; /* line: a caller or MEMORY_NONE */
	uint64_t steps; /* in which it allocated or released */
	uint64_t loop_steps; /* of the loop */
	uint64_t allocations, releases, allocated_bytes;
	uint64_t synchronizing; /* of both, calls that are known not to be asynchronous */
	uint64_t host_ns; /* in the calls */
	uint32_t last_step; /* number */
};

#define MEMORY_LIFETIMES 8u /* less than 10 us, 100 us, … 10 s, and longer */

struct memory_lifetime {
	uint32_t group;
	uint64_t counts[MEMORY_LIFETIMES], bytes[MEMORY_LIFETIMES]; /* of released blocks */
	bool knows_ranges; /* calls that release are recorded, so that their ranges are known */
	uint64_t same_range_count, same_range_bytes; /* released in the range that allocated */
};

struct memory_steps {
	struct memory_leak *leaks; /* the fastest first */
	size_t leak_count;
	struct memory_churn *churn; /* the longest host time first */
	size_t churn_count;
	struct memory_lifetime *lifetimes; /* by group */
	size_t lifetime_count;
};

/*
 * Theil and Sen's slope of values at 0, 1, 2 …, and the probability of an order that rises as much
 * by chance (Mann and Kendall, normal approximation with ties and continuity). 0 or -ENOMEM.
 */
int memory_trend(const double *values, size_t count, double *slope, double *p) MUST_USE;

#endif
