/*
 * big_stacks.h: any number of distinct call stacks for synthetic recordings: a C program that runs
 * Python that calls a C++ library, about twenty frames deep. Nothing in them was measured.
 */
#ifndef PITOT_TESTS_BIG_STACKS_H
#define PITOT_TESTS_BIG_STACKS_H

#include "support/make_recording.h"

#define BIG_STACKS_LEVELS 8 /* places where stacks part */

struct big_stacks {
	struct maker *m;
	uint32_t count; /* distinct stacks */
	uint32_t made; /* so far */
	uint32_t levels; /* 8^levels >= count */
	/* by level and path: id of the innermost node there, 0: not yet */
	uint32_t *nodes[BIG_STACKS_LEVELS];
	uint32_t *ids; /* by number: id of the stack */
};

/* Writes the modules and symbols. */
void big_stacks_init(struct big_stacks *s, struct maker *m, uint32_t count);
void big_stacks_release(struct big_stacks *s);
/* Id of a stack for the next call: each once at first, then some more often than others. */
uint32_t big_stacks_next(struct big_stacks *s, uint64_t random);

#endif
