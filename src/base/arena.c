#include "base/arena.h"

#include <string.h>

#define CHUNK_FIRST 4096 /* bytes; each further chunk doubles up to CHUNK_MAX */
#define CHUNK_MAX ((size_t)1 << 20)

struct arena_chunk {
	struct arena_chunk *next;
	size_t used, size; /* of data */
	_Alignas(16) unsigned char data[];
};

void arena_release(struct arena *a)
{
	struct arena_chunk *next;

	for (struct arena_chunk *c = a->chunks; c; c = next) {
		next = c->next;
		free(c);
	}
	*a = (struct arena)ARENA_INIT;
}

static struct arena_chunk *chunk_new(struct arena *a, size_t size)
{
	struct arena_chunk *c = malloc(sizeof(*c) + size);

	if (!c)
		return NULL;
	c->used = 0;
	c->size = size;
	a->bytes += sizeof(*c) + size;
	return c;
}

/*
 * Returns a chunk with room for `size` bytes. A large request gets its own chunk, linked behind the
 * newest one, which stays in use.
 */
static struct arena_chunk *chunk_with_room(struct arena *a, size_t size)
{
	struct arena_chunk *top = a->chunks, *c;
	size_t usual = top ? MIN(2 * top->size, CHUNK_MAX) : CHUNK_FIRST;

	if (top && top->size - top->used >= size)
		return top;
	c = chunk_new(a, MAX(usual, size));
	if (!c)
		return NULL;
	if (top && size > usual) {
		c->next = top->next;
		top->next = c;
	} else {
		c->next = top;
		a->chunks = c;
	}
	return c;
}

void *arena_alloc(struct arena *a, size_t size)
{
	struct arena_chunk *c;
	void *p;

	if (size > PTRDIFF_MAX / 2)
		return NULL;
	size = (size + 15) & ~(size_t)15;
	c = chunk_with_room(a, size);
	if (!c)
		return NULL;
	p = c->data + c->used;
	c->used += size;
	return p;
}

char *arena_strndup(struct arena *a, const char *text, size_t length)
{
	char *copy = length < PTRDIFF_MAX ? arena_alloc(a, length + 1) : NULL;

	if (!copy)
		return NULL;
	if (length)
		memcpy(copy, text, length);
	copy[length] = '\0';
	return copy;
}
