/*
 * scope_times.h: the tree of scopes, by path: calls, wall time, and the work inside. Each piece of
 * GPU work, call and sample belongs to the path of the innermost scope around it: the `self` times
 * of all paths and the work launched outside add up to the GPU time. All figures except `self`
 * include nested scopes.
 */
#ifndef PITOT_ANALYSIS_SCOPE_TIMES_H
#define PITOT_ANALYSIS_SCOPE_TIMES_H

#include "analysis/nvtx_ranges.h"

struct scope_time {
	uint32_t path; /* of report.ranges */
	uint32_t message, depth; /* of the path */
	uint64_t rank; /* by weight, from 0; a scope ranks before the scopes inside of it */
	uint64_t weight_ns; /* maximum of GPU and wall time, here and inside; at least 1 */
	uint64_t calls; /* that began in the window, excluding carried ranges */
	uint64_t open; /* calls that never ended; not included in wall_ns */
	uint64_t timed, wall_ns; /* calls that ended, and their time */
	uint64_t repeats, warmups; /* of scopes that declare them */
	uint64_t gpu_ns, self_ns; /* sums of durations */
	uint64_t busy_ns; /* time with at least one piece of work running on any GPU */
	uint64_t kernels, launches; /* launches: calls that launch kernels or graphs */
	uint64_t wait_ns; /* of calls that wait for the GPU */
	uint64_t samples, cpu_ns;
};

struct scope_times {
	struct scope_time *items; /* each scope before the scopes inside of it, by weight */
	size_t count;
	uint64_t gpu_ns; /* of all selected work */
	uint64_t outside_ns; /* of work launched outside of scopes, or with an unknown launch */
	bool runs; /* some scope declares how often it repeats */
};

#endif
