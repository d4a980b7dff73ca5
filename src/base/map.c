/*
 * map.c: linear probing in tables that are at most three quarters full.
 *
 * A slot with key 0 is free. Key 0 itself is stored in an extra slot after the table,
 * slots[capacity], whose `key` is 1 when it is present.
 */
#include "base/map.h"

#include <errno.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/bytes.h"
#include "base/vec.h"

#define CAPACITY_MIN 16

struct map_slot {
	uint64_t key, value;
};

uint64_t hash_u64(uint64_t x)
{
	x ^= x >> 32;
	x *= UINT64_C(0xe9846af9b1a615d);
	x ^= x >> 32;
	x *= UINT64_C(0xe9846af9b1a615d);
	x ^= x >> 28;
	return x;
}

static uint64_t multiply_fold(uint64_t a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_from(uint64_t h, const void *bytes, size_t length)
{
	const uint8_t *p = bytes;
	uint64_t last = 0;

	h ^= length;
	for (; length >= 8; p += 8, length -= 8)
		h = multiply_fold(h ^ load_u64(p), UINT64_C(0xd6e8feb86659fd93)) + h;
	if (length)
		memcpy(&last, p, length);
	h = multiply_fold(h ^ last, UINT64_C(0xa0761d6478bd642f)) + h;
	return hash_u64(h);
}

uint64_t hash_bytes(const void *bytes, size_t length)
{
	return hash_from(UINT64_C(0x9e3779b97f4a7c15), bytes, length);
}

/*
 * A number that whoever wrote a file cannot know: many keys that begin at the same slot would make
 * a table a list. It is the kernel's for this process, and different for each table.
 */
static uint64_t new_seed(const void *table)
{
	const void *random = (const void *)getauxval(AT_RANDOM);

	return hash_u64((uint64_t)(uintptr_t)table ^ (random ? load_u64(random) : 0));
}

void map_release(struct map *m)
{
	free(m->slots);
	*m = (struct map)MAP_INIT;
}

void map_clear(struct map *m)
{
	if (m->count)
		memset(m->slots, 0, (m->capacity + 1) * sizeof(*m->slots));
	m->count = 0;
}

/* The slot where a key belongs: both halves of one product, which depend on all bits of the key. */
ALWAYS_INLINE size_t home(uint64_t key, uint64_t seed, size_t capacity)
{
	return (size_t)multiply_fold(key ^ seed, UINT64_C(0x9e3779b97f4a7c15)) & (capacity - 1);
}

/* Returns the slot of key, or the free slot where it belongs. The table is never full. */
ALWAYS_INLINE struct map_slot *slot_of(struct map_slot *slots, size_t capacity, uint64_t seed,
				       uint64_t key)
{
	size_t i = home(key, seed, capacity);

	if (key == 0)
		return &slots[capacity];
	while (slots[i].key && slots[i].key != key)
		i = (i + 1) & (capacity - 1);
	return &slots[i];
}

bool map_get(const struct map *m, uint64_t key, uint64_t *value)
{
	struct map_slot *slot;

	if (!m->count)
		return false;
	slot = slot_of(m->slots, m->capacity, m->seed, key);
	if (!slot->key)
		return false;
	*value = slot->value;
	return true;
}

/* Each slot after the hole moves into it, unless that would put it before its home slot. */
bool map_remove(struct map *m, uint64_t key, uint64_t *value)
{
	size_t mask = m->capacity - 1, hole;

	if (!map_get(m, key, value))
		return false;
	hole = (size_t)(slot_of(m->slots, m->capacity, m->seed, key) - m->slots);
	for (size_t i = (hole + 1) & mask; hole <= mask && m->slots[i].key; i = (i + 1) & mask)
		if (((i - home(m->slots[i].key, m->seed, m->capacity)) & mask) >=
		    ((i - hole) & mask)) {
			m->slots[hole] = m->slots[i];
			hole = i;
		}
	m->slots[hole] = (struct map_slot){ 0 };
	m->count--;
	return true;
}

static int map_rehash(struct map *m)
{
	size_t capacity = m->capacity ? 2 * m->capacity : CAPACITY_MIN;
	struct map_slot *slots;

	if (capacity > SIZE_MAX / 4 / sizeof(*slots))
		return -ENOMEM;
	slots = calloc(capacity + 1, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	if (!m->capacity)
		m->seed = new_seed(slots);
	for (size_t i = 0; i < m->capacity; i++)
		if (m->slots[i].key)
			*slot_of(slots, capacity, m->seed, m->slots[i].key) = m->slots[i];
	if (m->slots)
		slots[capacity] = m->slots[m->capacity];
	free(m->slots);
	m->slots = slots;
	m->capacity = capacity;
	return 0;
}

uint64_t *map_at(struct map *m, uint64_t key, uint64_t initial)
{
	struct map_slot *slot = m->capacity ? slot_of(m->slots, m->capacity, m->seed, key) : NULL;

	if (slot && slot->key)
		return &slot->value;
	if (4 * (m->count + 1) > 3 * m->capacity) {
		if (map_rehash(m) < 0)
			return NULL;
		slot = slot_of(m->slots, m->capacity, m->seed, key);
	}
	*slot = (struct map_slot){ key ? key : 1, initial };
	m->count++;
	return &slot->value;
}

int map_put(struct map *m, uint64_t key, uint64_t value)
{
	uint64_t *at = map_at(m, key, value);

	if (!at)
		return -ENOMEM;
	*at = value;
	return 0;
}

uint64_t map_number(struct map *m, uint64_t key)
{
	uint64_t *number = map_at(m, key, m->count + 1);

	return number ? *number : 0;
}

int map_add(struct map *m, uint64_t key)
{
	size_t count = m->count;

	return map_at(m, key, 0) ? m->count > count : -ENOMEM;
}

void interner_init(struct interner *in)
{
	memset(in, 0, sizeof(*in));
}

void interner_release(struct interner *in)
{
	arena_release(&in->arena);
	free(in->items);
	free(in->hashes);
	free(in->slots);
	interner_init(in);
}

static uint32_t *interner_slot(const struct interner *in, const void *text, size_t length,
			       uint64_t hash)
{
	size_t mask = in->slot_count - 1;

	for (size_t i = hash & mask;; i = (i + 1) & mask) {
		uint32_t id = in->slots[i] - 1;

		if (!in->slots[i])
			return &in->slots[i];
		if (in->hashes[id] == hash && in->items[id].length == length &&
		    (length == 0 || memcmp(in->items[id].text, text, length) == 0))
			return &in->slots[i];
	}
}

static int interner_rehash(struct interner *in)
{
	size_t slot_count = in->slot_count ? 2 * in->slot_count : CAPACITY_MIN;
	uint32_t *slots = calloc(slot_count, sizeof(*slots));

	if (!slots)
		return -ENOMEM;
	for (size_t id = 0; id < in->count; id++) {
		size_t i = in->hashes[id] & (slot_count - 1);

		while (slots[i])
			i = (i + 1) & (slot_count - 1);
		slots[i] = (uint32_t)id + 1;
	}
	free(in->slots);
	in->slots = slots;
	in->slot_count = slot_count;
	return 0;
}

/* Makes room for one more string in all three arrays. */
static int interner_reserve(struct interner *in)
{
	size_t hash_capacity = in->capacity;

	if (in->count >= UINT32_MAX - 1)
		return -ENOMEM;
	if (vec_grow((void **)&in->hashes, &hash_capacity, in->count + 1, sizeof(*in->hashes)) <
		    0 ||
	    vec_grow((void **)&in->items, &in->capacity, in->count + 1, sizeof(*in->items)) < 0)
		return -ENOMEM;
	if (4 * (in->count + 1) > 3 * in->slot_count)
		return interner_rehash(in);
	return 0;
}

int64_t interner_add(struct interner *in, const void *text, size_t length, bool *is_new)
{
	uint32_t *slot;
	uint64_t hash;
	char *copy;

	if (is_new)
		*is_new = false;
	if (!in->slot_count)
		in->seed = new_seed(in);
	hash = hash_from(in->seed, text, length);
	slot = in->slot_count ? interner_slot(in, text, length, hash) : NULL;
	if (slot && *slot)
		return *slot - 1;
	if (length >= UINT32_MAX || interner_reserve(in) < 0)
		return -ENOMEM;
	copy = arena_strndup(&in->arena, text, length);
	if (!copy)
		return -ENOMEM;
	in->items[in->count] = (struct interned){ copy, (uint32_t)length };
	in->hashes[in->count] = hash;
	in->bytes += length;
	*interner_slot(in, text, length, hash) = (uint32_t)++in->count;
	if (is_new)
		*is_new = true;
	return (int64_t)in->count - 1;
}

int64_t interner_find(const struct interner *in, const void *text, size_t length)
{
	uint64_t hash = hash_from(in->seed, text, length);

	return in->count ? (int64_t)*interner_slot(in, text, length, hash) - 1 : -1;
}
