/*
 * function_times.h: time by function from stacks with times. A time is the `self` of one frame, the
 * innermost that counts, and in the `total` of every function of its stack once, however often it
 * recurs.
 */
#ifndef PITOT_ANALYSIS_FUNCTION_TIMES_H
#define PITOT_ANALYSIS_FUNCTION_TIMES_H

#include "analysis/callers.h"

struct function_time {
	/* text of callers->stacks; of Python with its file, and the line if asked for */
	uint32_t function;
	uint32_t caller; /* one of the callers that are called so */
	uint64_t self_ns, total_ns;
};

struct function_node;

struct function_times {
	struct callers *callers;
	bool lines; /* Python lines are told apart, not only functions */
	VEC(struct function_time) items; /* by self, then total */
	struct map by_name, by_caller;
	VEC(uint32_t) open; /* by item: how often it is on the way to where the walk is */
	struct function_node *nodes; /* by row of table stack_node */
};

/* 0 or -ENOMEM; released in any case. */
int function_times_init(struct function_times *f, struct callers *callers, bool lines) MUST_USE;
/*
 * Adds a time to stack `id` of a process; nothing where that is not known. by_library: it is the
 * self of the innermost frame that is not CUDA's or the interpreter's. Returns whether there is
 * such a stack, or -ENOMEM.
 */
int function_times_add(struct function_times *f, size_t process, uint32_t id, uint64_t ns,
		       bool by_library) MUST_USE;
/* Once all are added: adds up and sorts. 0 or -ENOMEM. */
int function_times_sum(struct function_times *f) MUST_USE;
void function_times_release(struct function_times *f);

#endif
