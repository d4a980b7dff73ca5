#include "analysis/sync_calls.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"

struct tally {
	const struct report *report;
	bool by_line; /* else by thread, whose ids are valid in `process` */
	uint32_t process;
	GROUPS(struct call_group) groups;
	uint64_t calls, total_ns, sync_count;
};

/* Rows of api_function belong to a process; the name of a function is the same in all. */
static uint32_t function_name(const struct tally *t, uint32_t function)
{
	return function < t->report->calls.function_count
		       ? api_function_columns(t->report->trace)->name[function]
		       : 0;
}

static int add_call(void *user, uint32_t process, uint32_t row)
{
	struct tally *t = user;
	const struct calls *c = &t->report->calls;
	uint32_t caller = callers_of_call(&t->report->callers, process, row);
	uint64_t ns = c->end_ns[row] - c->start_ns[row];
	uint64_t key = (uint64_t)function_name(t, c->functions[row]) << 32 |
		       (t->by_line ? caller : c->threads[row]);
	struct call_group *g;

	if (!selection_has_call(&t->report->selection, row))
		return 0;
	if (!t->by_line && process != t->process)
		map_clear(&t->groups.index);
	t->process = process;
	g = groups_at(&t->groups, key, .process = process, .thread = c->threads[row],
		      .function = c->functions[row], .caller = caller, .kind = calls_kind(c, row));
	if (!g)
		return -ENOMEM;
	g->count++;
	g->total_ns += ns;
	g->max_ns = MAX(g->max_ns, ns);
	t->calls++;
	t->total_ns += ns;
	t->sync_count += g->kind == api_kind_synchronize;
	return 0;
}

static void count_kinds(const struct selection *s, struct syncs *out)
{
	struct event_columns c = events_of(s->trace, TABLE_synchronization);
	const uint8_t *kinds = synchronization_columns(s->trace)->kind;

	for (uint8_t kind = 0; kind < SYNC_KINDS; kind++)
		out->kinds[kind].kind = kind;
	for (struct row_walk w = selection_rows(s, c.table); row_walk_next(&w);) {
		bool timed = event_is_timed(&c, w.row);
		struct sync_kind *k = &out->kinds[kinds[w.row] < SYNC_KINDS ? kinds[w.row] : 0];

		if (!selection_has_time(s, timed, c.start_ns[w.row]))
			continue;
		k->count++;
		k->timed += timed;
		k->total_ns += timed ? c.end_ns[w.row] - c.start_ns[w.row] : 0;
	}
}

ORDER(by_thread, struct call_group, DOWN(total_ns) ?: UP(process) ?: UP(thread) ?: UP(function))

ORDER(by_line, struct call_group, DOWN(total_ns) ?: UP(caller) ?: UP(function))

static int run_syncs(struct report *r, void *result)
{
	struct tally t = { .report = r };
	struct syncs *out = result;
	int code =
		calls_visit(r->trace, &r->selection, &r->calls, CALLS_WAIT_OR_COPY, add_call, &t);

	count_kinds(&r->selection, out);
	out->calls = t.calls;
	out->total_ns = t.total_ns;
	out->sync_count = t.sync_count;
	groups_take(&t.groups, by_thread, &out->items, &out->count);
	return code;
}

static int run_waits(struct report *r, void *result)
{
	struct tally t = { .report = r, .by_line = true };
	struct waits *out = result;
	int code = calls_visit(r->trace, &r->selection, &r->calls, CALLS_WAIT, add_call, &t);

	out->calls = t.calls;
	out->total_ns = t.total_ns;
	groups_take(&t.groups, by_line, &out->items, &out->count);
	return code;
}

const struct analysis analysis_syncs = {
	.size = sizeof(struct syncs),
	.needs = { { TABLE_synchronization,
		     COLUMN_BITS(synchronization, start_ns, end_ns, kind) } },
	.run = run_syncs,
	.owned = { OWNS(struct syncs, items) },
};

const struct analysis analysis_waits = {
	.size = sizeof(struct waits),
	.run = run_waits,
	.owned = { OWNS(struct waits, items) },
};
