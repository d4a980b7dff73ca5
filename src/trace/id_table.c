#include "trace/id_table.h"

#include <errno.h>
#include <string.h>

#include "trace/array.h"

int id_table_init(struct id_table *table, uint64_t least, uint64_t greatest, uint64_t count,
		  uint64_t spare)
{
	uint64_t span = greatest - least + 1; /* 0 when it wraps around */

	*table = (struct id_table){ .base = least, .span = span, .sparse = MAP_INIT };
	if (span == 0 || span - 1 > MAX(4 * count, spare))
		return 0;
	table->direct = array_new(span, sizeof(*table->direct));
	if (!table->direct)
		return -ENOMEM;
	memset(table->direct, 0xff, span * sizeof(*table->direct));
	return 0;
}

void id_table_release(struct id_table *table)
{
	free(table->direct);
	map_release(&table->sparse);
	*table = (struct id_table){ .sparse = MAP_INIT };
}

int id_table_add(struct id_table *table, uint64_t key, uint32_t value)
{
	uint64_t *slot;

	if (table->direct) {
		uint32_t *place = &table->direct[key - table->base];

		if (*place != ID_ABSENT)
			return 0;
		*place = value;
		return 1;
	}
	slot = map_at(&table->sparse, key, ID_ABSENT);
	if (!slot)
		return -ENOMEM;
	if (*slot != ID_ABSENT)
		return 0;
	*slot = value;
	return 1;
}

int id_table_fill(struct id_table *table, const uint32_t *keys, const uint32_t *values,
		  uint32_t first_value, size_t count, uint64_t spare)
{
	uint32_t least = UINT32_MAX, greatest = 0;
	int result;

	if (count == 0)
		return 0;
	for (size_t i = 0; i < count; i++) {
		least = MIN(least, keys[i]);
		greatest = MAX(greatest, keys[i]);
	}
	result = id_table_init(table, least, greatest, count, spare);
	for (size_t i = 0; i < count && result >= 0; i++)
		result = id_table_add(table, keys[i],
				      values ? values[i] : first_value + (uint32_t)i);
	return MIN(result, 0);
}
