/*
 * intern.h: equal stacks get one number, on any number of threads, without locks.
 *
 * The table is open addressing over words of 64 bits: 40 bits of the stack's hash and 24 of its
 * number; with the place in the table a word says enough that two different stacks get the same
 * number about once in 10^11 look-ups. A new stack is handed over before its word is published, so
 * a number that anybody has seen has its frames with the collector. Two threads that meet the same
 * new stack at once may both hand it over, under two numbers, of which one is then used.
 *
 * A table only fills. Whoever owns it begins another, with the numbers after those of this one,
 * when it is nearly full (stack_capture.c).
 */
#ifndef PITOT_STACK_INTERN_H
#define PITOT_STACK_INTERN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "schema/schema.h"

#define STACK_TABLE_ID_BITS 20 /* of numbers that a table gives */
#define STACK_TABLE_IDS (1u << STACK_TABLE_ID_BITS)

struct stack_interner {
	_Atomic uint64_t *words; /* 0: free */
	uint32_t capacity; /* a power of two */
	uint32_t limit; /* stacks that it takes: at most three quarters of the capacity */
	uint32_t first; /* its numbers begin after this one */
	atomic_uint count;
	atomic_uint next; /* how many numbers were given; some are never used */
	atomic_uint refused; /* stacks without a number because the table was full */
};

/* Gives a new stack's frames to the collector; false when that is not possible now. */
typedef bool stack_take(void *context, uint32_t id, const uint64_t *frames, unsigned count,
			enum stack_end end);

/*
 * limit: stacks that it takes, at most 3/4 of STACK_TABLE_IDS; 11 to 21 bytes each. 0 or -ENOMEM.
 */
int stack_interner_init(struct stack_interner *in, uint32_t limit, uint32_t first) MUST_USE;
/* No thread may use it any more. */
void stack_interner_release(struct stack_interner *in);
/*
 * Gives the memory back, though a thread may still be using it: it finds no stacks, and new ones
 * are refused.
 */
void stack_interner_forget(struct stack_interner *in);
/* Three quarters are used: time for another. */
bool stack_interner_nearly_full(const struct stack_interner *in);

/*
 * Number of the stack, above `first`. 0: it is not kept, for the table is full (counted), or `take`
 * had no room (which `take` counts). No lock, no allocation.
 */
uint32_t stack_intern(struct stack_interner *in, const uint64_t *frames, unsigned count,
		      enum stack_end end, stack_take *take, void *context);

#endif
