/*
 * syncs.h: time that threads spent in CUDA calls, by call and thread: those that wait for the GPU
 * first of all, and those that copy (which wait when they are not asynchronous). Nested calls count
 * once. Beside it, what CUPTI says was waited for.
 */
#ifndef PITOT_ANALYSIS_SYNC_CALLS_H
#define PITOT_ANALYSIS_SYNC_CALLS_H

#include "analysis/calls.h"
#include "analysis/filter.h"

struct call_group {
	uint32_t process, thread;
	uint32_t function; /* row of api_function */
	enum api_kind kind;
	uint64_t count, total_ns, max_ns;
};

#define SYNC_KINDS 5 /* of enum synchronization_kind */

struct sync_kind {
	uint64_t count, timed, total_ns;
};

struct syncs {
	/* Calls that synchronize, copy and set; by total time, longest first. */
	struct call_group *items;
	size_t count;
	uint64_t sync_count, sync_ns; /* of the synchronizing ones */
	uint64_t copy_count, copy_ns; /* of calls that copy or set */
	uint64_t longest_thread_ns; /* most time that a single thread spent synchronizing */
	struct sync_kind kinds[SYNC_KINDS]; /* rows of table synchronization */
};

#endif
