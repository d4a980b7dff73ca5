#include "analysis/copies.h"

#include <errno.h>

#include "analysis/report.h"
#include "base/map.h"
#include "base/vec.h"

struct columns {
	const uint64_t *starts, *ends, *bytes;
	const uint8_t *starts_valid, *ends_valid, *kinds, *sources, *destinations, *async;
	const uint32_t *devices, *streams;
};

struct tally {
	struct map index; /* set, kind, source, destination -> item */
	VEC(struct copy_group) items;
};

int copies_load(struct trace *t, struct error *e)
{
	int r = trace_load(t, TABLE_memcpy,
			   COLUMN_BIT(memcpy, start_ns) | COLUMN_BIT(memcpy, end_ns) |
				   COLUMN_BIT(memcpy, bytes) | COLUMN_BIT(memcpy, kind) |
				   COLUMN_BIT(memcpy, source_kind) |
				   COLUMN_BIT(memcpy, destination_kind) |
				   COLUMN_BIT(memcpy, async) | COLUMN_BIT(memcpy, device) |
				   COLUMN_BIT(memcpy, stream),
			   e);

	if (r < 0)
		return r;
	return trace_load(t, TABLE_memset,
			  COLUMN_BIT(memset, start_ns) | COLUMN_BIT(memset, end_ns) |
				  COLUMN_BIT(memset, bytes) | COLUMN_BIT(memset, memory_kind) |
				  COLUMN_BIT(memset, async) | COLUMN_BIT(memset, device) |
				  COLUMN_BIT(memset, stream),
			  e);
}

static struct columns copy_columns(const struct trace *t)
{
	return (struct columns){
		.starts = trace_u64(t, TABLE_memcpy, COLUMN_memcpy_start_ns),
		.ends = trace_u64(t, TABLE_memcpy, COLUMN_memcpy_end_ns),
		.bytes = trace_u64(t, TABLE_memcpy, COLUMN_memcpy_bytes),
		.starts_valid = trace_valid(t, TABLE_memcpy, COLUMN_memcpy_start_ns),
		.ends_valid = trace_valid(t, TABLE_memcpy, COLUMN_memcpy_end_ns),
		.kinds = trace_u8(t, TABLE_memcpy, COLUMN_memcpy_kind),
		.sources = trace_u8(t, TABLE_memcpy, COLUMN_memcpy_source_kind),
		.destinations = trace_u8(t, TABLE_memcpy, COLUMN_memcpy_destination_kind),
		.async = trace_u8(t, TABLE_memcpy, COLUMN_memcpy_async),
		.devices = trace_u32(t, TABLE_memcpy, COLUMN_memcpy_device),
		.streams = trace_u32(t, TABLE_memcpy, COLUMN_memcpy_stream),
	};
}

static struct columns set_columns(const struct trace *t)
{
	return (struct columns){
		.starts = trace_u64(t, TABLE_memset, COLUMN_memset_start_ns),
		.ends = trace_u64(t, TABLE_memset, COLUMN_memset_end_ns),
		.bytes = trace_u64(t, TABLE_memset, COLUMN_memset_bytes),
		.starts_valid = trace_valid(t, TABLE_memset, COLUMN_memset_start_ns),
		.ends_valid = trace_valid(t, TABLE_memset, COLUMN_memset_end_ns),
		.destinations = trace_u8(t, TABLE_memset, COLUMN_memset_memory_kind),
		.async = trace_u8(t, TABLE_memset, COLUMN_memset_async),
		.devices = trace_u32(t, TABLE_memset, COLUMN_memset_device),
		.streams = trace_u32(t, TABLE_memset, COLUMN_memset_stream),
	};
}

static struct copy_group *group_of(struct tally *t, const struct columns *c, uint64_t row)
{
	struct copy_group g = {
		.set = !c->kinds,
		.kind = c->kinds ? c->kinds[row] : 0,
		.source = c->sources ? c->sources[row] : 0,
		.destination = c->destinations[row],
	};
	uint64_t key = (uint64_t)g.set << 24 | (uint64_t)g.kind << 16 | (uint64_t)g.source << 8 |
		       g.destination;
	uint64_t *index = map_at(&t->index, key, t->items.count);

	if (!index || (*index == t->items.count && vec_push(&t->items, g) < 0))
		return NULL;
	return &t->items.data[*index];
}

static void add(struct copy_group *g, uint64_t bytes, bool async, bool timed, uint64_t ns)
{
	g->count++;
	g->bytes += bytes;
	g->async += async;
	if (timed) {
		g->timed++;
		g->timed_bytes += bytes;
		g->total_ns += ns;
	}
}

/* Rows of one table and process. table: index in gpu_tables. */
static int tally_rows(struct tally *t, const struct selection *s, const struct calls *calls,
		      size_t table, size_t p, const struct columns *c, struct copy_group *all)
{
	uint64_t row = trace_first_row(s->trace, gpu_tables[table], p);
	uint64_t end = trace_first_row(s->trace, gpu_tables[table], p + 1);

	for (; row < end; row++) {
		bool timed = (!c->starts_valid || c->starts_valid[row]) &&
			     (!c->ends_valid || c->ends_valid[row]) &&
			     c->ends[row] >= c->starts[row];
		struct copy_group *g;

		if (!selection_has_time(s, timed, c->starts[row]) ||
		    !selection_has_place(s, c->devices[row], c->streams[row]) ||
		    !selection_has_call(s, calls_launch(calls, table, row)))
			continue;
		g = group_of(t, c, row);
		if (!g)
			return -ENOMEM;
		add(g, c->bytes[row], c->async[row] == 1, timed, c->ends[row] - c->starts[row]);
		if (!g->set)
			add(all, c->bytes[row], c->async[row] == 1, timed,
			    c->ends[row] - c->starts[row]);
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct copy_group *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	return x->bytes != y->bytes ? (x->bytes < y->bytes ? 1 : -1) : x->kind - y->kind;
}

int copies_analyze(const struct selection *s, const struct calls *calls, struct copies *out)
{
	struct columns copies = copy_columns(s->trace), sets = set_columns(s->trace);
	struct tally t = { .index = MAP_INIT };
	int r = 0;

	*out = (struct copies){ 0 };
	for (size_t p = 0; p < trace_process_count(s->trace) && r >= 0; p++) {
		/* A filter by kernel name asks for kernels only. */
		if (!s->processes[p] || s->configs)
			continue;
		r = tally_rows(&t, s, calls, 1, p, &copies, &out->all);
		if (r >= 0)
			r = tally_rows(&t, s, calls, 2, p, &sets, &out->all);
	}
	if (t.items.count)
		qsort(t.items.data, t.items.count, sizeof(*t.items.data), compare);
	out->items = t.items.data;
	out->count = t.items.count;
	map_release(&t.index);
	return r;
}

static int run(struct report *r, void *out)
{
	return copies_analyze(&r->selection, &r->calls, out);
}

const struct analysis analysis_copies = {
	.size = sizeof(struct copies),
	.load = copies_load,
	.run = run,
	OWNS(struct copies, items),
};
