#include "analysis/memory/memory_use.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "trace/columns.h"

struct level {
	int64_t now, highest; /* above the base */
};

struct tally {
	const struct trace *trace;
	const struct allocation_columns *c;
	GROUPS(struct memory_group) groups; /* key: device << 8 | kind, of this process */
	VEC(struct level) levels; /* by group */
	struct map live; /* live_key -> item of blocks, of this process */
	VEC(struct memory_block) blocks;
};

#define RELEASED UINT64_MAX

/* An allocator's segment, and its blocks, have addresses within memory of the driver. */
static uint64_t live_key(const struct tally *t, uint64_t row)
{
	return t->c->address[row] ^ (uint64_t)memory_layer(t->c->kind[row]) << 61;
}

static void end_block(struct tally *t, uint64_t index, uint64_t row)
{
	struct memory_block *b = &t->blocks.data[index];
	struct memory_group *g = &t->groups.items.data[b->group];

	b->release = (uint32_t)row;
	g->live--;
	g->live_bytes -= b->bytes;
	t->levels.data[b->group].now = memory_sum(t->levels.data[b->group].now, -b->bytes);
}

static int allocate(struct tally *t, struct memory_block new, struct memory_group *g)
{
	bool is_base = !column_has(t->c->valid.time_ns, new.row);
	uint64_t row = new.row, *live = map_at(&t->live, live_key(t, row), RELEASED);
	struct level *level = &t->levels.data[new.group];

	if (is_base)
		new.row = TRACE_NO_ROW;
	if (!live || vec_push(&t->blocks, new) < 0)
		return -ENOMEM;
	if (*live != RELEASED)
		end_block(t, *live, row); /* the release is not in the recording */
	*live = t->blocks.count - 1;
	g->allocations++;
	g->allocated_bytes += new.bytes;
	g->live++;
	g->live_bytes += new.bytes;
	if (is_base)
		g->base_bytes += new.bytes;
	else
		level->now = memory_sum(level->now, new.bytes);
	if (level->now > level->highest) {
		level->highest = level->now;
		g->peak_ns = t->c->time_ns[row];
		g->peak_row = (uint32_t)row;
	}
	return 0;
}

static int release_unknown(struct tally *t, struct memory_block block, struct memory_group *g)
{
	g->unknown_releases++;
	if (!block.bytes)
		return 0;
	g->base_bytes += block.bytes;
	t->levels.data[block.group].now = memory_sum(t->levels.data[block.group].now, -block.bytes);
	block.release = block.row;
	block.row = TRACE_NO_ROW;
	return vec_push(&t->blocks, block);
}

static int add_row(struct tally *t, uint64_t row, uint32_t process)
{
	const struct allocation_columns *c = t->c;
	struct memory_group *g =
		groups_at(&t->groups, (uint64_t)c->device[row] << 8 | c->kind[row],
			  .process = process, .device = c->device[row], .kind = c->kind[row],
			  .peak_row = TRACE_NO_ROW, .number = (uint32_t)t->groups.items.count);
	struct memory_block block = { .bytes = column_has(c->valid.bytes, row) ? c->bytes[row] : 0,
				      .row = (uint32_t)row,
				      .release = TRACE_NO_ROW };
	uint64_t index;

	if (!g || (t->levels.count < t->groups.items.count &&
		   vec_push(&t->levels, (struct level){ 0 }) < 0))
		return -ENOMEM;
	block.group = g->number;
	if (!g->peak_ns) /* until a peak above the base is found */
		g->peak_ns = c->time_ns[row];
	if (c->operation[row] == memory_operation_allocation)
		return allocate(t, block, g);
	if (c->operation[row] != memory_operation_release)
		return 0;
	g->releases++;
	if (!map_remove(&t->live, live_key(t, row), &index))
		return release_unknown(t, block, g);
	end_block(t, index, row);
	return 0;
}

ORDER(compare, struct memory_group, DOWN(peak_bytes) ?: UP(process) ?: UP(device) ?: UP(kind))

