/*
 * copied_stack.h: the call stack of another process's thread, from its registers and a copy of the top of its stack,
 * by the unwind tables of what is mapped there.
 */
#ifndef PITOT_CPU_COPIED_STACK_H
#define PITOT_CPU_COPIED_STACK_H

#include "cpu/targets.h"
#include "stack/walk.h"

struct copied_stack {
	struct stack_registers registers;
	const uint8_t *bytes; /* from rsp upwards; need not be aligned */
	size_t size;
	bool cut; /* the stack may go on behind them */
};

/*
 * At most `max` frames (frame.h), innermost first; their number. *end: complete (at the thread's start), truncated (at code
 * without rules; what comes after it was guessed; or where the stack goes on elsewhere, as under a signal stack),
 * depth (more than max, or than was copied), partial (there was no memory for a table).
 */
unsigned copied_stack_walk(struct targets *t, struct target *p, const struct copied_stack *stack,
			   uint64_t *frames, unsigned max, enum stack_end *end);

#endif
