/*
 * unwind_snapshot.h: walks a stack with all registers, wherever its memory and its rules come from:
 * the thread's own (unwind_all_registers.c), or a copy (sampler/perf/stack_snapshot.c).
 */
#ifndef PITOT_STACK_UNWIND_UNWIND_SNAPSHOT_H
#define PITOT_STACK_UNWIND_UNWIND_SNAPSHOT_H

#include "stack/unwind/unwind_self.h"

struct frame_source {
	void *context;
	/* Loads an aligned word of the stack; false where there is none. */
	bool (*load)(void *context, uint64_t address, uint64_t *value);
	/*
	 * The rule for a frame, valid until the next call. *known: there is a module. NULL: it has
	 * rules, but they cannot be read.
	 */
	const struct unwind_rule *(*rule)(void *context, uint64_t frame, bool *known);
	/*
	 * Copies up to `size` (at most 8) bytes of code that end at `end`; fewer at the start of
	 * what is mapped. Their number.
	 */
	unsigned (*code)(void *context, uint64_t end, uint8_t *bytes, unsigned size);
	/* Takes a frame; false: there is no room. */
	bool (*store)(void *context, uint64_t frame);
};

enum stack_end unwind_snapshot(const struct frame_source *source,
			       const struct stack_registers *start);

#endif
