/*
 * python_words.h: the words of memory that a walk of Python frames depends on. While all of them
 * are unchanged, python_walk() finds the same frames and python_code_ids() the same ids.
 */
#ifndef PITOT_STACK_PYTHON_PYTHON_WORDS_H
#define PITOT_STACK_PYTHON_PYTHON_WORDS_H

#include "stack/python/python_offsets.h"

#define PYTHON_WORDS_FRAMES 256u /* recommended limit */

struct memory_word {
	uintptr_t address;
	uint64_t value;
};

/* Bits of an aligned 32-bit word. */
struct memory_half {
	uintptr_t address;
	uint32_t mask, value;
};

/* Index of the first word and half of a frame. */
struct frame_words {
	uint16_t word, half;
};

/*
 * The order of words allows comparing them without reading memory that may have been freed: each is
 * in an object that the words before it lead to. Halves are in objects that the words of their
 * frame lead to.
 */
struct python_words {
	struct memory_word *words;
	struct memory_half *halves;
	struct frame_words *frames; /* innermost first */
	unsigned word_count, words_max, half_count, halves_max, frame_count, frames_max;
};

/* Begin a frame; append a word to it. Return false without room. */
bool python_words_begin(struct python_words *out);
bool python_words_add(struct python_words *out, uintptr_t address, uint64_t value);

/*
 * Appends the words that a walk from this thread state depends on. Returns false without room, or
 * for an unsupported build.
 */
bool python_words_walk(const struct python_runtime *runtime, uintptr_t state,
		       struct python_words *out);

/*
 * Returns a key that differs for most stacks, from the positions of the innermost frames in their
 * code. 0 for an unsupported build.
 */
uint64_t python_words_key(const struct python_runtime *runtime, uintptr_t state);

#endif
