/*
 * waits.h: which lines of the program waited for the GPU: host time inside synchronizing calls and
 * copies that are not asynchronous, by calling line and function. Nested calls count once, so the
 * sum is that of flame.h's [wait].
 */
#ifndef PITOT_ANALYSIS_WAITS_H
#define PITOT_ANALYSIS_WAITS_H

#include "analysis/report.h"

struct wait_line {
	uint32_t caller; /* CALLER_NONE: unknown */
	uint32_t function; /* row of api_function */
	uint64_t count, total_ns, max_ns;
};

struct waits {
	struct wait_line *items; /* by total, longest first */
	size_t count;
	uint64_t calls, total_ns;
};

#endif
