/*
 * python_interrupted.h: the Python frames of the calling thread, for a signal handler that may
 * have interrupted it at any instruction.
 *
 * Unlike python_walk(), nothing is believed: what is read is looked at before (safe_memory.h), a
 * code object must be one, and where the interpreter links an evaluation in several steps (3.11,
 * 3.12: the C frame first, what is in it later), the links of the two ends are compared. An
 * evaluation that is being entered or left has no frames yet, or no more; the frames of its
 * callers are there as always.
 */
#ifndef PITOT_STACK_PYTHON_PYTHON_INTERRUPTED_H
#define PITOT_STACK_PYTHON_PYTHON_INTERRUPTED_H

#include "stack/python/python_eval.h"
#include "stack/python/python_walk.h"

/*
 * As python_walk(). *complete is false also where something could not be read. No lock, no
 * allocation.
 */
unsigned python_walk_interrupted(const struct python_runtime *runtime, struct python_frame *out,
				 unsigned max, bool *complete);

/*
 * The native frames of whole stacks say whether the innermost evaluation is without frames: then
 * an empty one is put in front of the Python frames (of which there is room for one more). Returns
 * their number.
 */
unsigned python_align_interrupted(const struct python_eval *eval, const uint64_t *native,
				  unsigned native_count, struct python_frame *frames, unsigned count);

#endif
