#include "analysis/launches.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "trace/columns.h"

struct tally {
	struct report *report;
	struct launches *out;
	const struct api_call_columns *columns;
	struct durations kernel_calls, graph_calls, measured_calls, delays;
	GROUPS(struct launching_thread) threads; /* key: process << 32 | thread */
};

static int count_for_thread(struct tally *t, uint32_t process, uint32_t thread, uint64_t ns)
{
	uint64_t key = (uint64_t)process << 32 | thread;
	struct launching_thread *l;

	l = groups_at(&t->threads, key, .process = process, .thread = thread);
	if (!l)
		return -ENOMEM;
	l->count++;
	l->host_ns += ns;
	return 0;
}

static int add_call(void *user, uint32_t process, uint32_t row)
{
	struct tally *t = user;
	const struct calls *c = &t->report->calls;
	uint64_t ns = c->end_ns[row] - c->start_ns[row];
	bool graph = calls_kind(c, row) == api_kind_graph_launch;
	bool measured = measuring_within(&t->report->measuring, process, c->start_ns[row],
					 c->end_ns[row]) > ns / 2;

	if (!selection_has_call(&t->report->selection, row))
		return 0;
	if (column_has(t->columns->valid.result, row) && t->columns->result[row]) {
		t->out->failed++;
		return 0;
	}
	if (durations_add(measured ? &t->measured_calls
			  : graph  ? &t->graph_calls
				   : &t->kernel_calls,
			  ns) < 0)
		return -ENOMEM;
	return count_for_thread(t, process, c->threads[row], ns);
}

/*
 * Visits kernels in order of their start, so of a graph launch the first node counts. `seen` has
 * one byte per call.
 */
static int add_delays(struct tally *t, uint8_t *seen)
{
	const struct selection *s = &t->report->selection;
	const struct calls *c = &t->report->calls;
	struct event_columns k = events_of(s->trace, TABLE_kernel);

	for (struct row_walk w = selection_rows(s, TABLE_kernel); row_walk_next(&w);) {
		uint32_t call = calls_launch(c, GPU_WORK_kernel, w.row);
		bool timed = column_has(k.start_valid, w.row);
		uint64_t start_ns = k.start_ns[w.row];

		if (!calls_select(c, s, &k, GPU_WORK_kernel, w.row, timed))
			continue;
		if (calls_timed(c, call) == TRACE_NO_ROW) {
			t->out->unmatched++;
			continue;
		}
		if (!timed || seen[call])
			continue;
		seen[call] = 1;
		if (start_ns < c->start_ns[call])
			t->out->before_call++;
		else if (start_ns < c->end_ns[call])
			t->out->in_call++;
		else if (durations_add(&t->delays, start_ns - c->end_ns[call]) < 0)
			return -ENOMEM;
	}
	return 0;
}

ORDER(compare, struct launching_thread, DOWN(count) ?: UP(process) ?: UP(thread))

static struct duration_stats measure(struct durations *d)
{
	struct duration_stats stats = durations_stats(d);

	durations_release(d);
	return stats;
}

/* Releases each set of durations before the next is built, because each may be large. */
static int run(struct report *r, void *result)
{
	_cleanup_free_ uint8_t *seen = NULL;
	struct launches *out = result;
	struct tally t = { .report = r, .out = out, .columns = api_call_columns(r->trace) };
	int code = calls_visit(r->trace, &r->selection, &r->calls, CALLS_LAUNCH, add_call, &t);

	out->kernel_calls = measure(&t.kernel_calls);
	out->graph_calls = measure(&t.graph_calls);
	out->measured_calls = measure(&t.measured_calls);
	groups_take(&t.threads, compare, &out->threads, &out->thread_count);
	if (code >= 0)
		seen = calloc(r->calls.rows + 1, 1);
	if (code >= 0)
		code = seen ? add_delays(&t, seen) : -ENOMEM;
	out->delay = measure(&t.delays);
	return code;
}

const struct analysis analysis_launches = {
	.size = sizeof(struct launches),
	.needs = { { TABLE_api_call, COLUMN_BITS(api_call, result) },
		   { TABLE_kernel, COLUMN_BITS(kernel, config) } },
	.run = run,
	.owned = { OWNS(struct launches, threads) },
};
