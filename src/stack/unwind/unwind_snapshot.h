/*
 * unwind_snapshot.h: walks a stack with all registers. Memory and rules come from a frame_source:
 * the thread itself (unwind_all_registers.c), or a copy (sampler/perf/stack_snapshot.c).
 */
#ifndef PITOT_STACK_UNWIND_UNWIND_SNAPSHOT_H
#define PITOT_STACK_UNWIND_UNWIND_SNAPSHOT_H

#include "stack/unwind/unwind_self.h"

struct frame_source {
	void *context;
	/* Loads an aligned word of the stack. Returns false if it is unavailable. */
	bool (*load)(void *context, uint64_t address, uint64_t *value);
	/*
	 * Returns the rule for a frame, valid until the next call. *known: the frame is in a
	 * module. NULL: the module's rules are unreadable.
	 */
	const struct unwind_rule *(*rule)(void *context, uint64_t frame, bool *known);
	/*
	 * Copies up to `size` (at most 8) bytes of code that end at `end`, fewer at the start of
	 * mapped memory. Returns their number.
	 */
	unsigned (*code)(void *context, uint64_t end, uint8_t *bytes, unsigned size);
	/* Stores a frame. Returns false without room. */
	bool (*store)(void *context, uint64_t frame);
};

enum stack_end unwind_snapshot(const struct frame_source *source,
			       const struct stack_registers *start);

#endif
