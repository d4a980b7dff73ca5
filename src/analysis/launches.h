/*
 * launches.h: what launching costs the host, and how long work waits before it runs.
 *
 * The queue delay of a launch is from the return of its call to the start of its kernel; of a graph
 * launch, to the start of its first node. A kernel that starts before the call has returned has
 * none and is counted apart; one that starts before the call began shows an error of the clocks,
 * and is counted apart too.
 */
#ifndef PITOT_ANALYSIS_LAUNCHES_H
#define PITOT_ANALYSIS_LAUNCHES_H

#include "analysis/calls.h"
#include "analysis/filter.h"
#include "analysis/stats.h"

struct launching_thread {
	uint32_t process, thread;
	uint64_t count; /* launch calls, of graphs too */
	uint64_t host_ns; /* spent in them */
};

struct launches {
	struct duration_stats kernel_calls; /* host time of calls that launch kernels */
	struct duration_stats graph_calls; /* of calls that launch graphs */
	struct duration_stats delay; /* queue delay */
	uint64_t in_call; /* started between begin and return of the call */
	uint64_t before_call; /* started before the call began */
	uint64_t unmatched; /* kernels whose launch call is not recorded */
	uint64_t failed; /* launch calls that returned an error; in none of the others */
	struct launching_thread *threads; /* by number of launches, most first */
	size_t thread_count;
};

#endif
