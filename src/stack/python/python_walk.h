/*
 * python_walk.h: the Python frames of the calling thread, without the GIL.
 *
 * A thread's own frames cannot change under it, and each frame keeps its code object alive, so
 * that nothing has to be locked, neither when the thread holds the GIL nor when it has given it
 * away.
 *
 * Three things are left to chance, without consequence in all tests: a daemon thread that walks
 * at the very moment in which another thread finalizes the interpreter relies on CPython freeing
 * its state some microseconds after announcing that; and a signal handler that interrupts the
 * interpreter in the middle of linking a frame relies on the compiler having kept the order of the
 * stores; and in free-threaded builds from 3.14 on, a thread that has detached itself from the
 * interpreter reads the list of a code object's copies, which another thread may replace and free
 * between two instructions of that.
 */
#ifndef PITOT_STACK_PYTHON_PYTHON_WALK_H
#define PITOT_STACK_PYTHON_PYTHON_WALK_H

#include "stack/python/python_offsets.h"

/* Whose a frame is, from 3.11 on. From ENTRY on: frames of the interpreter's that run no code. */
enum { PYTHON_OWNER_GENERATOR = 1, PYTHON_OWNER_ENTRY = 3 };
#define PYTHON_TAG_BITS UINT64_C(7) /* of what a frame refers to, from 3.14 on */

struct python_frame {
	uintptr_t code;	/* code object; 0: an evaluation without a visible frame */
	uint32_t last;	/* offset of the last instruction, in bytes */
	uint32_t id;	/* set by python_code_ids(); 0: unknown */
	bool entry;	/* outermost frame of its evaluation: where that has its native frame */
};

/*
 * Writes at most `max` frames, innermost first, and returns how many. Frames that are still being
 * made are left out, as Python's own traceback does. *complete tells whether the outermost frame
 * was reached. A thread without Python state has none, and neither has any thread before the
 * interpreter has started and once it is finalizing. Before 3.12, a thread that runs a second
 * interpreter has the frames of the first one.
 */
unsigned python_walk(const struct python_runtime *runtime, struct python_frame *out, unsigned max,
		     bool *complete);

/*
 * The calling thread's Python state; 0: it has none, or the interpreter is not there yet or no
 * more.
 */
uintptr_t python_thread_state(const struct python_runtime *runtime);
/* The same walk from a state that python_thread_state() has just returned. */
unsigned python_walk_from(const struct python_runtime *runtime, uintptr_t state,
			  struct python_frame *out, unsigned max, bool *complete);

/*
 * The same for a signal handler, which may have interrupted the thread at any instruction. An
 * evaluation that is being entered or left has no frames yet, or no more; the frames of its callers
 * are there as always. *complete is false also where something could not be read. No lock, no
 * allocation.
 */
unsigned python_walk_interrupted(const struct python_runtime *runtime, struct python_frame *out,
				 unsigned max, bool *complete);

/* The memory of another process. false: so much cannot be read there. */
struct python_memory {
	bool (*read)(void *context, uintptr_t address, void *out, size_t size);
	void *context;
};

/*
 * The frames of another process's thread, from its state, checked as those of
 * python_walk_interrupted(). The thread must not run meanwhile.
 */
unsigned python_walk_foreign(const struct python_runtime *runtime,
			     const struct python_memory *memory, uintptr_t state,
			     struct python_frame *out, unsigned max, bool *complete);

#endif
