/*
 * rule_lookup.h: the unwind rule of one address, read straight from a module's call frame
 * information: for code that has not been compiled yet, or never will be for want of memory.
 *
 * Everything is copied before it is decoded, in a way that fails instead of faulting
 * (safe_memory.h), for the module may be unloaded meanwhile. No lock, no allocation, 2 KiB of
 * stack; some ten system calls. May run in a signal handler.
 */
#ifndef PITOT_STACK_UNWIND_RULE_LOOKUP_H
#define PITOT_STACK_UNWIND_RULE_LOOKUP_H

#include <stdbool.h>

#include "elf/unwind_rule.h"

/* Finds what rule_lookup_header needs. Before the first call of it; may be called again. */
void rule_lookup_init(void);

/*
 * Where the dynamic linker has a module's .eh_frame_hdr now, by an address of its code: also of one
 * that was loaded a moment ago. 0: there is none, or it cannot say without a lock (glibc before
 * 2.35).
 */
uint64_t rule_lookup_header(uint64_t pc);

/* Where bytes are copied to: on the stack there may be no room for them. */
#define RULE_LOOKUP_BYTES 4608u
struct rule_lookup_room {
	uint8_t bytes[RULE_LOOKUP_BYTES];
};

/*
 * Reads the rule of `pc`, an address of the module whose .eh_frame_hdr is at `header`; of kind
 * CFA_NONE where no FDE covers it. false: it cannot be read, because there is no search table, or
 * an entry is too long or unmapped.
 */
bool rule_lookup(struct rule_lookup_room *room, uint64_t header, uint64_t pc,
		 struct unwind_rule *rule);

#endif
