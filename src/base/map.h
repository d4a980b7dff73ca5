/*
 * map.h: open-addressing hash maps with 64-bit keys, and an interner of byte strings. Neither is
 * thread-safe. Keys and values may be any 64-bit number.
 */
#ifndef PITOT_BASE_MAP_H
#define PITOT_BASE_MAP_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/compiler.h"

struct map_slot;

struct map {
	struct map_slot *slots;
	size_t count, capacity; /* capacity is 0 or a power of two */
	uint64_t seed; /* of the hashes, set with the first slots */
};

#define MAP_INIT                                                                                   \
	{                                                                                          \
		NULL, 0, 0, 0                                                                      \
	}

void map_release(struct map *m);
void map_clear(struct map *m); /* keeps the memory */
/* *value is set on success only. */
bool map_get(const struct map *m, uint64_t key, uint64_t *value);
bool map_remove(struct map *m, uint64_t key, uint64_t *value); /* gets and removes */
int map_put(struct map *m, uint64_t key, uint64_t value) MUST_USE; /* replaces; 0 or -ENOMEM */
/*
 * Returns a pointer to the value of key, which is inserted as `initial` if absent; NULL when there
 * is no memory. Valid until the next insertion.
 */
uint64_t *map_at(struct map *m, uint64_t key, uint64_t initial) MUST_USE;
/*
 * Returns the number of a key, from 1 in order of first appearance, in a map that is used for
 * nothing else; 0 when there is no memory.
 */
uint64_t map_number(struct map *m, uint64_t key) MUST_USE;
int map_add(struct map *m, uint64_t key) MUST_USE; /* 1 if new, 0, or -ENOMEM */

uint64_t hash_u64(uint64_t x);
/* Always the same, unlike the hashes of maps and interners: an attacker can provoke collisions. */
uint64_t hash_bytes(const void *bytes, size_t length);

/* Interner: equal byte strings get equal ids, 0, 1, 2 … in order of first appearance. */
struct interned {
	const char *text; /* NUL-terminated copy, owned by the interner */
	uint32_t length;
};

struct interner {
	struct arena arena;
	struct interned *items; /* items[id] */
	size_t count, capacity;
	uint32_t *slots; /* open addressing: id + 1, 0 = free */
	uint64_t *hashes; /* hashes[id] */
	size_t slot_count;
	uint64_t seed; /* of the hashes, set with the first slots */
	size_t bytes; /* bytes of all texts, for enforcing limits */
};

void interner_init(struct interner *in);
void interner_release(struct interner *in);
/* Returns the id (>= 0) or -ENOMEM. *is_new (may be NULL): whether the string was added now. */
int64_t interner_add(struct interner *in, const void *text, size_t length, bool *is_new) MUST_USE;
/* Returns the id, or -1 when the string was not added. */
int64_t interner_find(const struct interner *in, const void *text, size_t length);

#endif
