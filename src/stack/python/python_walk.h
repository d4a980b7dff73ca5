/*
 * python_walk.h: the Python frames of the calling thread, without the GIL.
 *
 * A thread's own frames cannot change while it walks them, and each frame keeps its code object
 * alive. So nothing has to be locked, whether the thread holds the GIL or not.
 *
 * Three races remain, without effect in all tests. A daemon thread that walks while another thread
 * finalizes the interpreter relies on CPython freeing the thread's state some microseconds after
 * announcing that. A signal handler that interrupts the linking of a frame relies on the compiler
 * having kept the order of the stores. In free-threaded builds since 3.14, a thread that has
 * detached from the interpreter reads the list of a code object's copies, which another thread may
 * replace and free between two instructions.
 */
#ifndef PITOT_STACK_PYTHON_PYTHON_WALK_H
#define PITOT_STACK_PYTHON_PYTHON_WALK_H

#include "stack/python/python_offsets.h"

/* Owner of a frame, from 3.11 on. From ENTRY on: the interpreter's own frames, without code. */
enum { PYTHON_OWNER_GENERATOR = 1, PYTHON_OWNER_ENTRY = 3 };
#define PYTHON_TAG_BITS UINT64_C(7) /* tag bits of a frame's references, from 3.14 on */

struct python_frame {
	uintptr_t code;	/* code object; 0: an evaluation without a visible frame */
	uint32_t last;	/* offset of the last instruction, in bytes */
	uint32_t id;	/* set by python_code_ids(); 0: unknown */
	bool entry;	/* outermost frame of its evaluation, where the native frame is */
};

/*
 * Writes at most `max` frames, innermost first, and returns their number. Frames being set up are
 * left out, as in Python's own traceback. *complete: the outermost frame was reached. There are no
 * frames without a Python state, before the interpreter has started and once it is finalizing.
 * Before 3.12, a thread that runs a second interpreter has the frames of the first one.
 */
unsigned python_walk(const struct python_runtime *runtime, struct python_frame *out, unsigned max,
		     bool *complete);

/*
 * Returns the calling thread's Python state; 0: none, or the interpreter has not started or has
 * ended.
 */
uintptr_t python_thread_state(const struct python_runtime *runtime);
/* Same as python_walk(), from a state just returned by python_thread_state(). */
unsigned python_walk_from(const struct python_runtime *runtime, uintptr_t state,
			  struct python_frame *out, unsigned max, bool *complete);

/*
 * Same, for a signal handler that may have interrupted the thread at any instruction. An evaluation
 * being entered or left has no frames; the frames of its callers are there. *complete is also false
 * when memory was unreadable. No lock, no allocation.
 */
unsigned python_walk_interrupted(const struct python_runtime *runtime, struct python_frame *out,
				 unsigned max, bool *complete);

/* Reads another process's memory. Returns false unless all of it is readable. */
struct python_memory {
	bool (*read)(void *context, uintptr_t address, void *out, size_t size);
	void *context;
};

/*
 * Walks a thread of another process from its state, with the checks of python_walk_interrupted().
 * The thread must be stopped.
 */
unsigned python_walk_foreign(const struct python_runtime *runtime,
			     const struct python_memory *memory, uintptr_t state,
			     struct python_frame *out, unsigned max, bool *complete);

#endif
