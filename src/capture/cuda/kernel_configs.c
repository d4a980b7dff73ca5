/*
 * kernel_configs.c: a table of recently seen configurations, as the bytes that CUPTI's records have
 * of them, in front of the writer's own. Programs launch the same few hundred configurations again
 * and again; comparing 100 bytes costs a quarter of making the row and looking it up.
 */
#include "capture/cuda/kernel_configs.h"

#include <string.h>

#include "base/bytes.h"
#include "base/map.h"
#include "capture/rows.h"

#define RECENT 512u
#define KNOWN_NAMES_MAX 65536u /* pointers remembered before the cache starts afresh */

/* What a record says of its configuration. No padding: keys are compared as bytes. */
struct key {
	const char *name;
	uint8_t shape[40]; /* grid_x to local_total_v1 */
	uint8_t launch[8]; /* launch_type to executed_shared */
	uint8_t cluster[32]; /* cluster_x to max_active_clusters */
	uint8_t caches[12]; /* cache_config to partitioned_executed */
	uint32_t used; /* 1 */
};

#define SPAN(first, after)                                                                         \
	(offsetof(struct record_kernel, after) - offsetof(struct record_kernel, first))

_Static_assert(SPAN(cache_config, start) == sizeof(((struct key *)0)->caches), "caches");
_Static_assert(SPAN(grid_x, correlation) == sizeof(((struct key *)0)->shape), "shape");
_Static_assert(SPAN(launch_type, graph_node) == sizeof(((struct key *)0)->launch), "launch");
_Static_assert(SPAN(cluster_x, device_launched) == sizeof(((struct key *)0)->cluster), "cluster");
_Static_assert(sizeof(struct key) == 104, "no padding");

static struct {
	struct map names; /* address of a kernel name -> string id */
	struct recent {
		struct key key;
		uint32_t id;
		uint32_t
			next; /* the slot that was used after this one: programs repeat themselves */
	} recent[RECENT];
	uint32_t last;
} self = { .names = MAP_INIT };

void kernel_configs_forget(void)
{
	map_clear(&self.names);
	memset(self.recent, 0, sizeof(self.recent));
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

/* CUPTI counts cache preferences from 0 = none; here 0 is unknown. */
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
	if (!r->carveout_is_requested)
		ROW_MISSING(&row, kernel_config, carveout_percent);
	ROW_MISSING(&row, kernel_config, priority);
	return writer_kernel_config(w, &row);
}

static struct key key_of(const struct record_kernel *r)
{
	const uint8_t *bytes = (const uint8_t *)r;
	struct key key = { .name = r->name, .used = 1 };

	memcpy(key.shape, bytes + offsetof(struct record_kernel, grid_x), sizeof(key.shape));
	memcpy(key.launch, bytes + offsetof(struct record_kernel, launch_type), sizeof(key.launch));
	memcpy(key.cluster, bytes + offsetof(struct record_kernel, cluster_x), sizeof(key.cluster));
	memcpy(key.caches, bytes + offsetof(struct record_kernel, cache_config),
	       sizeof(key.caches));
	return key;
}

/* Without a call and without branches, for it is nearly always true. */
static bool same(const struct key *a, const struct key *b)
{
	const uint8_t *x = (const uint8_t *)a, *y = (const uint8_t *)b;
	uint64_t differences = 0;

	for (size_t i = 0; i < sizeof(*a); i += sizeof(uint64_t))
		differences |= load_u64(x + i) ^ load_u64(y + i);
	return differences == 0;
}

uint32_t kernel_config_of(struct writer *w, const struct record_kernel *record)
{
	struct key key = key_of(record);
	uint32_t slot = self.recent[self.last].next;

	if (!same(&self.recent[slot].key, &key))
		slot = hash_bytes(&key, sizeof(key)) % RECENT;
	if (!same(&self.recent[slot].key, &key) ||
	    !writer_has_kernel_config(w, self.recent[slot].id)) {
		self.recent[slot].key = key;
		self.recent[slot].id = make_config(w, record);
	}
	self.recent[self.last].next = slot;
	self.last = slot;
	return self.recent[slot].id;
}
