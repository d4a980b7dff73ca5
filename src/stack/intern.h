/*
 * intern.h: equal stacks get one number, on any number of threads, without locks.
 *
 * The table is open addressing over words of 64 bits: 40 bits of the stack's hash and 24 of its
 * number; with the place in the table a word says enough that two different stacks get the same number
 * about once in 10^11 look-ups. A new stack is handed over before its word is published, so a number
 * that anybody has seen has its frames with the collector. Two threads that meet the same new stack at
 * once may both hand it over, under two numbers, of which one is then used.
 */
#ifndef PITOT_STACK_INTERN_H
#define PITOT_STACK_INTERN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "schema/schema.h"

#define STACK_IDS_MAX ((1u << 24) - 1)

struct stack_interner {
	_Atomic uint64_t *words; /* 0: free */
	uint32_t capacity; /* a power of two */
	uint32_t limit; /* stacks that it takes: at most three quarters of the capacity */
	atomic_uint count;
	atomic_uint next; /* last number given; some are never used */
	atomic_uint refused; /* times that a stack got 0 because the table was full */
};

/* Gives a new stack's frames to the collector; false when that is not possible now. */
typedef bool stack_take(void *context, uint32_t id, const uint64_t *frames, unsigned count,
			enum stack_end end);

/* limit: stacks that it takes, at most 2^23; 11 to 21 bytes each. 0 or -ENOMEM. */
int stack_interner_init(struct stack_interner *in, uint32_t limit) MUST_USE;
void stack_interner_release(struct stack_interner *in);

/*
 * Number of the stack, from 1. 0: it is not kept, for the table is full (counted), or `take` had no room
 * (which `take` counts). No lock, no allocation.
 */
uint32_t stack_intern(struct stack_interner *in, const uint64_t *frames, unsigned count,
		      enum stack_end end, stack_take *take, void *context);

#endif
