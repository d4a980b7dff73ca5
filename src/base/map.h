/*
 * map.h: open-addressing hash maps with 64-bit keys, and an interner of byte strings.
 * Neither is safe for concurrent use. Keys and values may be any 64-bit number.
 */
#ifndef PITOT_BASE_MAP_H
#define PITOT_BASE_MAP_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/compiler.h"

struct map_slot;

struct map {
	struct map_slot *slots;
	size_t count, capacity;		/* capacity is 0 or a power of two */
};

#define MAP_INIT { NULL, 0, 0 }

void map_release(struct map *m);
void map_clear(struct map *m);					/* keeps the memory */
/* value set on success only */
bool map_get(const struct map *m, uint64_t key, uint64_t *value);
bool map_take(struct map *m, uint64_t key, uint64_t *value);	/* map_get(), and the key is gone */
int map_put(struct map *m, uint64_t key, uint64_t value) MUST_USE;	/* replaces; 0 or -ENOMEM */
/*
 * Pointer to the value of key, inserted as `initial` if absent; valid until the next insertion.
 * NULL: no memory.
 */
uint64_t *map_at(struct map *m, uint64_t key, uint64_t initial) MUST_USE;
/*
 * Number of a key, from 1 in order of first appearance, in a map that holds nothing else. 0: no
 * memory.
 */
uint64_t map_number(struct map *m, uint64_t key) MUST_USE;
int map_add(struct map *m, uint64_t key) MUST_USE;	/* 1 when the key is new, 0, or -ENOMEM */

uint64_t hash_u64(uint64_t x);
/* not for untrusted stores that need a keyed hash */
uint64_t hash_bytes(const void *bytes, size_t length);

/* Interner: equal byte strings get equal ids, 0, 1, 2 … in order of first appearance. */
struct interned {
	const char *text;	/* NUL-terminated copy, owned by the interner */
	uint32_t length;
};

struct interner {
	struct arena arena;
	struct interned *items;		/* items[id] */
	size_t count, capacity;
	uint32_t *slots;		/* open addressing: id + 1, 0 = free */
	uint64_t *hashes;		/* hashes[id] */
	size_t slot_count;
	size_t bytes;			/* text bytes held, to enforce ceilings with */
};

void interner_init(struct interner *in);
void interner_release(struct interner *in);
/* Id of the string (>= 0), or -ENOMEM. *is_new (may be NULL) tells whether it was added now. */
int64_t interner_add(struct interner *in, const void *text, size_t length, bool *is_new) MUST_USE;
/* Id or -1, never adds. */
int64_t interner_find(const struct interner *in, const void *text, size_t length);

#endif
