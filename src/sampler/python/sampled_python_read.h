/*
 * sampled_python_read.h: reads the Python frames of a thread in another process from its memory,
 * while the thread does not run. The memory is not trusted: reads are bounded, the data of a thread
 * must contain its id, and its Python state must name the thread.
 */
#ifndef PITOT_SAMPLER_PYTHON_SAMPLED_PYTHON_READ_H
#define PITOT_SAMPLER_PYTHON_SAMPLED_PYTHON_READ_H

#include <sys/types.h>

#include "sampler/ebpf/bpf/sampler.h"
#include "stack/python/python_walk.h"

/* Where a process stores its Python frames. */
struct python_location {
	struct python_runtime runtime; /* with addresses in that process */
	int32_t state_at; /* offset of the pointer to the thread state from fs; 0: unknown */
};

/* Whether glibc's struct pthread of this thread is at `base`, which is the thread's fs. */
bool sampled_thread_is_at(const struct python_memory *memory, uint64_t base, pid_t tid);
/*
 * Finds the fs of a thread among words of its registers and stack, which may contain fs itself or
 * the address of the thread's Python state. 0: not found.
 */
uint64_t sampled_thread_find(const struct python_memory *memory,
			     const struct python_offsets *offsets, pid_t tid, const uint64_t *words,
			     size_t count);

/*
 * Writes at most `max` frames, two words each, in the form for sampled_python_merge(); returns
 * their number: 0 if the thread has no Python state. `frames` is working memory for as many.
 */
unsigned sampled_python_read(const struct python_location *location,
			     const struct python_memory *memory, uint64_t thread_base,
			     struct python_frame *frames, uint64_t *words, unsigned max,
			     bool *complete);

/*
 * Copies the code object at out->address, with what it refers to, as the BPF programs do. Returns
 * false if it cannot be read.
 */
bool sampled_code_copy(const struct python_offsets *offsets, const struct python_memory *memory,
		       struct bpf_code_record *out);

#endif
