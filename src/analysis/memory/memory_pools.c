/* memory_pools.c: memory pools, and what the driver has in use beyond recorded allocations. */
#include "analysis/memory/memory_peak.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "system/metrics.h"

/* --- pools --- */

struct pool_list {
	const struct report *report;
	GROUPS(struct memory_pool) pools; /* key: hash of process, device and address */
};

static struct memory_pool *pool_at(struct pool_list *l, uint32_t process, uint32_t device,
				   uint64_t address)
{
	return groups_at(&l->pools, hash_u64((uint64_t)process << 32 | device) ^ address,
			 .address = address, .process = process, .device = device,
			 .threshold_bytes = UINT64_MAX);
}

static void add_size(struct memory_pool *p, uint64_t time_ns, uint64_t bytes, uint64_t used)
{
	if (bytes > p->size_bytes || (bytes == p->size_bytes && used > p->used_bytes)) {
		p->size_bytes = bytes;
		p->size_ns = time_ns;
		p->used_bytes = used;
	}
	p->peak_used_bytes = MAX(p->peak_used_bytes, used);
}

static bool is_before_end(const struct report *r, uint64_t time_ns)
{
	return time_ns < r->options.filter.until_ns;
}

/* Allocations from pools of CUDA have the state of the pool. */
static int add_allocations(struct pool_list *l)
{
	const struct report *r = l->report;
	const struct allocation_columns *c = allocation_columns(r->trace);

	for (struct row_walk w = selection_rows(&r->selection, TABLE_allocation);
	     row_walk_next(&w);) {
		struct memory_pool *p;

		if (!column_has(c->valid.pool_address, w.row) ||
		    !column_has(c->valid.pool_bytes, w.row) ||
		    !column_has(c->valid.pool_used_bytes, w.row) ||
		    !is_before_end(r, c->time_ns[w.row]))
			continue;
		p = pool_at(l, w.process, c->device[w.row], c->pool_address[w.row]);
		if (!p)
			return -ENOMEM;
		add_size(p, c->time_ns[w.row], c->pool_bytes[w.row], c->pool_used_bytes[w.row]);
	}
	return 0;
}

static int add_pool_rows(struct pool_list *l)
{
	const struct report *r = l->report;
	const struct memory_pool_columns *c = memory_pool_columns(r->trace);

	for (struct row_walk w = selection_rows(&r->selection, TABLE_memory_pool);
	     row_walk_next(&w);) {
		struct memory_pool *p;

		if (!is_before_end(r, c->time_ns[w.row]))
			continue;
		p = pool_at(l, w.process, c->device[w.row], c->address[w.row]);
		if (!p)
			return -ENOMEM;
		p->trims += c->operation[w.row] == pool_operation_trimmed;
		p->threshold_bytes = c->release_threshold_bytes[w.row];
		if (column_has(c->valid.used_bytes, w.row))
			add_size(p, c->time_ns[w.row], c->bytes[w.row], c->used_bytes[w.row]);
	}
	return 0;
}

/* The highest level of a group between two rows. */
struct level_between {
	uint64_t from, until; /* rows */
	uint64_t before, highest; /* before: until `from` */
};

static int add_level(void *user, uint64_t row, uint64_t bytes)
{
	struct level_between *l = user;

	if (row <= l->from)
		l->before = bytes;
	else if (row < l->until)
		l->highest = MAX(l->highest, bytes);
	return 0;
}

/* The first row after a group's peak at which it has less. */
static uint64_t peak_end(const struct memory_use *u, size_t group)
{
	uint64_t end = UINT64_MAX;

	for (uint32_t i = u->items[group].first; i != TRACE_NO_ROW; i = u->blocks[i].next)
		if (u->blocks[i].bytes && u->blocks[i].release != TRACE_NO_ROW &&
		    memory_is_live(&u->blocks[i], u->items[group].peak_row))
			end = MIN(end, u->blocks[i].release);
	return end;
}

/* A framework's allocator: its segments are the size, its blocks the use. */
static int add_allocator(struct pool_list *l, size_t segments, size_t blocks)
{
	const struct memory_use *u = l->report->memory_use;
	const struct memory_group *g = &u->items[segments];
	struct level_between between = {
		.from = g->peak_row == TRACE_NO_ROW ? 0 : g->peak_row,
		.until = peak_end(u, segments),
		.before = u->items[blocks].base_bytes,
	};
	struct memory_pool *p = pool_at(l, g->process, g->device, 0);
	int code = p ? memory_curve(u, blocks, add_level, &between) : -ENOMEM;

	if (code < 0)
		return code;
	add_size(p, g->peak_ns, g->peak_bytes, MAX(between.before, between.highest));
	p->peak_used_bytes = u->items[blocks].peak_bytes;
	return 0;
}

