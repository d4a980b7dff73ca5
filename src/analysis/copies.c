#include "analysis/copies.h"

#include <errno.h>

#include "analysis/report.h"
#include "base/map.h"
#include "base/vec.h"
#include "trace/events.h"

struct columns {
	struct event_columns event;
	const uint64_t *bytes;
	const uint8_t *kinds, *sources, *destinations, *async;
};

struct tally {
	struct map index; /* set, kind, source, destination -> item */
	VEC(struct copy_group) items;
};

int copies_load(struct trace *t, struct error *e)
{
	int r = trace_load(t, TABLE_memcpy,
			   COLUMN_BITS(memcpy, start_ns, end_ns, bytes, kind, source_kind,
				       destination_kind, async, device, stream),
			   e);

	if (r < 0)
		return r;
	return trace_load(
		t, TABLE_memset,
		COLUMN_BITS(memset, start_ns, end_ns, bytes, memory_kind, async, device, stream),
		e);
}

static struct columns copy_columns(const struct trace *t)
{
	const struct memcpy_columns *c = memcpy_columns(t);

	return (struct columns){ events_of(t, TABLE_memcpy), c->bytes, c->kind, c->source_kind,
				 c->destination_kind,        c->async };
}

static struct columns set_columns(const struct trace *t)
{
	const struct memset_columns *c = memset_columns(t);

	return (struct columns){ .event = events_of(t, TABLE_memset),
				 .bytes = c->bytes,
				 .destinations = c->memory_kind,
				 .async = c->async };
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

/* Rows of one table and process. */
static int tally_rows(struct tally *t, const struct selection *s, const struct calls *calls,
		      enum gpu_work work, size_t p, const struct columns *c, struct copy_group *all)
{
	const struct event_columns *v = &c->event;
	uint64_t row = trace_first_row(s->trace, v->table, p);
	uint64_t end = trace_first_row(s->trace, v->table, p + 1);

	for (; row < end; row++) {
		bool timed = event_is_timed(v, row), async = c->async[row] == 1;
		uint64_t ns = v->end_ns[row] - v->start_ns[row];
		struct copy_group *g;

		if (!selection_has_time(s, timed, v->start_ns[row]) ||
		    !selection_has_place(s, v->device[row], v->stream[row]) ||
		    !selection_has_call(s, calls_launch(calls, work, row)))
			continue;
		g = group_of(t, c, row);
		if (!g)
			return -ENOMEM;
		add(g, c->bytes[row], async, timed, ns);
		if (!g->set)
			add(all, c->bytes[row], async, timed, ns);
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
		r = tally_rows(&t, s, calls, GPU_WORK_memcpy, p, &copies, &out->all);
		if (r >= 0)
			r = tally_rows(&t, s, calls, GPU_WORK_memset, p, &sets, &out->all);
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
