#include "analysis/memory_use.h"

#include <errno.h>

#include "analysis/report.h"
#include "base/map.h"
#include "base/vec.h"
#include "trace/columns.h"

struct allocation {
	uint64_t bytes;
	uint32_t group;
};

struct tally {
	struct map groups_index; /* device << 8 | kind -> group, of this process */
	struct map live; /* address -> allocation, of this process; SIZE_MAX: released */
	VEC(struct memory_group) groups;
	VEC(struct allocation) allocations;
};

#define RELEASED UINT64_MAX

int memory_use_load(struct trace *t, struct error *e)
{
	return trace_load(t, TABLE_allocation,
			  COLUMN_BITS(allocation, time_ns, operation, kind, address, bytes, device),
			  e);
}

static void end_allocation(struct tally *t, uint64_t index)
{
	const struct allocation *a = &t->allocations.data[index];

	t->groups.data[a->group].live--;
	t->groups.data[a->group].live_bytes -= a->bytes;
}

static int allocate(struct tally *t, const struct allocation_columns *c, uint64_t row,
		    struct memory_group *g, uint32_t group)
{
	struct allocation new = { c->bytes[row], group };
	uint64_t *live = map_at(&t->live, c->address[row], RELEASED);

	if (!live || vec_push(&t->allocations, new) < 0)
		return -ENOMEM;
	if (*live != RELEASED)
		end_allocation(t, *live); /* its release is not in the recording */
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

static int take_row(struct tally *t, const struct allocation_columns *c, uint64_t row,
		    uint32_t process)
{
	struct memory_group new = { .process = process,
				    .device = c->device[row],
				    .kind = c->kind[row] },
			    *g;
	uint64_t *index = map_at(&t->groups_index, (uint64_t) new.device << 8 | new.kind,
				 t->groups.count),
		 *live;
	uint32_t group;

	if (!index || (*index == t->groups.count && vec_push(&t->groups, new) < 0))
		return -ENOMEM;
	group = (uint32_t)*index;
	g = &t->groups.data[group];
	if (c->operation[row] == memory_operation_allocation)
		return allocate(t, c, row, g, group);
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

static int compare(const void *a, const void *b)
{
	const struct memory_group *x = a, *y = b;

	if (x->peak_bytes != y->peak_bytes)
		return x->peak_bytes < y->peak_bytes ? 1 : -1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->device != y->device ? (x->device < y->device ? -1 : 1) : x->kind - y->kind;
}

int memory_use_analyze(const struct selection *s, struct memory_use *out)
{
	const struct allocation_columns *c = allocation_columns(s->trace);
	struct tally t = { .groups_index = MAP_INIT, .live = MAP_INIT };
	int r = 0;

	for (size_t p = 0; p < trace_process_count(s->trace) && r >= 0; p++) {
		uint64_t row = trace_first_row(s->trace, TABLE_allocation, p);
		uint64_t end =
			s->processes[p] ? trace_first_row(s->trace, TABLE_allocation, p + 1) : row;

		map_clear(&t.groups_index);
		map_clear(&t.live);
		for (; row < end && r >= 0; row++) {
			bool timed = column_has(c->valid.time_ns, row);

			if ((timed && c->time_ns[row] >= s->filter.until_ns) ||
			    (s->filter.device >= 0 && s->filter.device != c->device[row]))
				continue;
			r = take_row(&t, c, row, (uint32_t)p);
		}
	}
	*out = (struct memory_use){ .items = t.groups.data, .count = t.groups.count };
	if (out->count)
		qsort(out->items, out->count, sizeof(*out->items), compare);
	vec_release(&t.allocations);
	map_release(&t.groups_index);
	map_release(&t.live);
	return r;
}

static int run(struct report *r, void *out)
{
	return memory_use_analyze(&r->selection, out);
}

const struct analysis analysis_memory_use = {
	.size = sizeof(struct memory_use),
	.load = memory_use_load,
	.run = run,
	OWNS(struct memory_use, items),
};
