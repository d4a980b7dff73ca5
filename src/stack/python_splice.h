/* python_splice.h: one stack out of the native frames and the Python frames of a thread. */
#ifndef PITOT_STACK_PYTHON_SPLICE_H
#define PITOT_STACK_PYTHON_SPLICE_H

#include "stack/python_code.h"
#include "stack/python_eval.h"

enum python_match {
	PYTHON_MATCH_NONE, /* no Python frames and no evaluation: the native stack as it is */
	PYTHON_MATCH_EXACT, /* each evaluation has its frames */
	PYTHON_MATCH_PARTIAL, /* so far as both stacks reach; at least one was cut */
	PYTHON_MATCH_UNSURE, /* the counts differ: all Python frames stand at the innermost evaluation */
};

struct python_stacks {
	const uint64_t *native; /* return addresses, innermost first */
	unsigned native_count;
	bool native_complete; /* reaches the thread's start */
	const struct python_frame *python; /* with ids, innermost first */
	unsigned python_count;
	bool python_complete;
};

/*
 * Writes at most `max` frames, innermost first: a native frame of the evaluation loop is replaced by the Python frames that it
 * ran. Returns how many there would be (more than `max`: cut at the outer end). Takes no lock and allocates nothing.
 */
unsigned python_splice(const struct python_eval *eval, const struct python_stacks *stacks,
		       uint64_t *out, unsigned max, enum python_match *match);

#endif