static int add_allocators(struct pool_list *l)
{
	const struct memory_use *u = l->report->memory_use;
	_cleanup_(map_release) struct map blocks =
		MAP_INIT; /* process and device -> their group of blocks */
	uint64_t group;
	int code = 0;

	for (size_t i = 0; i < u->count && code == 0; i++)
		if (u->items[i].kind == memory_kind_allocator_block)
			code = map_put(&blocks,
				       (uint64_t)u->items[i].process << 32 | u->items[i].device, i);
	for (size_t i = 0; i < u->count && code == 0; i++)
		if (u->items[i].kind == memory_kind_allocator_segment &&
		    map_get(&blocks, (uint64_t)u->items[i].process << 32 | u->items[i].device,
			    &group))
			code = add_allocator(l, i, group);
	return code;
}

ORDER(largest_first, struct memory_pool,
      DOWN(size_bytes) ?: UP(process) ?: UP(device) ?: UP(address))

int memory_pools_find(const struct report *r, struct memory_peak *out)
{
	struct pool_list l = { .report = r, .pools = GROUPS_INIT };
	int code = add_allocations(&l);

	if (code == 0)
		code = add_pool_rows(&l);
	if (code == 0)
		code = add_allocators(&l);
	groups_take(&l.pools, largest_first, &out->pools, &out->pool_count);
	return code;
}

/* --- what the driver says --- */

/* Bytes of the recorded allocations on a GPU at a time. */
static uint64_t tracked_at(const struct report *r, size_t gpu, uint64_t time_ns)
{
	const struct memory_use *u = r->memory_use;
	const uint64_t *times = allocation_columns(r->trace)->time_ns;
	uint64_t bytes = 0;

	for (size_t i = 0; i < u->block_count; i++) {
		const struct memory_block *b = &u->blocks[i];
		const struct memory_group *g = &u->items[b->group];

		if (memory_is_of_gpu(g->kind) &&
		    gpus_find(&r->gpus, g->process, g->device) == gpu &&
		    (b->row == TRACE_NO_ROW || times[b->row] <= time_ns) &&
		    (b->release == TRACE_NO_ROW || times[b->release] > time_ns))
			bytes += b->bytes;
	}
	return bytes;
}

/* Finds the highest reading of each GPU; used_bytes 0: there is none. */
static void find_readings(const struct report *r, struct memory_unexplained *gpus)
{
	const struct counter_sample_columns *c = counter_sample_columns(r->trace);
	const struct counter_columns *counters = counter_columns(r->trace);

	for (struct row_walk w = all_rows(r->trace, TABLE_counter_sample); row_walk_next(&w);) {
		uint32_t row = c->counter[w.row];
		size_t gpu;

		if (row == TRACE_NO_ROW || counters->id[row] != METRIC_gpu_memory_used ||
		    !column_has(c->valid.device, w.row) || c->value[w.row] <= 0 ||
		    !is_before_end(r, c->time_ns[w.row]))
			continue;
		gpu = gpus_find(&r->gpus, w.process, c->device[w.row]);
		if (gpu < r->gpus.count && (uint64_t)c->value[w.row] > gpus[gpu].used_bytes) {
			gpus[gpu].used_bytes = (uint64_t)c->value[w.row];
			gpus[gpu].time_ns = c->time_ns[w.row];
		}
	}
}

int memory_unexplained_find(const struct report *r, struct memory_peak *out)
{
	out->gpus = calloc(r->gpus.count + 1, sizeof(*out->gpus));
	if (!out->gpus)
		return -ENOMEM;
	find_readings(r, out->gpus);
	for (size_t i = 0; i < r->gpus.count; i++) {
		struct memory_unexplained g = out->gpus[i];

		if (!g.used_bytes)
			continue;
		g.gpu = (uint32_t)i;
		g.tracked_bytes = tracked_at(r, i, g.time_ns);
		g.unexplained_bytes = (int64_t)(g.used_bytes - g.tracked_bytes);
		out->gpus[out->gpu_count++] = g;
	}
	return 0;
}
