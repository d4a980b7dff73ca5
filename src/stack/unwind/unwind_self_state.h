/*
 * unwind_self_state.h: a walk that tracks all registers, and what it shares with unwind_self.c.
 */
#ifndef PITOT_STACK_UNWIND_UNWIND_SELF_STATE_H
#define PITOT_STACK_UNWIND_UNWIND_SELF_STATE_H

#include "stack/unwind/unwind_self.h"

/* Steps of the fast walk. Bits of the first four: "fp is the base", "fp was saved". */
enum {
	STEP_SP = 0,
	STEP_FP = 1,
	STEP_SP_SAVED = 2,
	STEP_FP_SAVED = 3,
	STEP_ALIGNED, /* realigned stack: CFA = *(fp + cfa_offset), fp = *(fp + slot_offset) */
	STEP_END,
	STEP_FULL, /* needs the walk with all registers */
	STEP_KIND = 7, /* bits of walk_seen.slot */
};

/* Destination of a walk's frames. */
struct walk_output {
	uint64_t *frames;
	unsigned count, max;
	unsigned skipped;
};

/* Stores a frame unless it is to be skipped. Returns false without room. */
bool walk_store(const struct stack_walker *w, struct walk_output *out, uint64_t frame);

/*
 * Returns the rule for a frame, valid until the next call; NULL when it has not been compiled and
 * is unreadable. Marks the part of the code as wanted.
 */
const struct unwind_rule *walk_rule(struct stack_walker *w, const struct stack_map *map,
				    uint64_t frame, bool *known_module);

/* Returns the step of a frame of a recent walk, or NULL when it is no longer cached. */
const struct walk_step *walk_cached_step(struct stack_walker *w, uint64_t frame);

/* Whether pc is not an address of user code: 0 ends a stack, others come from a damaged stack. */
static inline bool walk_is_not_code(uint64_t pc)
{
	return pc - 1 >= (UINT64_C(1) << 57) - 1;
}

/* Loads an aligned word of the stack. Returns false when it is unmapped. */
bool walk_probe(struct stack_walker *w, uint64_t address);

static inline bool walk_load(struct stack_walker *w, uint64_t address, uint64_t *value)
{
	if (unlikely(address - w->low >= w->high - w->low || (address & 7)) &&
	    !walk_probe(w, address))
		return false;
	*value = arch_load(address);
	return true;
}

/* Returns where the return address to the caller is, in a stack that was walked. */
static inline uint64_t walk_return_slot(const struct walk_seen *at, const struct walk_seen *caller)
{
	return arch_return_slot(caller->sp, at->slot & ~(uint64_t)STEP_KIND,
				at->slot & STEP_SP_SAVED);
}

enum stack_end unwind_all_registers(struct stack_walker *w, const struct stack_map *map,
				    const struct stack_registers *start, struct walk_output *out);

#endif
