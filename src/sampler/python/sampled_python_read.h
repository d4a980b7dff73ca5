/*
 * sampled_python_read.h: the Python frames of a thread of another process, read from its memory
 * while the thread does not run. Nothing there is believed: what is read is bounded, a thread's
 * data are those that have its id, and its Python state is the one that names the thread.
 */
#ifndef PITOT_SAMPLER_PYTHON_SAMPLED_PYTHON_READ_H
#define PITOT_SAMPLER_PYTHON_SAMPLED_PYTHON_READ_H

#include <sys/types.h>

#include "stack/python/python_walk.h"

/* What a reader knows of a process. */
struct python_place {
	struct python_runtime runtime; /* addresses are that process's */
	int32_t state_at; /* a thread's state, from the thread's fs; 0: unknown */
};

/* Whether glibc's data of the thread with this id begin at this address, which is its fs. */
bool sampled_thread_is_at(const struct python_memory *memory, uint64_t base, pid_t tid);
/*
 * The fs of a thread, from words of its registers and its stack, among which are its address, or
 * that of the thread's Python state. 0: they are not.
 */
uint64_t sampled_thread_find(const struct python_memory *memory,
			     const struct python_offsets *offsets, pid_t tid, const uint64_t *words,
			     size_t count);

/*
 * Writes at most `max` frames, two words each, as sampled_python_merge() expects them; returns how
 * many. None where the thread has no Python state.
 */
unsigned sampled_python_read(const struct python_place *place, const struct python_memory *memory,
			     uint64_t thread_base, uint64_t *words, unsigned max, bool *complete);

#endif
