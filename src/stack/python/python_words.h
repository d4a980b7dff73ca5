/*
 * python_words.h: what a walk of Python frames depends on, word by word: while all of these are as
 * they were, python_walk() finds the same frames, and python_code_ids() the same numbers.
 */
#ifndef PITOT_STACK_PYTHON_PYTHON_WORDS_H
#define PITOT_STACK_PYTHON_PYTHON_WORDS_H

#include "stack/python/python_offsets.h"

#define PYTHON_WORDS_FRAMES 256u /* recommended ceiling */

struct memory_word {
	uintptr_t address;
	uint64_t value;
};

/* Bits of an aligned 32-bit word. */
struct memory_half {
	uintptr_t address;
	uint32_t mask, value;
};

/* Where the words of a frame begin. */
struct frame_words {
	uint16_t word, half;
};

/*
 * Words are in an order in which they can be compared without reading what may have been freed:
 * each is in something that the ones before it lead to. Halves are in what the words of their frame
 * lead to.
 */
struct python_words {
	struct memory_word *words;
	struct memory_half *halves;
	struct frame_words *frames; /* innermost first */
	unsigned word_count, words_max, half_count, halves_max, frame_count, frames_max;
};

/* Begins a frame, appends a word to it, or the bits of a half. false: there is not enough room. */
bool python_words_begin(struct python_words *out);
bool python_words_add(struct python_words *out, uintptr_t address, uint64_t value);

/*
 * Appends what the walk from this thread state depends on. false: not enough room, or not a build
 * for this.
 */
bool python_words_walk(const struct python_runtime *runtime, uintptr_t state,
		       struct python_words *out);

/*
 * Tells most stacks apart by where their innermost frames are in their code. 0 for a build that is
 * not for this.
 */
uint64_t python_words_key(const struct python_runtime *runtime, uintptr_t state);

#endif
