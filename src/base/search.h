/* search.h: binary search in sorted tables. */
#ifndef PITOT_BASE_SEARCH_H
#define PITOT_BASE_SEARCH_H

#include "base/compiler.h"

/*
 * How many of `count` sorted items come first: those for which `comes_first` holds, an expression
 * of the index `i`.
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
