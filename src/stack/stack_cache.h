/*
 * stack_cache.h: stacks that a thread has had before, found again without walking them.
 *
 * Programs launch in loops: what comes after a stack is nearly always what came after it the last time. So a thread
 * keeps, for its recent stacks, every word of memory that the walk of it depended on - return addresses, saved frame
 * pointers, and the interpreter's frames - and which stacks followed. A launch compares the words of the stacks that
 * followed the last one, then of those with the same rsp, at addresses that are known at once; if all are the same it
 * has the stack's number. Walking, which finds each frame by the one before, and the look-ups after it cost more.
 *
 * A memo belongs to one thread, like its walker, whose last walk it learns from. Stacks are remembered only if they
 * are complete, all on the thread's own stack, and walked by rsp and rbp alone.
 */
#ifndef PITOT_STACK_STACK_CACHE_H
#define PITOT_STACK_STACK_CACHE_H

#include "stack/python/python_words.h"
#include "stack/unwind/unwind_self.h"

#define MEMO_BYTES (384u << 10)
#define MEMO_INDEX 1024u
#define MEMO_WORDS 512u /* that a stack may depend on */
#define MEMO_HALVES 384u

struct stack_cache {
	uint64_t generation; /* of the map of modules that the stacks were walked with */
	uint32_t used; /* bytes of `room`; the first are not used, so that 0 is no record */
	uint32_t last; /* record that was found or added last */
	int32_t luck; /* how often stacks were found of late */
	uint32_t pause; /* stacks that will not be added: few are met again */
	uint32_t index[MEMO_INDEX]; /* records by rsp: the first of a chain */
	struct memory_word words[MEMO_WORDS]; /* of the stack that is being added */
	struct memory_half halves[MEMO_HALVES];
	_Alignas(64) uint8_t room[MEMO_BYTES]; /* records, one after the other */
};

/* Where the thread is in Python. */
struct memo_python {
	const struct python_runtime *runtime; /* NULL: there is no Python */
	uintptr_t state; /* python_thread_state(); 0: the thread has none */
	uint32_t freed; /* python_codes_freed() */
};

/* Forgets all; for a zeroed one there is no need. */
void stack_cache_reset(struct stack_cache *m);

/* The number that was given to stack_cache_add() for this stack of the calling thread; 0: it is not known. */
uint32_t stack_cache_find(struct stack_cache *m, struct stack_walker *w,
			 const struct stack_registers *start, const struct memo_python *python);

/* After stack_walk() from the same registers: remembers its stack if that was complete. */
void stack_cache_add(struct stack_cache *m, struct stack_walker *w,
		    const struct stack_registers *start, const struct memo_python *python,
		    uint32_t id);

#endif
