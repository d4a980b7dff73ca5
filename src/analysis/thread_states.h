/*
 * thread_states.h: what the threads of processes did when a dump was made (rows of `unfinished`
 * that `pitot record` or `pitot dump` has written): states, call stacks, and the call of CUDA or
 * NCCL that each thread was in, by the names of its frames.
 */
#ifndef PITOT_ANALYSIS_THREAD_STATES_H
#define PITOT_ANALYSIS_THREAD_STATES_H

#include "base/vec.h"
#include "trace/trace.h"

struct thread_at_dump {
	uint32_t process, thread; /* process: as its own recorder saw it, if there is one */
	uint64_t time_ns;
	uint8_t state; /* enum thread_state */
	bool is_complete; /* its stack reaches the thread's start */
	uint32_t system_call, reason; /* string ids; 0: none */
	uint32_t caller, callee; /* the line that it was in, as callers.h finds it */
	uint32_t gpu_call; /* text of callers.stacks; 0: none */
	size_t first_frame, frame_count; /* items of thread_states.frames, innermost first */
};

/* Texts are ids of callers.stacks; 0 is "". */
struct thread_frame {
	uint32_t name, file, line; /* line 0: unknown */
	bool is_python;
};

struct thread_states {
	VEC(struct thread_at_dump) threads; /* by process, those in a GPU call first, by id */
	VEC(struct thread_frame) frames;
};

/* Whether a function is one of a GPU's runtime: cudaMemcpy, ncclAllReduce; not cutlass. */
bool thread_is_gpu_call(const char *function);

#endif
