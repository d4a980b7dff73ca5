/*
 * function_bounds.h: where functions begin and end, from .eh_frame, which stripped files keep.
 *
 * A function that the compiler split (foo and foo.cold) has several of them.
 */
#ifndef PITOT_SYMBOL_FUNCTION_BOUNDS_H
#define PITOT_SYMBOL_FUNCTION_BOUNDS_H

#include "elf/elf_file.h"
#include "symbol/range_table.h"

struct bounds {
	uint64_t start, end;
};

struct function_bounds {
	VEC(struct bounds) items; /* in order of start */
	struct range_table table; /* values are indexes of items */
};

/* Reads all of .eh_frame; what is broken is left out. 0 or -ENOMEM. */
int function_bounds_init(struct function_bounds *b, const struct elf_file *f) MUST_USE;
void function_bounds_release(struct function_bounds *b);
/* The function around an address, or NULL. */
const struct bounds *function_bounds_find(const struct function_bounds *b, uint64_t address);
/* Where the next function after the address starts, or UINT64_MAX. */
uint64_t function_bounds_next(const struct function_bounds *b, uint64_t address);

#endif
