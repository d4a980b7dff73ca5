/* arena.h: many small allocations that are freed together. Not safe for concurrent use. */
#ifndef PITOT_BASE_ARENA_H
#define PITOT_BASE_ARENA_H

#include "base/compiler.h"

struct arena_chunk;

struct arena {
	struct arena_chunk *chunks;	/* newest first */
	size_t bytes;			/* allocated from the system */
};

#define ARENA_INIT { NULL, 0 }

void arena_release(struct arena *a);
/* aligned to 16, not zeroed; NULL: no memory */
void *arena_alloc(struct arena *a, size_t size) MUST_USE;
/* terminated copy */
char *arena_strndup(struct arena *a, const char *text, size_t length) MUST_USE;

#endif
