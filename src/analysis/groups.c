#include "analysis/groups.h"

#include <string.h>

void *group_at(struct map *index, void **items, size_t *count, size_t *capacity, size_t size,
	       uint64_t key, const void *initial)
{
	uint64_t *item = map_at(index, key, *count);

	if (!item)
		return NULL;
	if (*item == *count) {
		if (vec_grow(items, capacity, *count + 1, size) < 0)
			return NULL;
		memcpy((char *)*items + *count * size, initial, size);
		++*count;
	}
	return (char *)*items + *item * size;
}
