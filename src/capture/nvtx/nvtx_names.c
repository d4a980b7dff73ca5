#include "capture/nvtx/nvtx_names.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "base/reserve.h"
#include "capture/core/shared_area.h"

#define INDEX_SLOTS (2 * NVTX_NAMES_MAX)

/* Reserved in one piece; pages are allocated when they are touched. */
struct memory {
	struct nvtx_name items[NVTX_NAMES_MAX];
	atomic_uint index[INDEX_SLOTS]; /* open addressing by hash: number + 1, 0 is free */
	char text[NVTX_NAME_BYTES_MAX];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct memory *_Atomic memory;
static atomic_uint count;
static atomic_uint_fast64_t refused;
/* protected by the lock */
static uint32_t text_used, domains = NVTX_DOMAIN_SCOPES;
/* number + 1 of the newest name of a thread; each refers to the one before it */
static atomic_uint last_thread;

static struct memory *reserve(void)
{
	struct memory *m = atomic_load_explicit(&memory, memory_order_relaxed);

	if (!m) {
		m = reserve_memory(sizeof(*m));
		atomic_store_explicit(&memory, m, memory_order_release);
	}
	return m;
}

static bool is_same(const struct nvtx_name *item, const struct nvtx_name *key)
{
	if (item->what != key->what || item->length != key->length ||
	    memcmp(item->text, key->text, key->length) != 0)
		return false;
	switch (key->what) {
	case NVTX_NAMED_CATEGORY:
		return item->domain == key->domain && item->id == key->id;
	case NVTX_NAMED_THREAD:
		return item->id == key->id;
	default:
		return true;
	}
}

/* Returns the item with the name, or NULL; *slot is its place in the index. Needs no lock. */
static const struct nvtx_name *find(struct memory *m, const struct nvtx_name *key,
				    atomic_uint **slot)
{
	uint64_t i = hash_bytes(key->text, key->length) ^ key->what;

	for (;; i++) {
		uint32_t n;

		*slot = &m->index[i % INDEX_SLOTS];
		n = atomic_load_explicit(*slot, memory_order_acquire);
		if (!n)
			return NULL;
		if (is_same(&m->items[n - 1], key))
			return &m->items[n - 1];
	}
}

/* For a thread only its last name counts, so that a name can return after another one. */
static bool is_known(const struct nvtx_name *key)
{
	if (key->what != NVTX_NAMED_THREAD)
		return true;
	return is_same(nvtx_names_of_thread(key->id), key);
}

/* Copies new names for recover/. The lock is held. */
static void share(const struct memory *m)
{
	_Static_assert(NVTX_NAMES_MAX == AREA_NVTX_NAMES_MAX &&
			       NVTX_NAME_BYTES_MAX == AREA_NVTX_BYTES,
		       "the area has room for all");
	struct area_nvtx *shared = shared_area_part(AREA_NVTX);
	uint32_t n = atomic_load(&shared_area_head->nvtx_names), end = atomic_load(&count);

	for (; shared && n < end; n++) {
		const struct nvtx_name *item = &m->items[n];
		uint32_t offset = (uint32_t)(item->text - m->text);

		memcpy(shared->text + offset, item->text, item->length);
		shared->names[n] = (struct area_nvtx_name){ offset, item->length, item->what };
		atomic_store_explicit(&shared_area_head->nvtx_names, n + 1, memory_order_release);
	}
}

/* The order of the stores matters, because a fork may happen between any two. */
static const struct nvtx_name *append(struct memory *m, const struct nvtx_name *key,
				      atomic_uint *slot)
{
	uint32_t n = atomic_load_explicit(&count, memory_order_relaxed);
	struct nvtx_name *item = &m->items[n];
	char *text = m->text + text_used;

	if (n == NVTX_NAMES_MAX || key->length >= NVTX_NAME_BYTES_MAX - text_used)
		return NULL;
	text_used += key->length + 1;
	memcpy(text, key->text, key->length);
	text[key->length] = '\0';
	*item = *key;
	item->text = text;
	item->time_ns = clock_monotonic_ns();
	if (item->what == NVTX_NAMED_DOMAIN)
		item->domain = ++domains;
	if (item->what == NVTX_NAMED_THREAD)
		item->domain = atomic_load_explicit(&last_thread, memory_order_relaxed);
	atomic_store_explicit(&count, n + 1, memory_order_release);
	if (item->what == NVTX_NAMED_THREAD)
		atomic_store_explicit(&last_thread, n + 1, memory_order_release);
	atomic_store_explicit(slot, n + 1, memory_order_release);
	return item;
}

const struct nvtx_name *nvtx_names_add(enum nvtx_named what, uint32_t domain, uint32_t id,
				       const char *text, size_t length, bool cut)
{
	struct nvtx_name key = {
		.what = (uint16_t)what, .cut = cut, .domain = domain, .id = id, .text = text
	};
	const struct nvtx_name *item = NULL;
	struct memory *m;

	if (length < NVTX_NAME_BYTES_MAX) {
		key.length = (uint32_t)length;
		pthread_mutex_lock(&lock);
		m = reserve();
		if (m) {
			atomic_uint *slot;

			item = find(m, &key, &slot);
			if (!item || !is_known(&key))
				item = append(m, &key, slot);
			share(m);
		}
		pthread_mutex_unlock(&lock);
	}
	if (!item)
		atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
	return item;
}

const struct nvtx_name *nvtx_names_string(const char *text, size_t length)
{
	struct memory *m = atomic_load_explicit(&memory, memory_order_acquire);
	struct nvtx_name key = { .what = NVTX_NAMED_STRING,
				 .length = (uint32_t)length,
				 .text = text };
	atomic_uint *slot;

	return m ? find(m, &key, &slot) : NULL;
}

const struct nvtx_name *nvtx_names_check(const void *handle, enum nvtx_named what)
{
	struct memory *m = atomic_load_explicit(&memory, memory_order_acquire);
	uintptr_t offset = (uintptr_t)handle - (uintptr_t)m;
	const struct nvtx_name *item;

	if (!m || offset >= nvtx_names_count() * sizeof(m->items[0]) ||
	    offset % sizeof(m->items[0]))
		return NULL;
	item = &m->items[offset / sizeof(m->items[0])];
	return item->what == what ? item : NULL;
}

uint32_t nvtx_names_count(void)
{
	return atomic_load_explicit(&count, memory_order_acquire);
}

const struct nvtx_name *nvtx_names_at(uint32_t i)
{
	return i < nvtx_names_count()
		       ? &atomic_load_explicit(&memory, memory_order_acquire)->items[i]
		       : NULL;
}

uint32_t nvtx_names_number(const struct nvtx_name *name)
{
	return (uint32_t)(name - atomic_load_explicit(&memory, memory_order_relaxed)->items);
}

const struct nvtx_name *nvtx_names_of_thread(uint32_t tid)
{
	uint32_t next = atomic_load_explicit(&last_thread, memory_order_acquire);

	while (next) {
		const struct nvtx_name *item = nvtx_names_at(next - 1);

		if (item->id == tid)
			return item;
		next = item->domain;
	}
	return NULL;
}

uint64_t nvtx_names_refused(void)
{
	return atomic_load_explicit(&refused, memory_order_relaxed);
}

void nvtx_names_share(void)
{
	struct memory *m = atomic_load(&memory);

	pthread_mutex_lock(&lock);
	if (m)
		share(m);
	pthread_mutex_unlock(&lock);
}

void nvtx_names_after_fork(void)
{
	pthread_mutex_init(&lock, NULL);
}
