/*
 * id_table.h: maps the ids of a session to row indexes or to ids of the trace's strings.
 *
 * Sessions assign ids consecutively, so a plain array over their range is nearly full and fastest.
 * If the range is more than about four times the number of ids (gaps in the recording, or hostile
 * input) and more than `spare`, a hash map is used instead.
 */
#ifndef PITOT_TRACE_ID_TABLE_H
#define PITOT_TRACE_ID_TABLE_H

#include "base/map.h"

#define ID_ABSENT UINT32_MAX

struct id_table {
	uint32_t *direct; /* [key - base], ID_ABSENT for unused keys; NULL: `sparse` is used */
	uint64_t base, span;
	struct map sparse;
};

/*
 * The `spare` of each of so many tables, 32 MiB in all: of few tables, half a MiB for each, which
 * covers the range of the ids of API functions.
 */
static inline uint64_t id_table_spare(size_t tables)
{
	return (UINT64_C(1) << 23) / MAX(tables, (size_t)64);
}

/* Prepares for `count` keys between least and greatest. 0 or -ENOMEM. */
int id_table_init(struct id_table *table, uint64_t least, uint64_t greatest, uint64_t count,
		  uint64_t spare) MUST_USE;
void id_table_release(struct id_table *table); /* a zeroed table is valid and empty */

/*
 * The key must lie between least and greatest. 1 if it was added, 0 if it was present (its value
 * does not change), or -ENOMEM.
 */
int id_table_add(struct id_table *table, uint64_t key, uint32_t value) MUST_USE;

/*
 * Maps keys[i] to values[i], or to first_value + i if `values` is NULL, in a zeroed table. 0 or
 * -ENOMEM.
 */
int id_table_fill(struct id_table *table, const uint32_t *keys, const uint32_t *values,
		  uint32_t first_value, size_t count, uint64_t spare) MUST_USE;

static inline uint32_t id_table_get(const struct id_table *table, uint64_t key)
{
	uint64_t value;

	if (table->direct)
		return key - table->base < table->span ? table->direct[key - table->base]
						       : ID_ABSENT;
	return map_get(&table->sparse, key, &value) ? (uint32_t)value : ID_ABSENT;
}

#endif
