/*
 * kernel_configs.c: a cache of recently seen configurations, keyed by their bytes in CUPTI's
 * records, in front of the writer's table. Programs launch the same few hundred configurations
 * repeatedly; comparing 100 bytes costs a fraction of making the row and looking it up.
 */
#include "capture/cuda/kernel_configs.h"

#include <string.h>

#include "base/map.h"
#include "format/rows.h"

#define SET_BITS 8 /* sets of two, the more recent one first */
#define KNOWN_NAMES_MAX 65536u /* pointers remembered before the cache is cleared */

#define KEY_WORDS 13

/* A record's configuration. It has no padding, because keys are compared as words. */
union key {
	struct {
		const char *name;
		uint8_t shape[40]; /* grid_x to local_total_v1 */
		uint8_t launch[8]; /* launch_type to executed_shared */
		uint8_t cluster[32]; /* cluster_x to max_active_clusters */
		uint8_t caches[12]; /* cache_config to partitioned_executed */
		uint32_t used; /* 1 */
	};
	uint64_t words[KEY_WORDS];
};

#define SPAN(first, after)                                                                         \
	(offsetof(struct record_kernel, after) - offsetof(struct record_kernel, first))

_Static_assert(SPAN(cache_config, start) == sizeof(((union key *)0)->caches), "caches");
_Static_assert(SPAN(grid_x, correlation) == sizeof(((union key *)0)->shape), "shape");
_Static_assert(SPAN(launch_type, graph_node) == sizeof(((union key *)0)->launch), "launch");
_Static_assert(SPAN(cluster_x, device_launched) == sizeof(((union key *)0)->cluster), "cluster");
_Static_assert(sizeof(union key) == KEY_WORDS * 8, "no padding");

static struct {
	struct map names; /* address of a kernel name -> string id */
	struct recent {
		union key key;
		uint32_t id;
	} recent[1 << SET_BITS][2];
	uint32_t epoch; /* the writer's epoch in which the ids are valid */
} self = { .names = MAP_INIT };

void kernel_configs_forget(void)
{
	map_clear(&self.names);
	memset(self.recent, 0, sizeof(self.recent));
}

void kernel_configs_after_fork(void)
{
	self.names = (struct map)MAP_INIT;
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
	return (uint32_t)id;
}

/* CUPTI numbers cache preferences from 0 = none; here 0 is unknown. */
static uint8_t cache_config_of(unsigned cupti_value)
{
	return cupti_value <= 3 ? (uint8_t)(cupti_value + 1) : cache_config_unknown;
}

static uint32_t make_config(struct writer *w, const struct record_kernel *r)
{
	struct row_kernel_config row = {
		.name = name_id(w, r->name),
		.grid_x = (uint32_t)r->grid_x,
		.grid_y = (uint32_t)r->grid_y,
		.grid_z = (uint32_t)r->grid_z,
		.block_x = (uint32_t)r->block_x,
		.block_y = (uint32_t)r->block_y,
		.block_z = (uint32_t)r->block_z,
		.cluster_x = r->cluster_x,
		.cluster_y = r->cluster_y,
		.cluster_z = r->cluster_z,
		.cluster_scheduling = (uint8_t)r->cluster_scheduling,
		.registers = r->registers,
		.static_shared_bytes = (uint32_t)r->static_shared,
		.dynamic_shared_bytes = (uint32_t)r->dynamic_shared,
		.executed_shared_bytes = r->executed_shared,
		.local_bytes_per_thread = r->local_per_thread,
		.local_bytes_total = r->local_total,
		.cache_config_requested = cache_config_of(r->cache_config & 15),
		.cache_config_executed = cache_config_of(r->cache_config >> 4),
		.carveout_percent = r->carveout,
		.launch_type = r->launch_type,
		.max_cluster_blocks = r->max_cluster,
		.max_active_clusters = r->max_active_clusters,
	};

	if (r->cluster_x == 0) {
		ROW_MISSING(&row, kernel_config, cluster_x);
		ROW_MISSING(&row, kernel_config, cluster_y);
		ROW_MISSING(&row, kernel_config, cluster_z);
		ROW_MISSING(&row, kernel_config, cluster_scheduling);
		ROW_MISSING(&row, kernel_config, max_cluster_blocks);
		ROW_MISSING(&row, kernel_config, max_active_clusters);
	}
	ROW_MISSING_IF(&row, kernel_config, carveout_percent, !r->carveout_is_requested);
	ROW_MISSING(&row, kernel_config, priority);
	return writer_kernel_config(w, &row);
}

static void make_key(union key *key, const struct record_kernel *r)
{
	const uint8_t *bytes = (const uint8_t *)r;

	key->name = r->name;
	memcpy(key->shape, bytes + offsetof(struct record_kernel, grid_x), sizeof(key->shape));
	memcpy(key->launch, bytes + offsetof(struct record_kernel, launch_type),
	       sizeof(key->launch));
	memcpy(key->cluster, bytes + offsetof(struct record_kernel, cluster_x),
	       sizeof(key->cluster));
	memcpy(key->caches, bytes + offsetof(struct record_kernel, cache_config),
	       sizeof(key->caches));
	key->used = 1;
}

/* Hashes name, grid, block and shared memory; other fields seldom differ alone. */
static unsigned set_of(const union key *key)
{
	const uint64_t *w = key->words;
	uint64_t hash = w[0] * UINT64_C(0x9e3779b97f4a7c15) + w[1] * UINT64_C(0xc2b2ae3d27d4eb4f) +
			w[2] * UINT64_C(0x165667b19e3779f9) + w[3] * UINT64_C(0xd6e8feb86659fd93) +
			w[4] * UINT64_C(0xff51afd7ed558ccd);

	return (unsigned)(hash >> (64 - SET_BITS));
}

/* Compares without a call or branches, because the result is nearly always true. */
static bool is_same(const union key *a, const union key *b)
{
	uint64_t differences = 0;

	for (size_t i = 0; i < KEY_WORDS; i++)
		differences |= a->words[i] ^ b->words[i];
	return differences == 0;
}

uint32_t kernel_config_of(struct writer *w, const struct record_kernel *record)
{
	struct recent *set;
	union key key;

	if (unlikely(self.epoch != writer_epoch(w))) {
		kernel_configs_forget();
		self.epoch = writer_epoch(w);
	}
	make_key(&key, record);
	set = self.recent[set_of(&key)];
	for (unsigned i = 0; i < 2; i++)
		if (is_same(&set[i].key, &key))
			return set[i].id;
	set[1] = set[0];
	set[0].key = key;
	set[0].id = make_config(w, record);
	return set[0].id;
}
