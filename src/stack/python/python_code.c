#include "stack/python/python_code.h"

#include <stdatomic.h>
#include <string.h>

#include "base/bytes.h"
#include "base/reserve.h"
#include "base/utf8.h"

#define PROBES 64
#define KEY_FREE 0
#define KEY_DEAD 1 /* its code object was freed; reusable */
#define NO_LINES UINT32_MAX

struct code_slot {
	_Atomic uint64_t key;
	_Atomic uint32_t id; /* set after the key, cleared before it; else 0 */
	uint32_t unused;
};
_Static_assert(sizeof(struct code_slot) == 16, "four slots to a cache line");

/*
 * In the arena, at (id - 1) * ARENA_UNIT: this head, name, file, line table. Immutable once it has
 * an id.
 */
#define ARENA_UNIT 8
struct code_record {
	uint32_t first_line;
	uint32_t name_length;
	uint32_t file_length;
	uint32_t lines_length; /* or NO_LINES */
};

struct python_codes {
	struct python_runtime runtime;
	struct code_slot *slots;
	size_t slot_mask;
	uint8_t *arena;
	size_t arena_bytes;
	uint32_t first; /* ids begin after this one */
	struct python_codes *_Atomic before; /* previous table, whose ids may be in use */
	_Atomic size_t used;
	_Atomic uint32_t described;
	_Atomic uint32_t freed;
	_Atomic bool full; /* something did not fit into the arena: no further attempts */
	_Atomic uint64_t no_slot, no_room, not_code, bad_strings, cut_names, no_lines;
};

static void count(_Atomic uint64_t *counter)
{
	atomic_fetch_add_explicit(counter, 1, memory_order_relaxed);
}

struct python_codes *python_codes_new(size_t slots, size_t bytes)
{
	struct python_codes *codes;

	if (slots < 2 || slots & (slots - 1) || slots > INT32_MAX || bytes > INT32_MAX)
		return NULL;
	codes = calloc(1, sizeof(*codes));
	if (!codes)
		return NULL;
	codes->slot_mask = slots - 1;
	codes->arena_bytes = bytes & ~(size_t)(ARENA_UNIT - 1);
	codes->slots = reserve_memory(slots * sizeof(*codes->slots));
	codes->arena = reserve_memory(codes->arena_bytes);
	if (!codes->slots || !codes->arena) {
		python_codes_free(codes);
		return NULL;
	}
	return codes;
}

bool python_codes_nearly_full(const struct python_codes *codes)
{
	return atomic_load_explicit(&codes->full, memory_order_relaxed) ||
	       atomic_load_explicit(&codes->used, memory_order_relaxed) >
		       codes->arena_bytes / 4 * 3 ||
	       atomic_load_explicit(&codes->described, memory_order_relaxed) > codes->slot_mask / 2;
}

void python_codes_forget(struct python_codes *codes)
{
	atomic_store(&codes->full, true);
	madvise(codes->arena, codes->arena_bytes, MADV_DONTNEED);
	madvise(codes->slots, (codes->slot_mask + 1) * sizeof(*codes->slots), MADV_DONTNEED);
}

static uint32_t ids_of(const struct python_codes *codes)
{
	return (uint32_t)(codes->arena_bytes / ARENA_UNIT);
}

bool python_codes_gives(const struct python_codes *codes, uint32_t id)
{
	return id - codes->first - 1 < ids_of(codes);
}

struct python_codes *python_codes_next(struct python_codes *codes)
{
	struct python_codes *next;

	if (codes->first + 2 * (uint64_t)ids_of(codes) > INT32_MAX)
		return NULL;
	next = python_codes_new(codes->slot_mask + 1, codes->arena_bytes);
	if (!next)
		return NULL;
	next->first = codes->first + ids_of(codes);
	atomic_store(&codes->before, NULL);
	atomic_store(&next->before, codes);
	python_codes_attach(next, &codes->runtime);
	return next;
}

/*
 * Watching deallocation, before 3.12. One table and one interpreter per process. The destructor
 * runs with the GIL, after the last frame of the code object has ended, so no thread can be using
 * its slot.
 */
static _Atomic(struct python_codes *) watching;
static void (*_Atomic original_dealloc)(void *);

#define TP_DEALLOC 48

/*
 * Returns a key that distinguishes a code object from all others alive, and since 3.12 from all
 * earlier ones. Never a reserved key.
 */
