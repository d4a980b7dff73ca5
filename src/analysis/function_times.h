/*
 * function_times.h: adds up times of stacks by function. A time counts as `self` of the innermost
 * frame that is considered and as `total` of every function on the stack, once even if it recurs.
 */
#ifndef PITOT_ANALYSIS_FUNCTION_TIMES_H
#define PITOT_ANALYSIS_FUNCTION_TIMES_H

#include "analysis/callers.h"

struct function_time {
	/* text of callers->stacks; Python functions with file and, if `lines`, line */
	uint32_t function;
	uint32_t caller; /* one of the callers with this name */
	uint32_t order; /* of its outermost frame, which comes after those that called it */
	uint64_t self_ns, total_ns;
};

struct function_node;

struct function_times {
	struct callers *callers;
	bool lines; /* distinguish Python lines, not only functions */
	VEC(struct function_time) items; /* by self, then total */
	struct map by_name, by_caller;
	uint32_t walked; /* functions so far */
	VEC(uint32_t) open; /* by item: its number of occurrences on the path of the walk */
	struct function_node *nodes; /* by row of table stack_node */
};

/* 0 or -ENOMEM; release *f in either case. */
int function_times_init(struct function_times *f, struct callers *callers, bool lines) MUST_USE;
/*
 * Adds a time to stack `id` of a process. by_library: count it as `self` of the innermost frame
 * that belongs neither to CUDA nor to the interpreter. Returns whether the stack exists, or
 * -ENOMEM.
 */
int function_times_add(struct function_times *f, size_t process, uint32_t id, uint64_t ns,
		       bool by_library) MUST_USE;
/* Computes and sorts the items; call it after the last function_times_add. 0 or -ENOMEM. */
int function_times_sum(struct function_times *f) MUST_USE;
void function_times_release(struct function_times *f);

#endif
