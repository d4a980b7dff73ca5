/* search.h: sorting, and binary search in sorted arrays. */
#ifndef PITOT_BASE_SEARCH_H
#define PITOT_BASE_SEARCH_H

#include <stdlib.h>

#include "base/compiler.h"

/*
 * Defines a comparison for qsort(3) of the items a and b by one key after the other:
 *
 *	ORDER(by_size, struct file, DOWN(size) ?: UP(date.year) ?: strcmp(a->name, b->name))
 */
#define ORDER(name, type, keys)                                                                    \
	static int name(const void *a_, const void *b_)                                            \
	{                                                                                          \
		const typeof(type) *a = a_, *b = b_;                                               \
                                                                                                   \
		return keys;                                                                       \
	}
#define ORDER_OF(x, y) (((x) > (y)) - ((x) < (y)))
#define UP(member) ORDER_OF(a->member, b->member)
#define DOWN(member) ORDER_OF(b->member, a->member)

/* Comparisons of plain numbers. */
static inline int order_u64(const void *a, const void *b)
{
	return ORDER_OF(*(const uint64_t *)a, *(const uint64_t *)b);
}

static inline int order_i64(const void *a, const void *b)
{
	return ORDER_OF(*(const int64_t *)a, *(const int64_t *)b);
}

static inline int order_double(const void *a, const void *b)
{
	return ORDER_OF(*(const double *)a, *(const double *)b);
}

/* Sorts a VEC. */
#define vec_sort(v, compare)                                                                       \
	do {                                                                                       \
		if ((v)->count)                                                                    \
			qsort((v)->data, (v)->count, sizeof(*(v)->data), compare);                 \
	} while (0)

/*
 * Returns the length of the prefix of `count` sorted items for which `comes_first`, an expression
 * of the index `i`, holds.
 *
 *	size_t after = sorted_prefix(t->count, i, t->items[i].start <= address);
 */
#define sorted_prefix(count, i, comes_first)                                                       \
	({                                                                                         \
		size_t low_ = 0, high_ = (count);                                                  \
		while (low_ < high_) {                                                             \
			size_t i = low_ + (high_ - low_) / 2;                                      \
			if (comes_first)                                                           \
				low_ = i + 1;                                                      \
			else                                                                       \
				high_ = i;                                                         \
		}                                                                                  \
		low_;                                                                              \
	})

#endif