static inline uint64_t code_key(const struct python_offsets *o, uintptr_t code)
{
	uint64_t name = load_u64((const void *)(code + o->code_name));
	uint64_t numbers = load_u32((const void *)(code + o->code_first_line));
	uint64_t key;

	if (o->code_version)
		numbers |= (uint64_t)load_u32((const void *)(code + o->code_version)) << 32;
	key = code * UINT64_C(0x9e3779b97f4a7c15) ^ name * UINT64_C(0xc2b2ae3d27d4eb4f) ^
	      numbers * UINT64_C(0xd6e8feb86659fd93);
	key ^= key >> 32;
	return key > KEY_DEAD ? key : key + 2;
}

/* Empties all slots of the key: two threads may have reserved one each. */
static void empty_slots(struct python_codes *codes, uint64_t key)
{
	for (unsigned i = 0; i < PROBES; i++) {
		struct code_slot *slot = &codes->slots[(key + i) & codes->slot_mask];
		uint64_t there = atomic_load_explicit(&slot->key, memory_order_relaxed);

		if (there == KEY_FREE)
			break;
		if (there != key)
			continue;
		atomic_store_explicit(&slot->id, 0, memory_order_relaxed);
		atomic_store_explicit(&slot->key, KEY_DEAD, memory_order_release);
		atomic_fetch_add_explicit(&codes->freed, 1, memory_order_relaxed);
	}
}

static void watched_dealloc(void *code)
{
	struct python_codes *codes = atomic_load(&watching);
	void (*original)(void *) = atomic_load(&original_dealloc);

	for (; codes; codes = atomic_load(&codes->before))
		empty_slots(codes, code_key(&codes->runtime.offsets, (uintptr_t)code));
	original(code);
}

static void watch(struct python_codes *codes)
{
	void (**dealloc)(void *) = (void (**)(void *))(codes->runtime.code_type + TP_DEALLOC);
	void (*now)(void *) = __atomic_load_n(dealloc, __ATOMIC_ACQUIRE);

	atomic_store(&watching, codes);
	if (!now || now == watched_dealloc)
		return;
	atomic_store(&original_dealloc, now);
	__atomic_store_n(dealloc, watched_dealloc, __ATOMIC_RELEASE);
}

void python_codes_attach(struct python_codes *codes, const struct python_runtime *runtime)
{
	codes->runtime = *runtime;
	if (!runtime->offsets.code_version)
		watch(codes);
}

uint32_t python_codes_freed(const struct python_codes *codes)
{
	return atomic_load_explicit(&codes->freed, memory_order_relaxed);
}

void python_codes_free(struct python_codes *codes)
{
	struct python_codes *self = codes;

	if (!codes)
		return;
	atomic_compare_exchange_strong(&watching, &self, NULL);
	if (codes->slots)
		munmap(codes->slots, (codes->slot_mask + 1) * sizeof(*codes->slots));
	if (codes->arena)
		munmap(codes->arena, codes->arena_bytes);
	free(codes);
}

/* Appends one character. Returns false when it does not fit. */
static bool put_character(char *out, size_t max, size_t *n, uint32_t c)
{
	uint8_t bytes[UTF8_MAX];
	size_t length;

	if (c >= 0xdc80 && c <= 0xdcff) {
		bytes[0] = (uint8_t)c; /* restores a byte of the path that was not UTF-8 */
		length = 1;
	} else {
		length = utf8_put(bytes, c);
	}
	if (max - *n < length)
		return false;
	memcpy(out + *n, bytes, length);
	*n += length;
	return true;
}

static uint32_t character(const uint8_t *data, unsigned kind, size_t i)
{
	return kind == 1 ? data[i] : kind == 2 ? load_u16(data + 2 * i) : load_u32(data + 4 * i);
}

/* Returns the first character of the longest tail with at most `max` bytes. */
static size_t tail_start(const uint8_t *data, unsigned kind, size_t length, size_t max)
{
	size_t n = 0, i = length;
	char unused[UTF8_MAX];

	while (i > 0) {
		size_t one = 0;

		put_character(unused, sizeof(unused), &one, character(data, kind, i - 1));
		if (n + one > max)
			break;
		n += one;
		i--;
	}
	return i;
}

