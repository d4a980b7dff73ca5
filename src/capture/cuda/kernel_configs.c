/*
 * kernel_configs.c: a cache of recently seen configurations, keyed by their bytes in CUPTI's
 * records, in front of the writer's table. Programs launch the same few hundred configurations
 * repeatedly; comparing 100 bytes costs a fraction of making the row and looking it up.
 */
#include "capture/cuda/kernel_configs.h"

#include <string.h>

#include "base/bytes.h"
#include "base/map.h"
#include "capture/core/shared_area.h"
#include "capture/cuda/activity_rows.h"
#include "format/rows.h"

#define SET_BITS 8 /* sets of two, the more recent one first */
#define KNOWN_NAMES_MAX 65536u /* pointers remembered before the cache is cleared */

/*
 * The configuration in a record, in words of 8 bytes that begin at these members. The last two
 * overlap.
 */
#define WORDS(W)                                                                                   \
	W(name)                                                                                    \
	W(grid_x)                                                                                  \
	W(grid_z)                                                                                  \
	W(block_y)                                                                                 \
	W(static_shared)                                                                           \
	W(local_per_thread)                                                                        \
	W(launch_type)                                                                             \
	W(cluster_x)                                                                               \
	W(cluster_z)                                                                               \
	W(local_total)                                                                             \
	W(max_cluster)                                                                             \
	W(cache_config)                                                                            \
	W(partitioned_requested)

struct key {
#define WORD(member) uint64_t member;
	WORDS(WORD)
#undef WORD
};

/* The words cover the configuration, and nothing else. */
#define SPAN(first, after)                                                                         \
	(offsetof(struct record_kernel, after) - offsetof(struct record_kernel, first))
_Static_assert(SPAN(grid_x, correlation) == 5 * 8, "grid_x to local_per_thread");
_Static_assert(SPAN(launch_type, graph_node) == 8, "launch_type");
_Static_assert(SPAN(cluster_x, device_launched) == 4 * 8, "cluster_x to max_cluster");
_Static_assert(SPAN(cache_config, start) == 12, "cache_config and partitioned_requested");

static struct {
	struct map names; /* address of a kernel name -> string id */
	struct map shared; /* addresses whose names the area has */
	uint32_t shared_bytes;
	struct recent {
		struct key key;
		uint32_t id;
		bool used;
	} recent[1 << SET_BITS][2];
	uint32_t epoch; /* the writer's epoch in which the ids are valid */
} self = { .names = MAP_INIT, .shared = MAP_INIT };

static void clear_shared(void)
{
	atomic_store(&shared_area_head->kernel_names, 0);
	map_clear(&self.shared);
	self.shared_bytes = 0;
}

/*
 * For recover/, to which the address means nothing. The text is shared rather than its id, whose
 * epoch may be over when the process dies, and its segment overwritten.
 */
static void share_name(const char *name)
{
	struct area_kernel_names *area = shared_area_part(AREA_KERNEL_NAMES);
	size_t length = strlen(name);
	unsigned count;
	uint64_t seen;

	if (!area || length >= AREA_KERNEL_NAMES_BYTES ||
	    map_get(&self.shared, (uintptr_t)name, &seen))
		return;
	if (self.shared.count == AREA_KERNEL_NAMES_MAX ||
	    self.shared_bytes + length > AREA_KERNEL_NAMES_BYTES)
		clear_shared();
	if (map_put(&self.shared, (uintptr_t)name, 1) < 0)
		return;
	count = atomic_load(&shared_area_head->kernel_names);
	memcpy(area->text + self.shared_bytes, name, length);
	area->names[count] = (struct area_kernel_name){ .address = (uintptr_t)name,
							.offset = self.shared_bytes,
							.length = (uint32_t)length };
	self.shared_bytes += (uint32_t)length;
	atomic_store_explicit(&shared_area_head->kernel_names, count + 1, memory_order_release);
}

static void forget_ids(void)
{
	map_clear(&self.names);
	memset(self.recent, 0, sizeof(self.recent));
}

void kernel_configs_forget(void)
{
	forget_ids();
	clear_shared();
}

void kernel_configs_after_fork(void)
{
	self.names = self.shared = (struct map)MAP_INIT;
	kernel_configs_forget();
}

static uint32_t name_id(struct writer *w, const char *name)
{
	uint64_t id;

	if (!name)
		return rows_text(w, "");
	if (map_get(&self.names, (uintptr_t)name, &id))
		return (uint32_t)id;
	if (self.names.count >= KNOWN_NAMES_MAX)
		map_clear(&self.names);
	id = rows_text(w, name);
	if (map_put(&self.names, (uintptr_t)name, id) < 0)
		map_clear(&self.names);
	share_name(name);
	return (uint32_t)id;
}

static uint32_t make_config(struct writer *w, const struct record_kernel *r)
{
	struct row_kernel_config row = kernel_config_row(r, name_id(w, r->name));

	return writer_kernel_config(w, &row);
}

#define WORD_OF(r, member) load_u64((const uint8_t *)(r) + offsetof(struct record_kernel, member))

static struct key key_of(const struct record_kernel *r)
{
#define WORD(member) .member = WORD_OF(r, member),
	return (struct key){ WORDS(WORD) };
#undef WORD
}

/* Hashes name, grid, block and shared memory; other fields seldom differ alone. */
static unsigned set_of(const struct record_kernel *r)
{
	uint64_t hash = WORD_OF(r, name) * UINT64_C(0x9e3779b97f4a7c15) +
			WORD_OF(r, grid_x) * UINT64_C(0xc2b2ae3d27d4eb4f) +
			WORD_OF(r, grid_z) * UINT64_C(0x165667b19e3779f9) +
			WORD_OF(r, block_y) * UINT64_C(0xd6e8feb86659fd93) +
			WORD_OF(r, static_shared) * UINT64_C(0xff51afd7ed558ccd);

	return (unsigned)(hash >> (64 - SET_BITS));
}

/* Compares without a call or branches, because the result is nearly always true. */
static bool is_same(const struct key *key, const struct record_kernel *r)
{
#define WORD(member) | (key->member ^ WORD_OF(r, member))
	return (0 WORDS(WORD)) == 0;
#undef WORD
}

uint32_t kernel_config_of(struct writer *w, const struct record_kernel *record)
{
	struct recent *set;

	if (unlikely(self.epoch != writer_epoch(w))) {
		forget_ids();
		self.epoch = writer_epoch(w);
	}
	set = self.recent[set_of(record)];
	for (unsigned i = 0; i < 2; i++)
		if (set[i].used && is_same(&set[i].key, record))
			return set[i].id;
	set[1] = set[0];
	set[0] = (struct recent){ key_of(record), make_config(w, record), true };
	return set[0].id;
}
