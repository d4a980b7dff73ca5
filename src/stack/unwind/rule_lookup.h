/*
 * rule_lookup.h: reads the unwind rule of one address directly from a module's call frame
 * information, for code that has not been compiled yet, or cannot be for lack of memory.
 *
 * Everything is copied before it is decoded, in a way that fails instead of faulting
 * (safe_memory.h), because the module may be unloaded meanwhile. No lock, no allocation, 2 KiB of
 * stack; about ten system calls. May run in a signal handler.
 */
#ifndef PITOT_STACK_UNWIND_RULE_LOOKUP_H
#define PITOT_STACK_UNWIND_RULE_LOOKUP_H

#include <stdbool.h>

#include "elf/unwind_rule.h"

/* Must be called before rule_lookup_header(); idempotent. */
void rule_lookup_init(void);

/*
 * Returns the address of .eh_frame_hdr of the module that contains pc, also of a module loaded a
 * moment ago. 0: none, or unknown without a lock (glibc before 2.35).
 */
uint64_t rule_lookup_header(uint64_t pc);

/* Scratch memory, because the stack may have no room for it. */
#define RULE_LOOKUP_BYTES 4608u
struct rule_lookup_room {
	uint8_t bytes[RULE_LOOKUP_BYTES];
};

/*
 * Reads the rule of `pc`, an address of the module whose .eh_frame_hdr is at `header`; the kind is
 * CFA_NONE when no FDE covers it. Returns false when there is no search table, or an entry is too
 * long or unmapped.
 */
bool rule_lookup(struct rule_lookup_room *room, uint64_t header, uint64_t pc,
		 struct unwind_rule *rule);

#endif
