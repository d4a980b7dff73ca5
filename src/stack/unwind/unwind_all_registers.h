/*
 * unwind_all_registers.h: a walk that follows all registers, and what it shares with unwind_self.c.
 */
#ifndef PITOT_STACK_UNWIND_UNWIND_ALL_REGISTERS_H
#define PITOT_STACK_UNWIND_UNWIND_ALL_REGISTERS_H

#include "stack/unwind/unwind_self.h"

/*
 * Steps that the fast walk can do; the bits of the first four are "rbp is base", "rbp was saved".
 */
enum {
	STEP_RSP = 0,
	STEP_RBP = 1,
	STEP_RSP_SAVED = 2,
	STEP_RBP_SAVED = 3,
	STEP_ALIGNED, /* CFA = *(rbp + cfa_offset), rbp = *(rbp + fp_offset): realigned stacks */
	STEP_END,
	STEP_FULL, /* needs the walk with all registers */
	STEP_KIND = 7, /* bits of walk_seen.fp_slot */
};

/* Where a walk stores its frames. */
struct walk_output {
	uint64_t *frames;
	unsigned count, max;
	unsigned skipped;
};

/* Stores a frame, unless it is one to skip. false: there is no room. */
bool walk_store(const struct stack_walker *w, struct walk_output *out, uint64_t frame);

/*
 * The rule for a frame, valid until the next call; NULL when it has not been compiled and cannot be
 * read. Marks the part of the code as wanted.
 */
const struct unwind_rule *walk_rule(struct stack_walker *w, const struct stack_map *map,
				    uint64_t frame, bool *known_module);

/* How a frame of a recent walk was left; NULL when that is forgotten. */
const struct walk_step *walk_cached_step(struct stack_walker *w, uint64_t frame);

/* Whether pc is no address of user code: 0 ends a stack, any other comes from a damaged stack. */
static inline bool walk_no_code(uint64_t pc)
{
	return pc - 1 >= (UINT64_C(1) << 57) - 1;
}

/* Loads an aligned word of the stack; false where nothing is mapped. */
bool walk_probe(struct stack_walker *w, uint64_t address);

static inline bool walk_load(struct stack_walker *w, uint64_t address, uint64_t *value)
{
	if (unlikely(address - w->low >= w->high - w->low || (address & 7)) &&
	    !walk_probe(w, address))
		return false;
	/* In assembly, because sanitizers have their own ideas of other functions' frames. */
	__asm__("mov %1, %0" : "=r"(*value) : "m"(*(const uint64_t *)address));
	return true;
}

enum stack_end unwind_all_registers(struct stack_walker *w, const struct stack_map *map,
			 const struct stack_registers *start, struct walk_output *out);

#endif
