/*
 * stack_snapshot.h: the call stack of another process's thread, from its registers and a copy of
 * the top of its stack, by the unwind tables of what is mapped there.
 */
#ifndef PITOT_SAMPLER_PERF_STACK_SNAPSHOT_H
#define PITOT_SAMPLER_PERF_STACK_SNAPSHOT_H

#include "sampler/sampled_processes.h"
#include "stack/unwind/unwind_self.h"

struct stack_snapshot {
	struct stack_registers registers;
	const uint8_t *bytes; /* from rsp upwards; need not be aligned */
	size_t size;
	bool cut; /* the stack may go on behind them */
};

/*
 * At most `max` frames (frame.h), innermost first; their number. *end: complete (at the thread's
 * start), truncated (at code without rules; what comes after it was guessed; or where the stack
 * goes on elsewhere, as under a signal stack), depth (more than max, or than was copied), partial
 * (there was no memory for a table).
 */
unsigned stack_snapshot_walk(struct targets *t, struct target *p,
			     const struct stack_snapshot *stack, uint64_t *frames, unsigned max,
			     enum stack_end *end);

#endif
