/* arena.h: an arena allocator: many small allocations that are freed together. Not thread-safe. */
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
/* Returns memory aligned to 16 bytes, not zeroed; NULL when there is no memory. */
void *arena_alloc(struct arena *a, size_t size) MUST_USE;
/* Returns a NUL-terminated copy, or NULL when there is no memory. */
char *arena_strndup(struct arena *a, const char *text, size_t length) MUST_USE;

#endif
