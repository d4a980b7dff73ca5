/*
 * scope_times.h: the tree of scopes, by path: how often and how long, and what was done inside.
 * Each piece of GPU work, call and sample has one path, that of the innermost scope around it: the
 * `self` of all paths and what was launched outside sum to the GPU time. Everything but `self` is
 * with what is inside, at any depth.
 */
#ifndef PITOT_ANALYSIS_SCOPE_TIMES_H
#define PITOT_ANALYSIS_SCOPE_TIMES_H

#include "analysis/nvtx_ranges.h"

struct scope_time {
	uint32_t path; /* of report.ranges */
	uint32_t message, depth; /* of the path */
	uint64_t rank; /* by weight, from 0; what is around a scope has a lower one */
	uint64_t weight_ns; /* the longest of GPU time and wall time, here and inside; at least 1 */
	uint64_t calls; /* that began in the window; carried ranges are none */
	uint64_t open; /* of them, those that never ended: in no wall time */
	uint64_t timed, wall_ns; /* of those that ended */
	uint64_t repeats, warmups; /* of scopes that say so */
	uint64_t gpu_ns, self_ns; /* sums of durations */
	uint64_t busy_ns; /* time with at least one piece of work on any GPU */
	uint64_t kernels, launches; /* launches: calls that launch kernels or graphs */
	uint64_t wait_ns; /* of calls that wait for the GPU */
	uint64_t samples, cpu_ns;
};

struct scope_times {
	struct scope_time *items; /* a scope, then those inside it, by weight */
	size_t count;
	uint64_t gpu_ns; /* of all work that the selection wants */
	uint64_t outside_ns; /* of it, launched outside of scopes, or where that is not known */
	bool runs; /* some scope says how often it repeats */
};

#endif
