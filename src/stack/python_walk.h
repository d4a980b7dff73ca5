/*
 * python_walk.h: the Python frames of the calling thread, without the GIL.
 *
 * A thread's own frames cannot change under it, and each frame keeps its code object alive, so that nothing has to be locked:
 * neither when the thread holds the GIL nor when it has released it.
 */
#ifndef PITOT_STACK_PYTHON_WALK_H
#define PITOT_STACK_PYTHON_WALK_H

#include "stack/python_offsets.h"

struct python_frame {
	uintptr_t code; /* code object; 0: an evaluation without a frame that Python would show */
	uint32_t last; /* offset of the last instruction, in bytes */
	uint32_t id; /* python_code_ids(): 0 unknown */
	bool entry; /* outermost frame of its evaluation: there the native frame of the evaluation stands */
};

/*
 * Writes at most `max` frames, innermost first, and returns how many. Frames that are still being made are left out, as
 * Python's own traceback does. *complete tells whether the outermost frame was reached. A thread without Python state, and any
 * thread before the interpreter has started or once it is finalizing, has none.
 *
 * A daemon thread that walks at the very moment in which another thread finalizes the interpreter relies on the thread state
 * outliving the walk: CPython frees it some microseconds after it has announced finalization.
 */
unsigned python_walk(const struct python_runtime *runtime, struct python_frame *out, unsigned max,
		     bool *complete);

#endif
