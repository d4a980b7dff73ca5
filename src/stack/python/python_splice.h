/* python_splice.h: merges the native frames and the Python frames of a thread into one stack. */
#ifndef PITOT_STACK_PYTHON_PYTHON_SPLICE_H
#define PITOT_STACK_PYTHON_PYTHON_SPLICE_H

#include "schema/schema.h"
#include "stack/python/python_code.h"
#include "stack/python/python_eval.h"

enum python_match {
	PYTHON_MATCH_NONE,	/* no Python: the native stack unchanged */
	PYTHON_MATCH_EXACT,	/* each evaluation has its frames */
	PYTHON_MATCH_PARTIAL,	/* as far as both stacks reach: one was truncated */
	PYTHON_MATCH_UNSURE,	/* counts differ: all Python frames at the innermost evaluation */
};

struct python_stacks {
	const uint64_t *native;			/* frames as in frame.h, innermost first */
	unsigned native_count;
	bool native_complete;			/* reaches the thread's start */
	const struct python_frame *python;	/* with ids, innermost first */
	unsigned python_count;
	bool python_complete;
};

/*
 * Writes at most `max` frames, innermost first: native frames of the evaluation loop are replaced
 * by the Python frames that they ran. Returns the total number (if it exceeds `max`, outer frames
 * are missing). Ends where frames are missing: an evaluation beyond the last Python frame is left
 * out, with its callers, unless the Python frames are complete. No lock, no allocation.
 */
unsigned python_splice(const struct python_eval *eval, const struct python_stacks *stacks,
		       uint64_t *out, unsigned max, enum python_match *match);

/*
 * Returns how the stack of python_splice() ends, which returned `count`; `native`: how the native
 * one does.
 */
enum stack_end python_splice_end(const struct python_stacks *stacks, enum stack_end native,
				 unsigned count, unsigned max);

/*
 * For frames of python_walk_interrupted(): if the native frames of whole stacks show that the
 * innermost evaluation has no frames, puts an empty frame in front of the Python frames, which must
 * have room for it. Returns their number.
 */
unsigned python_align_interrupted(const struct python_eval *eval, const uint64_t *native,
				  unsigned native_count, struct python_frame *frames,
				  unsigned count);

#endif
