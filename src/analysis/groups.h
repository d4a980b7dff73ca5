/*
 * groups.h: what rows have in common, added up by a key, and the order of the results.
 *
 *	GROUPS(struct sum) groups = GROUPS_INIT;
 *	struct sum *g = groups_at(&groups, key, .id = id);
 *	if (!g) return -ENOMEM;
 *	g->count++;
 *	groups_take(&groups, compare, &out->items, &out->count);
 *
 * Groups are in the order of their first rows until they are taken. Not safe for concurrent use.
 */
#ifndef PITOT_ANALYSIS_GROUPS_H
#define PITOT_ANALYSIS_GROUPS_H

#include <stdlib.h>

#include "base/map.h"
#include "base/search.h"
#include "base/vec.h"

#define GROUPS(type)                                                                               \
	struct {                                                                                   \
		struct map index; /* key -> item */                                                \
		VEC(type) items;                                                                   \
	}
#define GROUPS_INIT                                                                                \
	{                                                                                          \
		.index = MAP_INIT                                                                  \
	}

/*
 * The item of a key; a new one begins with the members that follow. NULL: no memory. Valid until
 * the next new item.
 */
#define groups_at(groups, key, ...)                                                                \
	((typeof((groups)->items.data))group_at(&(groups)->index, (void **)&(groups)->items.data,  \
						&(groups)->items.count, &(groups)->items.capacity, \
						sizeof(*(groups)->items.data), key,                \
						&(typeof(*(groups)->items.data)){ __VA_ARGS__ }))

/* What groups_at is made of. */
void *group_at(struct map *index, void **items, size_t *count, size_t *capacity, size_t size,
	       uint64_t key, const void *initial) MUST_USE;

/*
 * Sorts, and hands the array over to *array and *length, to be freed; the groups need no release
 * then.
 */
#define groups_take(groups, compare, array, length)                                                \
	do {                                                                                       \
		vec_sort(&(groups)->items, compare);                                               \
		*(array) = (groups)->items.data;                                                   \
		*(length) = (groups)->items.count;                                                 \
		map_release(&(groups)->index);                                                     \
	} while (0)
#define groups_release(groups)                                                                     \
	do {                                                                                       \
		map_release(&(groups)->index);                                                     \
		vec_release(&(groups)->items);                                                     \
	} while (0)

#endif
