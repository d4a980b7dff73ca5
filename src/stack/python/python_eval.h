/*
 * python_eval.h: where the machine code of the interpreter's evaluation loop is, so that native
 * frames of it can be told.
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
 * interpreters that are built so. From the .symtab of the file when that is there. Else from
 * .dynsym and the call frame information in memory: the symbol's own extent, and what it jumps
 * into the middle of, which can only be another part of it. Reads files and allocates: for the
 * collector's thread. 0, or a negative errno.
 */
int python_eval_find(const struct python_runtime *runtime, struct python_eval *eval,
		     struct error *e);

/* Whether a native frame (frame.h) is of the evaluation loop. */
static inline bool python_eval_has(const struct python_eval *eval, uint64_t frame)
{
	uint64_t pc = frame_lookup_address(frame);
	size_t at = sorted_prefix(eval->count, i, pc >= eval->ranges[i].end);

	return at < eval->count && pc >= eval->ranges[at].start;
}

/* For readers of the file of another process's interpreter: */

/*
 * Adds [start, end), in order; a range that touches another is joined with it. What is empty, or
 * one too many, is left out.
 */
void python_eval_add(struct python_eval *eval, uint64_t start, uint64_t end);
/* Whether a symbol is the evaluation, or a part of it. */
bool python_eval_name(const char *name);

#endif
