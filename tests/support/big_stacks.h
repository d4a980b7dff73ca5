/*
 * big_stacks.h: any number of distinct call stacks for synthetic recordings: a C program running
 * Python that calls a C++ library, about twenty frames deep. Nothing in them was measured.
 */
#ifndef PITOT_TESTS_BIG_STACKS_H
#define PITOT_TESTS_BIG_STACKS_H

#include "support/make_recording.h"

#define BIG_STACKS_LEVELS 8 /* levels at which stacks branch */

struct big_stacks {
	struct maker *m;
	uint32_t count; /* number of distinct stacks */
	uint32_t made; /* number made so far */
	uint32_t levels; /* 8^levels >= count */
	/* by level and path: id of the innermost node; 0: not made yet */
	uint32_t *nodes[BIG_STACKS_LEVELS];
	uint32_t *ids; /* by number: id of the stack */
};

/* Writes the modules and symbols. */
void big_stacks_init(struct big_stacks *s, struct maker *m, uint32_t count);
void big_stacks_release(struct big_stacks *s);
/* Returns a stack's id for the next call: first each once, then some more often than others. */
uint32_t big_stacks_next(struct big_stacks *s, uint64_t random);

#endif
