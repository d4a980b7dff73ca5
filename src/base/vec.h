/*
 * vec.h: a typed growing array.
 *
 *	VEC(uint32_t) ids = VEC_INIT;
 *	if (vec_push(&ids, 7) < 0) return -ENOMEM;
 *	for (size_t i = 0; i < ids.count; i++) use(ids.data[i]);
 *	vec_release(&ids);
 */
#ifndef PITOT_BASE_VEC_H
#define PITOT_BASE_VEC_H

#include <errno.h>

#include "base/compiler.h"

#define VEC(type) struct { type *data; size_t count, capacity; }
#define VEC_INIT { NULL, 0, 0 }

/*
 * Grows *data to hold `count` items, doubling the capacity. Returns 0, or -ENOMEM without a change.
 */
int vec_grow(void **data, size_t *capacity, size_t count, size_t item_size) MUST_USE;

#define vec_reserve(v, extra)                                                                      \
	vec_grow((void **)&(v)->data, &(v)->capacity, (v)->count + (extra), sizeof(*(v)->data))
/* Appends an item. Returns 0 or -ENOMEM. */
#define vec_push(v, item)                                                                          \
	(((v)->count < (v)->capacity ? 0 : vec_reserve(v, 1)) < 0                                  \
		 ? -ENOMEM                                                                         \
		 : ((v)->data[(v)->count++] = (item), 0))
#define vec_release(v) (free((v)->data), (v)->data = NULL, (v)->count = 0, (v)->capacity = 0)

#endif
