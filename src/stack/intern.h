/*
 * intern.h: assigns equal stacks one number, on any number of threads, without locks.
 *
 * The table uses open addressing over 64-bit words: 40 bits of the stack's hash and 24 of its
 * number. Together with the position in the table, a word is wrong for a different stack about once
 * in 10^11 look-ups. A new stack is handed over before its word is published, so the collector has
 * the frames of every number that any thread has seen. Two threads that meet the same new stack
 * concurrently may both hand it over, with two numbers, of which one is used from then on.
 *
 * A table only fills. When it is nearly full, its owner begins another one, whose numbers follow
 * (stack_capture.c).
 */
#ifndef PITOT_STACK_INTERN_H
#define PITOT_STACK_INTERN_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/compiler.h"
#include "schema/schema.h"

#define STACK_TABLE_ID_BITS 20 /* of the numbers of a table */
#define STACK_TABLE_IDS (1u << STACK_TABLE_ID_BITS)

struct stack_interner {
	_Atomic uint64_t *words; /* 0: free */
	uint32_t capacity; /* a power of two */
	uint32_t limit; /* capacity in stacks: at most three quarters of `capacity` */
	uint32_t first; /* numbers begin after this one */
	atomic_uint count;
	atomic_uint next; /* numbers assigned; some are never used */
	atomic_uint refused; /* stacks without a number because the table was full */
};

/* Hands a new stack's frames to the collector. Returns false when that is not possible now. */
typedef bool stack_take(void *context, uint32_t id, const uint64_t *frames, unsigned count,
			enum stack_end end);

/*
 * `limit` is at most 3/4 of STACK_TABLE_IDS; each stack needs 11 to 21 bytes. Returns 0 or -ENOMEM.
 */
int stack_interner_init(struct stack_interner *in, uint32_t limit, uint32_t first) MUST_USE;
/* No thread may use the table any more. */
void stack_interner_release(struct stack_interner *in);
/*
 * Releases the memory while threads may still use the table: they find no stacks, and new stacks
 * are refused.
 */
void stack_interner_forget(struct stack_interner *in);
/* Whether three quarters are used and another table should be begun. */
bool stack_interner_nearly_full(const struct stack_interner *in);

/*
 * Returns the number of the stack, above `first`; 0 when it is not stored, because the table is
 * full (counted) or because `take` has failed (counted by `take`). No lock, no allocation.
 */
uint32_t stack_intern(struct stack_interner *in, const uint64_t *frames, unsigned count,
		      enum stack_end end, stack_take *take, void *context);

#endif