size_t python_text(const struct python_runtime *runtime, uintptr_t string, char *out, size_t max,
		   bool tail, bool *cut)
{
	const struct python_offsets *o = &runtime->offsets;
	const uint8_t *p = (const uint8_t *)string;
	uint32_t state;
	uint64_t length;
	size_t n = 0, i = 0;
	unsigned kind;

	if (!string || load_u64(p + o->object_type) != runtime->string_type)
		return 0;
	length = load_u64(p + o->object_size);
	state = load_u32(p + o->object_size + 16) >> o->string_kind_bit;
	kind = state & 7;
	if (!(state & 8) || (kind != 1 && kind != 2 && kind != 4) || length > INT32_MAX)
		return 0;
	p += state & 16 ? o->string_head : o->string_head_wide;
	if (tail)
		i = tail_start(p, kind, length, max);
	if (i > 0)
		*cut = true;
	for (; i < length; i++) {
		if (!put_character(out, max, &n, character(p, kind, i))) {
			*cut = true;
			break;
		}
	}
	return n;
}

/* Returns the bytes of the line table, or NULL when they cannot be stored. */
static const uint8_t *line_table(const struct python_runtime *runtime, uintptr_t code,
				 uint32_t *length)
{
	const struct python_offsets *o = &runtime->offsets;
	const uint8_t *bytes = (const uint8_t *)load_u64((const void *)(code + o->code_lines));
	uint64_t size;

	if (!bytes || load_u64(bytes + o->object_type) != runtime->bytes_type)
		return NULL;
	size = load_u64(bytes + o->object_size);
	if (size > PYTHON_LINES_MAX)
		return NULL;
	*length = (uint32_t)size;
	return bytes + o->object_size + 16;
}

/* Reserves room for a record of that size, or returns NULL. */
static struct code_record *reserve_record(struct python_codes *codes, size_t size)
{
	size_t used = atomic_load_explicit(&codes->used, memory_order_relaxed);

	size = (size + ARENA_UNIT - 1) & ~(size_t)(ARENA_UNIT - 1);
	do {
		if (codes->arena_bytes - used < size) {
			atomic_store_explicit(&codes->full, true, memory_order_relaxed);
			return NULL;
		}
	} while (!atomic_compare_exchange_weak_explicit(
		&codes->used, &used, used + size, memory_order_relaxed, memory_order_relaxed));
	return (struct code_record *)(codes->arena + used);
}

static void count_gaps(struct python_codes *codes, const struct code_record *record, bool cut)
{
	if (cut)
		count(&codes->cut_names);
	if (record->lines_length == NO_LINES)
		count(&codes->no_lines);
	if (!record->name_length || !record->file_length)
		count(&codes->bad_strings);
}

/* Copies the names and the line table of a code object. Returns its id, or 0. */
static uint32_t describe(struct python_codes *codes, uintptr_t code)
{
	const struct python_runtime *r = &codes->runtime;
	char name[PYTHON_NAME_MAX], file[PYTHON_FILE_MAX];
	bool cut = false;
	struct code_record head = { .lines_length = NO_LINES }, *record = NULL;
	const uint8_t *lines;
	uint8_t *p;

	if (!atomic_load_explicit(&codes->full, memory_order_relaxed)) {
		lines = line_table(r, code, &head.lines_length);
		head.first_line = load_u32((const void *)(code + r->offsets.code_first_line));
		head.name_length = (uint32_t)python_text(
			r, load_u64((const void *)(code + r->offsets.code_qualname)), name,
			sizeof(name), false, &cut);
		head.file_length = (uint32_t)python_text(
			r, load_u64((const void *)(code + r->offsets.code_file)), file,
			sizeof(file), true, &cut);
		record = reserve_record(codes, sizeof(head) + head.name_length + head.file_length +
						       (lines ? head.lines_length : 0));
	}
	if (!record) {
		count(&codes->no_room);
		return 0;
	}
	*record = head;
	p = (uint8_t *)(record + 1);
	memcpy(p, name, head.name_length);
	memcpy(p + head.name_length, file, head.file_length);
	if (lines)
		memcpy(p + head.name_length + head.file_length, lines, head.lines_length);
	count_gaps(codes, &head, cut);
	atomic_fetch_add_explicit(&codes->described, 1, memory_order_relaxed);
	return codes->first + (uint32_t)((size_t)((uint8_t *)record - codes->arena) / ARENA_UNIT) +
	       1;
}

