#include "analysis/sync_calls.h"

#include <errno.h>

#include "analysis/report.h"
#include "base/map.h"
#include "base/vec.h"

struct tally {
	const struct selection *selection;
	const struct calls *calls;
	struct syncs *out;
	uint32_t process;
	struct map index; /* function << 32 | thread -> item, of this process */
	struct map threads; /* thread -> time synchronizing, of this process */
	VEC(struct call_group) items;
};

static int load(struct trace *t, struct error *e)
{
	return trace_load(t, TABLE_synchronization,
			  COLUMN_BIT(synchronization, start_ns) |
				  COLUMN_BIT(synchronization, end_ns) |
				  COLUMN_BIT(synchronization, kind),
			  e);
}

static int add_call(void *user, uint32_t row)
{
	struct tally *t = user;
	const struct calls *c = t->calls;
	struct call_group new = { .process = t->process,
				  .thread = c->threads[row],
				  .function = c->functions[row],
				  .kind = calls_kind(c, row) };
	uint64_t ns = c->end_ns[row] - c->start_ns[row], *index, *thread;
	struct syncs *out = t->out;
	struct call_group *g;

	if (!selection_has_time(t->selection, true, c->start_ns[row]) ||
	    !selection_has_call(t->selection, row))
		return 0;
	index = map_at(&t->index, (uint64_t) new.function << 32 | new.thread, t->items.count);
	if (!index || (*index == t->items.count && vec_push(&t->items, new) < 0))
		return -ENOMEM;
	g = &t->items.data[*index];
	g->count++;
	g->total_ns += ns;
	g->max_ns = MAX(g->max_ns, ns);
	if (new.kind != api_kind_synchronize) {
		out->copy_count++;
		out->copy_ns += ns;
		return 0;
	}
	thread = map_at(&t->threads, new.thread, 0);
	if (!thread)
		return -ENOMEM;
	*thread += ns;
	out->longest_thread_ns = MAX(out->longest_thread_ns, *thread);
	out->sync_count++;
	out->sync_ns += ns;
	return 0;
}

static void count_kinds(const struct selection *s, struct syncs *out)
{
	const struct trace *t = s->trace;
	const uint64_t *starts =
		trace_u64(t, TABLE_synchronization, COLUMN_synchronization_start_ns);
	const uint64_t *ends = trace_u64(t, TABLE_synchronization, COLUMN_synchronization_end_ns);
	const uint8_t *starts_valid =
		trace_valid(t, TABLE_synchronization, COLUMN_synchronization_start_ns);
	const uint8_t *ends_valid =
		trace_valid(t, TABLE_synchronization, COLUMN_synchronization_end_ns);
	const uint8_t *kinds = trace_u8(t, TABLE_synchronization, COLUMN_synchronization_kind);

	for (size_t p = 0; p < trace_process_count(t); p++) {
		uint64_t row = trace_first_row(t, TABLE_synchronization, p);
		uint64_t end =
			s->processes[p] ? trace_first_row(t, TABLE_synchronization, p + 1) : row;

		for (; row < end; row++) {
			bool timed = (!starts_valid || starts_valid[row]) &&
				     (!ends_valid || ends_valid[row]) && ends[row] >= starts[row];
			struct sync_kind *k = &out->kinds[kinds[row] < SYNC_KINDS ? kinds[row] : 0];

			if (!selection_has_time(s, timed, starts[row]))
				continue;
			k->count++;
			k->timed += timed;
			k->total_ns += timed ? ends[row] - starts[row] : 0;
		}
	}
}

static int compare(const void *a, const void *b)
{
	const struct call_group *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->function < y->function ? -1 : x->function > y->function;
}

static int run(struct report *r, void *result)
{
	_cleanup_free_ uint8_t *functions =
		calls_with_role(r->trace, &r->calls, CALLS_WAIT_OR_COPY);
	struct syncs *out = result;
	struct tally t = { &r->selection, &r->calls, out, .index = MAP_INIT, .threads = MAP_INIT };
	int code = functions ? 0 : -ENOMEM;

	for (size_t p = 0; p < trace_process_count(r->trace) && code >= 0; p++) {
		map_clear(&t.index);
		map_clear(&t.threads);
		t.process = (uint32_t)p;
		if (r->selection.processes[p])
			code = calls_outermost(r->trace, &r->calls, p, functions, add_call, &t);
	}
	count_kinds(&r->selection, out);
	if (t.items.count)
		qsort(t.items.data, t.items.count, sizeof(*t.items.data), compare);
	out->items = t.items.data;
	out->count = t.items.count;
	map_release(&t.index);
	map_release(&t.threads);
	return code;
}

const struct analysis analysis_syncs = {
	.size = sizeof(struct syncs),
	.load = load,
	.run = run,
	OWNS(struct syncs, items),
};
