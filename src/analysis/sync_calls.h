/*
 * sync_calls.h: time that threads spent in CUDA calls, each grouped twice: by call and thread,
 * those that synchronize, copy and set; and by call and line of the program, those that waited for
 * the GPU: synchronizing ones, and copies that are not asynchronous. Nested calls count once, so
 * the sum of the second is that of [wait] in flame.h. Beside them, what CUPTI says was waited for.
 */
#ifndef PITOT_ANALYSIS_SYNC_CALLS_H
#define PITOT_ANALYSIS_SYNC_CALLS_H

#include "analysis/callers.h"
#include "analysis/calls.h"

struct call_group {
	uint32_t process, thread; /* of its first call */
	uint32_t function; /* row of api_function */
	uint32_t caller; /* the line of its first call; CALLER_NONE: unknown */
	enum api_kind kind;
	uint64_t count, total_ns, max_ns;
};

#define SYNC_KINDS 5 /* of enum synchronization_kind */

struct sync_kind {
	uint8_t kind; /* enum synchronization_kind */
	uint64_t count, timed, total_ns;
};

struct syncs {
	/* By function and thread; by total time, longest first. */
	struct call_group *items;
	size_t count;
	uint64_t calls, total_ns; /* of all items */
	uint64_t sync_count; /* of the synchronizing ones */
	struct sync_kind kinds[SYNC_KINDS]; /* rows of table synchronization */
};

struct waits {
	/* By function and line; by total time, longest first. */
	struct call_group *items;
	size_t count;
	uint64_t calls, total_ns; /* of all items */
};

#endif
