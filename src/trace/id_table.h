/*
 * id_table.h: from the ids of a process to small numbers (row indexes, ids of the trace's
 * strings).
 *
 * Ids are handed out one after another, so a plain array over their range is nearly full and
 * fastest; where the range is more than about four times their number (a recording with gaps, or
 * hostile bytes), a hash map is used.
 */
#ifndef PITOT_TRACE_ID_TABLE_H
#define PITOT_TRACE_ID_TABLE_H

#include "base/map.h"

#define ID_ABSENT UINT32_MAX

struct id_table {
	uint32_t *direct; /* [key - base], ID_ABSENT where there is none; NULL: sparse is used */
	uint64_t base, span;
	struct map sparse;
};

/* For `count` keys between least and greatest. 0 or -ENOMEM. */
int id_table_init(struct id_table *table, uint64_t least, uint64_t greatest,
		  uint64_t count) MUST_USE;
void id_table_release(struct id_table *table); /* a zeroed table is allowed, and empty */

/*
 * Key must lie between least and greatest. 1 if it was added, 0 if it was there (and keeps its
 * value), or -ENOMEM.
 */
int id_table_add(struct id_table *table, uint64_t key, uint32_t value) MUST_USE;

/* Adds keys[i] -> values[i], or first_value + i without values, to a zeroed table. 0 or -ENOMEM. */
int id_table_fill(struct id_table *table, const uint32_t *keys, const uint32_t *values,
		  uint32_t first_value, size_t count) MUST_USE;

static inline uint32_t id_table_get(const struct id_table *table, uint64_t key)
{
	uint64_t value;

	if (table->direct)
		return key - table->base < table->span ? table->direct[key - table->base]
						       : ID_ABSENT;
	return map_get(&table->sparse, key, &value) ? (uint32_t)value : ID_ABSENT;
}

#endif
