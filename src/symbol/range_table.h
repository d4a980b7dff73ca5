/*
 * range_table.h: which of many ranges of addresses, nested or not, is the innermost one around an
 * address.
 *
 * Ranges are added in any order; finishing cuts them into pieces that do not overlap, so that a
 * look-up is one binary search. The innermost is the one that starts last; of those, the one that
 * ends first; of those, the least order.
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
	VEC(struct range) ranges; /* given; empty once finished */
	uint64_t *starts; /* pieces: each goes to the start of the next */
	uint32_t *values; /* RANGE_NONE: a gap */
	size_t count;
};

#define RANGE_TABLE_INIT                                                                           \
	{                                                                                          \
		.count = 0                                                                         \
	}

/* Empty ranges are ignored. 0 or -ENOMEM. */
int range_table_add(struct range_table *t, struct range range) MUST_USE;
/* Once, after all have been added. 0 or -ENOMEM. */
int range_table_finish(struct range_table *t) MUST_USE;
void range_table_release(struct range_table *t);
/* Value of the innermost range around the address, or RANGE_NONE. */
uint32_t range_table_find(const struct range_table *t, uint64_t address);

#endif
