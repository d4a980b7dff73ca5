#include "format/id_space.h"

#include <errno.h>

#include "base/vec.h"

#define TEXT_OVERHEAD 48u /* bytes that an interner and we need for each text, roughly */

static void generation_release(struct id_generation *g)
{
	interner_release(&g->texts);
	free(g->serials);
	*g = (struct id_generation){ 0 };
}

void id_space_init(struct id_space *s, uint32_t first_id, size_t bytes_max, size_t count_max)
{
	*s = (struct id_space){ .bytes_max = bytes_max, .count_max = count_max };
	interner_init(&s->current.texts);
	interner_init(&s->previous.texts);
	s->current.base = first_id;
}

void id_space_release(struct id_space *s)
{
	generation_release(&s->current);
	generation_release(&s->previous);
}

static void next_generation(struct id_space *s)
{
	uint32_t base = s->current.base + (uint32_t)s->current.texts.count;

	generation_release(&s->previous);
	s->previous = s->current;
	s->current = (struct id_generation){ .base = base };
	interner_init(&s->current.texts);
}

int64_t id_space_add(struct id_space *s, const void *text, size_t length)
{
	struct id_generation *g = &s->current;
	int64_t index = interner_find(&g->texts, text, length);

	if (index >= 0)
		return g->base + index;
	if (g->texts.count > 0 &&
	    (g->texts.count >= s->count_max ||
	     g->texts.bytes + length + g->texts.count * TEXT_OVERHEAD > s->bytes_max))
		next_generation(s);
	if (g->texts.count >= UINT32_MAX - g->base ||
	    vec_grow((void **)&g->serials, &g->capacity, g->texts.count + 1, sizeof(*g->serials)) <
		    0)
		return -ENOMEM;
	index = interner_add(&g->texts, text, length, NULL);
	if (index < 0)
		return index;
	g->serials[index] = 0;
	return g->base + index;
}

const struct interned *id_space_find(const struct id_space *s, uint32_t id, uint32_t **serial)
{
	const struct id_generation *g = id >= s->current.base ? &s->current : &s->previous;

	if (id < g->base || id - g->base >= g->texts.count)
		return NULL;
	*serial = &g->serials[id - g->base];
	return &g->texts.items[id - g->base];
}
