/*
 * python_eval.h: finds the machine code of the interpreter's evaluation loop, so that its native
 * frames can be recognised.
 */
#ifndef PITOT_STACK_PYTHON_PYTHON_EVAL_H
#define PITOT_STACK_PYTHON_PYTHON_EVAL_H

#include "base/search.h"
#include "stack/frame.h"
#include "stack/python/python_offsets.h"

#define PYTHON_EVAL_RANGES 512

/* Sorted, not overlapping. */
struct python_eval {
	unsigned count;
	struct code_range ranges[PYTHON_EVAL_RANGES];
};

/*
 * Finds _PyEval_EvalFrameDefault, its .cold and other parts, and the _TAIL_CALL_* functions of
 * interpreters with tail calls. Uses the file's .symtab if there is one. Otherwise uses .dynsym and
 * the call frame information in memory: the symbol's own extent, and the functions into whose
 * middle it jumps, which can only be parts of it. Reads files and allocates: for the collector's
 * thread. Returns 0 or a negative errno.
 */
int python_eval_find(const struct python_runtime *runtime, struct python_eval *eval,
		     struct error *e);

/* Whether a native frame (frame.h) is in the evaluation loop. */
static inline bool python_eval_has(const struct python_eval *eval, uint64_t frame)
{
	uint64_t pc = frame_lookup_address(frame);
	size_t at = sorted_prefix(eval->count, i, pc >= eval->ranges[i].end);

	return at < eval->count && pc >= eval->ranges[at].start;
}

/* For readers of another process's interpreter file: */

/*
 * Adds [start, end) in order, merging ranges that touch. Empty ranges, and ranges beyond the limit,
 * are ignored.
 */
void python_eval_add(struct python_eval *eval, uint64_t start, uint64_t end);
/* Whether a symbol is the evaluation loop or a part of it. */
bool python_eval_name(const char *name);

#endif
