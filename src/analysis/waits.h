/*
 * blocked.h: which lines of the program waited for the GPU: host time inside synchronizing calls
 * and copies that are not asynchronous, by calling line and function. Nested calls count once, so
 * the sum is that of flame.h's [wait].
 */
#ifndef PITOT_ANALYSIS_WAITS_H
#define PITOT_ANALYSIS_WAITS_H

#include "analysis/callers.h"
#include "analysis/calls.h"
#include "analysis/filter.h"

struct blocked_line {
	uint32_t caller; /* CALLER_NONE: unknown */
	uint32_t function; /* row of api_function */
	uint64_t count, total_ns, max_ns;
};

struct blocked {
	struct blocked_line *items; /* by total, longest first */
	size_t count;
	uint64_t calls, total_ns;
};

/* callers: with of_call. 0 or -ENOMEM. */
int blocked_analyze(const struct selection *s, const struct calls *calls,
		    const struct callers *callers, struct blocked *out) MUST_USE;
void blocked_release(struct blocked *b);

#endif
