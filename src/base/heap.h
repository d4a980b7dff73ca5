/*
 * heap.h: binary heaps in arrays; items[0] is the first item. `before` is an expression that
 * compares the items pointed to by `a` and `b`.
 *
 *	items[count++] = item;
 *	heap_up(items, count - 1, a, b, a->end_ns < b->end_ns);
 *	first = items[0];
 *	items[0] = items[--count];
 *	heap_down(items, count, 0, a, b, a->end_ns < b->end_ns);
 */
#ifndef PITOT_BASE_HEAP_H
#define PITOT_BASE_HEAP_H

#include <stddef.h>

/* Restores the heap after the item at index `place` was added or moved towards the front. */
#define heap_up(items, place, a, b, before)                                                        \
	do {                                                                                       \
		typeof(*(items)) *a, *b;                                                           \
		for (size_t at_ = (place); at_; at_ = (at_ - 1) / 2) {                             \
			a = &(items)[at_];                                                         \
			b = &(items)[(at_ - 1) / 2];                                               \
			if (!(before))                                                             \
				break;                                                             \
			heap_swap(a, b);                                                           \
		}                                                                                  \
	} while (0)

/*
 * Restores the heap after the item at index `place` was replaced or moved towards the end. `place`
 * may equal `count`.
 */
#define heap_down(items, count, place, a, b, before)                                               \
	do {                                                                                       \
		typeof(*(items)) *a, *b;                                                           \
		for (size_t at_ = (place), child_; (child_ = 2 * at_ + 1) < (count);               \
		     at_ = child_) {                                                               \
			a = &(items)[child_ + 1];                                                  \
			b = &(items)[child_];                                                      \
			child_ += child_ + 1 < (count) && (before);                                \
			a = &(items)[child_];                                                      \
			b = &(items)[at_];                                                         \
			if (!(before))                                                             \
				break;                                                             \
			heap_swap(a, b);                                                           \
		}                                                                                  \
	} while (0)

#define heap_swap(a, b)                                                                            \
	do {                                                                                       \
		typeof(*(a)) swapped_ = *(a);                                                      \
		*(a) = *(b);                                                                       \
		*(b) = swapped_;                                                                   \
	} while (0)

#endif
