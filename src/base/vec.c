#include "base/vec.h"

#include <string.h>

int vec_grow(void **data, size_t *capacity, size_t count, size_t item_size)
{
	size_t items = *capacity ? *capacity : 8;
	size_t bytes;
	void *p;

	if (count <= *capacity)
		return 0;
	if (count > PTRDIFF_MAX / item_size)
		return -ENOMEM;
	while (items < count)
		items = items > SIZE_MAX / 2 ? count : 2 * items;
	if (__builtin_mul_overflow(items, item_size, &bytes))
		bytes = (items = count) * item_size;
	/* The caller's pointer has another type: it is read and written as bytes. */
	memcpy(&p, data, sizeof(p));
	p = realloc(p, bytes);
	if (!p)
		return -ENOMEM;
	memcpy(data, &p, sizeof(p));
	*capacity = items;
	return 0;
}