static struct code_slot *find_slot(const struct python_codes *codes, uint64_t key)
{
	for (unsigned i = 0; i < PROBES; i++) {
		struct code_slot *slot = &codes->slots[(key + i) & codes->slot_mask];
		uint64_t there = atomic_load_explicit(&slot->key, memory_order_relaxed);

		if (there == key)
			return slot;
		if (there == KEY_FREE)
			return NULL;
	}
	return NULL;
}

/*
 * Returns the slot of a key, reserved if it had none. *reserved: no other thread will set its id.
 * NULL: all slots nearby are in use.
 */
static struct code_slot *reserve_slot(struct python_codes *codes, uint64_t key, bool *reserved)
{
	struct code_slot *found = find_slot(codes, key);

	*reserved = false;
	for (unsigned i = 0; i < PROBES && !found; i++) {
		struct code_slot *slot = &codes->slots[(key + i) & codes->slot_mask];
		uint64_t there = atomic_load_explicit(&slot->key, memory_order_relaxed);

		if (there == KEY_FREE || there == KEY_DEAD)
			*reserved = atomic_compare_exchange_strong(&slot->key, &there, key);
		if (*reserved || there == key) /* another thread has stored the key */
			found = slot;
	}
	return found;
}

/* For code objects that are not in the first slot of their key. */
static NOINLINE uint32_t find_or_add(struct python_codes *codes, uint64_t key, uintptr_t code)
{
	struct code_slot *slot;
	uint32_t id;
	bool reserved;

	if (load_u64((const void *)(code + codes->runtime.offsets.object_type)) !=
	    codes->runtime.code_type) {
		count(&codes->not_code);
		return 0;
	}
	slot = reserve_slot(codes, key, &reserved);
	if (!slot) {
		count(&codes->no_slot);
		return 0;
	}
	id = reserved ? 0 : atomic_load_explicit(&slot->id, memory_order_acquire);
	if (id)
		return id;
	id = describe(codes, code);
	atomic_store_explicit(&slot->id, id, memory_order_release);
	return id;
}

void python_code_ids(struct python_codes *codes, struct python_frame *frames, unsigned n)
{
	const struct python_offsets o =
		codes->runtime.offsets; /* a copy, which no store can change */

	for (unsigned i = 0; i < n; i++) {
		uintptr_t code = frames[i].code;
		uint64_t key;
		const struct code_slot *slot;
		uint32_t id = 0;

		if (unlikely(!code)) {
			frames[i].id = 0;
			continue;
		}
		key = code_key(&o, code);
		slot = &codes->slots[key & codes->slot_mask];
		if (likely(atomic_load_explicit(&slot->key, memory_order_acquire) == key))
			id = atomic_load_explicit(&slot->id, memory_order_acquire);
		frames[i].id = likely(id) ? id : find_or_add(codes, key, code);
	}
}

static const struct code_record *record_of(const struct python_codes *codes, uint32_t id)
{
	size_t at = (size_t)(id - codes->first - 1) * ARENA_UNIT;

	return python_codes_gives(codes, id) &&
			       at < atomic_load_explicit(&codes->used, memory_order_relaxed)
		       ? (const struct code_record *)(codes->arena + at)
		       : NULL;
}

bool python_code_get(const struct python_codes *codes, uint32_t id, struct python_code *out)
{
	const struct code_record *record = record_of(codes, id);
	const char *name;

	if (!record)
		return false;
	name = (const char *)(record + 1);
	*out = (struct python_code){ .first_line = record->first_line,
				     .name = name,
				     .name_length = record->name_length,
				     .file = name + record->name_length,
				     .file_length = record->file_length };
	return true;
}

uint32_t python_line(const struct python_codes *codes, uint32_t id, uint32_t last)
{
	const struct code_record *record = record_of(codes, id);
	const uint8_t *table;

	if (!record || record->lines_length == NO_LINES)
		return 0;
	table = (const uint8_t *)(record + 1) + record->name_length + record->file_length;
	return python_table_line(codes->runtime.offsets.lines, table, record->lines_length,
				 record->first_line, last);
}

struct python_code_losses python_code_losses(const struct python_codes *codes)
{
	return (struct python_code_losses){ .no_slot = atomic_load(&codes->no_slot),
					    .no_room = atomic_load(&codes->no_room),
					    .not_code = atomic_load(&codes->not_code),
					    .bad_strings = atomic_load(&codes->bad_strings),
					    .cut_names = atomic_load(&codes->cut_names),
					    .no_lines = atomic_load(&codes->no_lines) };
}
