#include "analysis/copies.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "trace/events.h"

struct columns {
	struct event_columns event;
	const uint64_t *bytes;
	const uint8_t *kinds, *sources, *destinations, *async;
	const uint8_t *has_bytes, *has_async; /* NULL: all have them */
};

struct tally {
	GROUPS(struct copy_group) groups;
};

static struct columns copy_columns(const struct trace *t)
{
	const struct memcpy_columns *c = memcpy_columns(t);

	return (struct columns){ events_of(t, TABLE_memcpy),
				 c->bytes,
				 c->kind,
				 c->source_kind,
				 c->destination_kind,
				 c->async,
				 trace_valid(t, TABLE_memcpy, COLUMN_memcpy_bytes),
				 trace_valid(t, TABLE_memcpy, COLUMN_memcpy_async) };
}

static struct columns set_columns(const struct trace *t)
{
	const struct memset_columns *c = memset_columns(t);

	return (struct columns){ .event = events_of(t, TABLE_memset),
				 .bytes = c->bytes,
				 .destinations = c->memory_kind,
				 .async = c->async,
				 .has_bytes = trace_valid(t, TABLE_memset, COLUMN_memset_bytes),
				 .has_async = trace_valid(t, TABLE_memset, COLUMN_memset_async) };
}

static void add(struct copy_group *g, const struct columns *c, uint64_t row, bool timed)
{
	uint64_t ns = c->event.end_ns[row] - c->event.start_ns[row];
	bool sized = !c->has_bytes || c->has_bytes[row];
	bool known = !c->has_async || c->has_async[row];

	g->count++;
	g->sized += sized;
	g->bytes += sized ? c->bytes[row] : 0;
	g->async_known += known;
	g->async += known && c->async[row] == 1;
	if (timed) {
		g->timed++;
		g->total_ns += ns;
	}
	if (timed && sized) {
		g->timed_bytes += c->bytes[row];
		g->sized_ns += ns;
	}
}

static int add_rows(struct report *r, enum gpu_work work, const struct columns *c, struct tally *t)
{
	const struct event_columns *v = &c->event;

	for (struct row_walk w = selection_rows(&r->selection, v->table); row_walk_next(&w);) {
		bool timed = event_is_timed(v, w.row), set = !c->kinds;
		uint8_t kind = set ? 0 : c->kinds[w.row], source = set ? 0 : c->sources[w.row];
		uint8_t destination = c->destinations[w.row];
		uint64_t key = (uint64_t)set << 24 | (uint64_t)kind << 16 | (uint64_t)source << 8 |
			       destination;
		struct copy_group *g;

		if (!calls_select(&r->calls, &r->selection, v, work, w.row, timed))
			continue;
		g = groups_at(&t->groups, key, .set = set, .kind = kind, .source = source,
			      .destination = destination);
		if (!g)
			return -ENOMEM;
		add(g, c, w.row, timed);
	}
	return 0;
}

ORDER(compare, struct copy_group, DOWN(total_ns) ?: DOWN(bytes) ?: UP(kind))

static int run(struct report *r, void *result)
{
	struct columns copies = copy_columns(r->trace), sets = set_columns(r->trace);
	struct tally t = { 0 };
	struct copies *out = result;
	int code = add_rows(r, GPU_WORK_memcpy, &copies, &t);

	if (code >= 0)
		code = add_rows(r, GPU_WORK_memset, &sets, &t);
	groups_take(&t.groups, compare, &out->items, &out->count);
	return code;
}

const struct analysis analysis_copies = {
	.size = sizeof(struct copies),
	.needs = { { TABLE_memcpy,
		     COLUMN_BITS(memcpy, bytes, kind, source_kind, destination_kind, async) },
		   { TABLE_memset, COLUMN_BITS(memset, bytes, memory_kind, async) } },
	.run = run,
	.owned = { OWNS(struct copies, items) },
};
