/*
 * launches.h: host time of launch calls, and how long launched work is queued.
 *
 * The queue delay of a launch is the time from the return of its call to the start of its kernel
 * or, of a graph, of its first node. Kernels that start before the call returns have no queue delay
 * and are counted separately, as are kernels that start before the call begins, which is a clock
 * error.
 */
#ifndef PITOT_ANALYSIS_LAUNCHES_H
#define PITOT_ANALYSIS_LAUNCHES_H

#include "analysis/stats.h"

struct launching_thread {
	uint32_t process, thread;
	uint64_t count; /* launch calls, including those of graphs */
	uint64_t host_ns; /* time spent in them */
};

struct launches {
	/* host time of calls that launch kernels, excluding measured ones */
	struct duration_stats kernel_calls;
	struct duration_stats graph_calls; /* of calls that launch graphs */
	struct duration_stats measured_calls; /* of either that Pitot measured: its own time */
	struct duration_stats delay; /* queue delay */
	uint64_t in_call; /* kernels that started during their call */
	uint64_t before_call; /* kernels that started before their call */
	uint64_t unmatched; /* kernels whose launch call is not recorded */
	uint64_t failed; /* launch calls that returned an error; not included above */
	struct launching_thread *threads; /* by number of launches, descending */
	size_t thread_count;
};

#endif
