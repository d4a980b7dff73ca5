/*
 * stack_snapshot.h: unwinds the call stack of a thread in another process, from its registers and a
 * copy of the top of its stack, with the unwind tables of its mappings.
 */
#ifndef PITOT_SAMPLER_PERF_STACK_SNAPSHOT_H
#define PITOT_SAMPLER_PERF_STACK_SNAPSHOT_H

#include "sampler/python/sampled_python_read.h"
#include "sampler/sampled_processes.h"
#include "stack/unwind/unwind_self.h"

struct stack_snapshot {
	struct stack_registers registers;
	const uint8_t *bytes; /* from rsp upwards; need not be aligned */
	size_t size;
	bool cut; /* the stack may continue after them */
};

/*
 * Writes at most `max` frames (frame.h), innermost first, and returns their number. *end: complete
 * (at the thread's start), truncated (at code without rules, after which frames were guessed, or
 * where the stack continues elsewhere, as below a signal stack), depth (more than max frames, or
 * than the copy contains), partial (there was no memory for a table).
 */
unsigned stack_snapshot_walk(struct targets *t, struct target *p,
			     const struct stack_snapshot *stack, uint64_t *frames, unsigned max,
			     enum stack_end *end);

/*
 * Finds the fs of the snapshot's thread in its registers and at both ends of the copied stack. 0:
 * not found.
 */
uint64_t stack_snapshot_thread_base(const struct stack_snapshot *stack,
				    const struct python_memory *memory,
				    const struct python_offsets *offsets, pid_t tid);

#endif