/* Sorts the groups, whose indexes in blocks change. */
static int finish(struct tally *t, struct memory_use *out)
{
	_cleanup_free_ uint32_t *place = calloc(t->groups.items.count + 1, sizeof(*place));

	for (size_t i = 0; i < t->levels.count; i++)
		t->groups.items.data[i].peak_bytes =
			t->groups.items.data[i].base_bytes + (uint64_t)t->levels.data[i].highest;
	groups_take(&t->groups, compare, &out->items, &out->count);
	out->blocks = t->blocks.data;
	out->block_count = t->blocks.count;
	if (!place)
		return -ENOMEM;
	for (size_t i = 0; i < out->count; i++) {
		place[out->items[i].number] = (uint32_t)i;
		out->items[i].first = TRACE_NO_ROW;
	}
	for (size_t i = out->block_count; i-- > 0;) {
		struct memory_block *b = &out->blocks[i];

		b->group = place[b->group];
		b->next = out->items[b->group].first;
		out->items[b->group].first = (uint32_t)i;
	}
	return 0;
}

int memory_use_find(struct memory_use *out, const struct trace *t, const struct selection *s)
{
	struct tally x = { .trace = t, .c = allocation_columns(t), .live = MAP_INIT };
	const struct filter *f = &s->filter;
	uint32_t process = UINT32_MAX;
	int code = 0, finished;

	*out = (struct memory_use){ 0 };
	for (struct row_walk w = selection_rows(s, TABLE_allocation);
	     code >= 0 && row_walk_next(&w);) {
		if (w.process != process) {
			process = w.process;
			map_clear(&x.groups.index);
			map_clear(&x.live);
		}
		if ((column_has(x.c->valid.time_ns, w.row) && x.c->time_ns[w.row] >= f->until_ns) ||
		    (f->device >= 0 && f->device != x.c->device[w.row]))
			continue;
		code = add_row(&x, w.row, process);
	}
	finished = finish(&x, out);
	vec_release(&x.levels);
	map_release(&x.live);
	return code < 0 ? code : finished;
}

void memory_use_release(void *use)
{
	struct memory_use *u = use;

	free(u->items);
	free(u->blocks);
}

struct change {
	uint32_t row;
	uint64_t bytes;
};
ORDER(by_row, struct change, UP(row))

/* One row can allocate a block and release the one before it. */
int memory_curve(const struct memory_use *u, size_t group,
		 int (*visit)(void *user, uint64_t row, uint64_t bytes), void *user)
{
	uint64_t bytes = u->items[group].base_bytes;
	VEC(struct change) changes = VEC_INIT;
	int code = 0;

	for (uint32_t i = u->items[group].first; i != TRACE_NO_ROW && code == 0;
	     i = u->blocks[i].next) {
		const struct memory_block *b = &u->blocks[i];

		if (b->row != TRACE_NO_ROW)
			code = vec_push(&changes, ((struct change){ b->row, b->bytes }));
		if (b->release != TRACE_NO_ROW && code == 0)
			code = vec_push(&changes, ((struct change){ b->release, -b->bytes }));
	}
	vec_sort(&changes, by_row);
	for (size_t i = 0; i < changes.count && code == 0; i++) {
		uint64_t before = bytes;

		bytes += changes.data[i].bytes;
		for (; i + 1 < changes.count && changes.data[i + 1].row == changes.data[i].row; i++)
			bytes += changes.data[i + 1].bytes;
		if (bytes != before)
			code = visit(user, changes.data[i].row, bytes);
	}
	vec_release(&changes);
	return code;
}

static int run(struct report *r, void *result)
{
	return memory_use_find(result, r->trace, &r->selection);
}

const struct analysis analysis_memory_use = {
	.size = sizeof(struct memory_use),
	.needs = { { TABLE_allocation, MEMORY_COLUMNS } },
	.run = run,
	.release = memory_use_release,
};
