#include "base/vec.h"

#include <string.h>

int vec_grow(void **data, size_t *capacity, size_t count, size_t item_size)
{
	size_t items = *capacity ? *capacity : 8;
	void *p;

	if (count <= *capacity)
		return 0;
	if (count > PTRDIFF_MAX / item_size) /* twice as many must not overflow either */
		return -ENOMEM;
	while (items < count)
		items *= 2;
	/* The caller's pointer has another type, so it is read and written as bytes. */
	memcpy(&p, data, sizeof(p));
	p = realloc(p, items * item_size);
	if (!p)
		return -ENOMEM;
	memcpy(data, &p, sizeof(p));
	*capacity = items;
	return 0;
}
