/*
 * groups.h: groups rows by a key, for aggregation, and sorts the groups.
 *
 *	GROUPS(struct sum) groups = GROUPS_INIT;
 *	struct sum *g = groups_at(&groups, key, .id = id);
 *	if (!g) return -ENOMEM;
 *	g->count++;
 *	groups_take(&groups, compare, &out->items, &out->count);
 *
 * Until groups_take, groups are in the order of their first rows. Not safe for concurrent use.
 */
#ifndef PITOT_ANALYSIS_GROUPS_H
#define PITOT_ANALYSIS_GROUPS_H

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
 * Finds or adds the item of a key; a new item is initialized with the members that follow. NULL:
 * out of memory. The pointer is valid until the next item is added.
 */
#define groups_at(groups, key, ...)                                                                \
	((typeof((groups)->items.data))group_at(&(groups)->index, (void **)&(groups)->items.data,  \
						&(groups)->items.count, &(groups)->items.capacity, \
						sizeof(*(groups)->items.data), key,                \
						&(typeof(*(groups)->items.data)){ __VA_ARGS__ }))

/* Implementation of groups_at. */
void *group_at(struct map *index, void **items, size_t *count, size_t *capacity, size_t size,
	       uint64_t key, const void *initial) MUST_USE;

/*
 * Sorts the items and moves them to *array, which the caller frees, and *length. The groups need no
 * release afterwards.
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
