/*
 * sync_calls.h: host time in CUDA calls. syncs: calls that synchronize, copy or set, by function
 * and thread, and synchronizations as CUPTI reports them. waits: calls that wait for the GPU
 * (synchronizing calls and synchronous copies), by function and line of the program. Nested calls
 * count once, so the sum of the waits equals [wait] of flame.h.
 */
#ifndef PITOT_ANALYSIS_SYNC_CALLS_H
#define PITOT_ANALYSIS_SYNC_CALLS_H

#include "analysis/callers.h"
#include "analysis/calls.h"

struct call_group {
	uint32_t process, thread; /* of the first call */
	uint32_t function; /* row of api_function */
	uint32_t caller; /* line of the first call; CALLER_NONE: unknown */
	enum api_kind kind;
	uint64_t count, total_ns, max_ns;
};

#define SYNC_KINDS 5 /* of enum synchronization_kind */

struct sync_kind {
	uint8_t kind; /* enum synchronization_kind */
	uint64_t count, timed, total_ns;
};

struct syncs {
	/* one per function and thread; by total time, longest first */
	struct call_group *items;
	size_t count;
	uint64_t calls, total_ns; /* of all items */
	uint64_t sync_count; /* number of synchronizing calls */
	struct sync_kind kinds[SYNC_KINDS]; /* from table synchronization */
};

struct waits {
	/* one per function and line; by total time, longest first */
	struct call_group *items;
	size_t count;
	uint64_t calls, total_ns; /* of all items */
};

#endif
