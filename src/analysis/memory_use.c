#include "analysis/memory_use.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "trace/columns.h"

struct allocation {
	uint64_t bytes;
	uint32_t group;
};

struct tally {
	GROUPS(struct memory_group) groups; /* key: device << 8 | kind, of this process */
	struct map live; /* address -> allocation, of this process */
	VEC(struct allocation) allocations;
};

#define RELEASED UINT64_MAX

static void end_allocation(struct tally *t, uint64_t index)
{
	const struct allocation *a = &t->allocations.data[index];

	t->groups.items.data[a->group].live--;
	t->groups.items.data[a->group].live_bytes -= a->bytes;
}

static int allocate(struct tally *t, const struct allocation_columns *c, uint64_t row,
		    struct memory_group *g)
{
	struct allocation new = { c->bytes[row], (uint32_t)(g - t->groups.items.data) };
	uint64_t *live = map_at(&t->live, c->address[row], RELEASED);

	if (!live || vec_push(&t->allocations, new) < 0)
		return -ENOMEM;
	if (*live != RELEASED)
		end_allocation(t, *live); /* the release is not in the recording */
	*live = t->allocations.count - 1;
	g->allocations++;
	g->allocated_bytes += new.bytes;
	g->live++;
	g->live_bytes += new.bytes;
	if (g->live_bytes > g->peak_bytes) {
		g->peak_bytes = g->live_bytes;
		g->peak_ns = c->time_ns[row];
	}
	return 0;
}

static int add_row(struct tally *t, const struct allocation_columns *c, uint64_t row,
		   uint32_t process)
{
	uint64_t key = (uint64_t)c->device[row] << 8 | c->kind[row], *live;
	struct memory_group *g = groups_at(&t->groups, key, .process = process,
					   .device = c->device[row], .kind = c->kind[row]);

	if (!g)
		return -ENOMEM;
	if (c->operation[row] == memory_operation_allocation)
		return allocate(t, c, row, g);
	if (c->operation[row] != memory_operation_release)
		return 0;
	g->releases++;
	live = map_at(&t->live, c->address[row], RELEASED);
	if (!live)
		return -ENOMEM;
	if (*live == RELEASED)
		g->unknown_releases++;
	else
		end_allocation(t, *live);
	*live = RELEASED;
	return 0;
}

ORDER(compare, struct memory_group, DOWN(peak_bytes) ?: UP(process) ?: UP(device) ?: UP(kind))

static int run(struct report *r, void *result)
{
	const struct filter *f = &r->selection.filter;
	const struct allocation_columns *c = allocation_columns(r->trace);
	struct memory_use *out = result;
	struct tally t = { .live = MAP_INIT };
	uint32_t process = UINT32_MAX;
	int code = 0;

	for (struct row_walk w = selection_rows(&r->selection, TABLE_allocation);
	     code >= 0 && row_walk_next(&w);) {
		if (w.process != process) {
			process = w.process;
			map_clear(&t.groups.index);
			map_clear(&t.live);
		}
		if ((column_has(c->valid.time_ns, w.row) && c->time_ns[w.row] >= f->until_ns) ||
		    (f->device >= 0 && f->device != c->device[w.row]))
			continue;
		code = add_row(&t, c, w.row, process);
	}
	groups_take(&t.groups, compare, &out->items, &out->count);
	vec_release(&t.allocations);
	map_release(&t.live);
	return code;
}

const struct analysis analysis_memory_use = {
	.size = sizeof(struct memory_use),
	.needs = { { TABLE_allocation,
		     COLUMN_BITS(allocation, time_ns, operation, kind, address, bytes, device) } },
	.run = run,
	OWNS(struct memory_use, items),
};
