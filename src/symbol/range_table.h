/*
 * range_table.h: finds the innermost of many address ranges, nested or not, that contains an
 * address.
 *
 * Ranges are added in any order. Finishing cuts them into pieces that do not overlap, so that a
 * lookup is one binary search. The innermost range is the one that starts last; of several, the one
 * that ends first; of several, the one with the least order.
 */
#ifndef PITOT_SYMBOL_RANGE_TABLE_H
#define PITOT_SYMBOL_RANGE_TABLE_H

#include <stdbool.h>

#include "base/vec.h"

#define RANGE_NONE UINT32_MAX

struct range {
	uint64_t start, end; /* [start, end) */
	uint32_t order;
	uint32_t value;
};

struct range_table {
	VEC(struct range) ranges; /* as added; empty once finished */
	uint64_t *starts; /* pieces: each ends where the next one starts */
	uint32_t *values; /* RANGE_NONE: a gap */
	size_t count;
};

#define RANGE_TABLE_INIT                                                                           \
	{                                                                                          \
		.count = 0                                                                         \
	}

/* Adds a range, unless it is empty. Returns 0 or -ENOMEM. */
int range_table_add(struct range_table *t, struct range range) MUST_USE;
/* Must be called once, after all ranges were added. Returns 0 or -ENOMEM. */
int range_table_finish(struct range_table *t) MUST_USE;
void range_table_release(struct range_table *t);
/* Returns the value of the innermost range that contains the address, or RANGE_NONE. */
uint32_t range_table_find(const struct range_table *t, uint64_t address);

#endif
