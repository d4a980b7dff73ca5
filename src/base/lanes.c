#include "base/lanes.h"

#include <errno.h>
#include <stdlib.h>

static void end_until(struct lane *lane, uint64_t now_ns)
{
	while (lane->ends.count && lane->ends.data[lane->ends.count - 1] <= now_ns)
		lane->ends.count--;
}

static bool fits(const struct lanes *l, const struct lane *lane, uint64_t end_ns)
{
	if (!lane->ends.count)
		return true;
	return !l->exclusive && end_ns <= lane->ends.data[lane->ends.count - 1];
}

int lanes_add(struct lanes *l, uint64_t start_ns, uint64_t end_ns)
{
	size_t i;

	for (i = 0; i < l->items.count; i++) {
		end_until(&l->items.data[i], start_ns);
		if (fits(l, &l->items.data[i], end_ns))
			break;
	}
	if (i == LANES_MAX)
		return -E2BIG;
	if (i == l->items.count) {
		struct lane lane = { VEC_INIT };

		if (vec_push(&l->items, lane) < 0)
			return -ENOMEM;
	}
	if (vec_push(&l->items.data[i].ends, end_ns) < 0)
		return -ENOMEM;
	return (int)i;
}

void lanes_release(struct lanes *l)
{
	for (size_t i = 0; i < l->items.count; i++)
		vec_release(&l->items.data[i].ends);
	vec_release(&l->items);
}

void *tracks_at(struct tracks *t, uint64_t key, size_t size, bool *is_new)
{
	uint64_t *number = map_at(&t->index, key, t->items.count);
	struct lanes *track;

	*is_new = number && *number == t->items.count;
	if (!*is_new)
		return number ? t->items.data[*number] : NULL;
	track = calloc(1, size);
	if (track && vec_push(&t->items, track) == 0)
		return track;
	free(track);
	return NULL;
}

void tracks_release(struct tracks *t)
{
	for (size_t i = 0; i < t->items.count; i++) {
		lanes_release(t->items.data[i]);
		free(t->items.data[i]);
	}
	vec_release(&t->items);
	map_release(&t->index);
}
