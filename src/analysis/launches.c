#include "analysis/launches.h"

#include <errno.h>

#include "analysis/report.h"
#include "base/map.h"
#include "base/vec.h"
#include "trace/columns.h"

struct tally {
	const struct selection *selection;
	const struct calls *calls;
	struct launches *out;
	const int32_t *results;
	const uint8_t *results_valid;
	uint32_t process;
	VEC(uint64_t) kernel_calls, graph_calls, delays; /* ns */
	VEC(struct launching_thread) threads;
	struct map index; /* process << 32 | thread -> item of threads */
	uint64_t last_key; /* of the call before, and its thread */
	size_t last;
};

int launches_load(struct trace *t, struct error *e)
{
	int r = trace_load(t, TABLE_api_call, COLUMN_BITS(api_call, result), e);

	if (r < 0)
		return r;
	return trace_load(t, TABLE_kernel, COLUMN_BITS(kernel, start_ns, device, stream, config),
			  e);
}

static int count_for_thread(struct tally *t, uint32_t thread, uint64_t ns)
{
	uint64_t key = (uint64_t)t->process << 32 | thread, *index;

	if (!t->threads.count || t->last_key != key) {
		index = map_at(&t->index, key, t->threads.count);
		if (!index || (*index == t->threads.count &&
			       vec_push(&t->threads, ((struct launching_thread){ t->process, thread,
										 0, 0 })) < 0))
			return -ENOMEM;
		t->last_key = key;
		t->last = *index;
	}
	t->threads.data[t->last].count++;
	t->threads.data[t->last].host_ns += ns;
	return 0;
}

static int add_call(void *user, uint32_t row)
{
	struct tally *t = user;
	const struct calls *c = t->calls;
	uint64_t ns = c->end_ns[row] - c->start_ns[row];
	int r;

	if (!selection_has_time(t->selection, true, c->start_ns[row]) ||
	    !selection_has_call(t->selection, row))
		return 0;
	t->out->failed += (!t->results_valid || t->results_valid[row]) && t->results[row];
	r = calls_kind(c, row) == api_kind_graph_launch ? vec_push(&t->graph_calls, ns)
							: vec_push(&t->kernel_calls, ns);
	return r < 0 ? r : count_for_thread(t, c->threads[row], ns);
}

/*
 * Kernels in order of their start, so that the first of a graph launch is the one that is counted.
 */
static int tally_delays(struct tally *t, const struct selection *s, const struct calls *c, size_t p,
			uint8_t *seen, struct launches *out)
{
	const uint64_t *starts = kernel_columns(s->trace)->start_ns;
	const uint8_t *starts_valid = kernel_columns(s->trace)->valid.start_ns;
	const uint32_t *devices = kernel_columns(s->trace)->device;
	const uint32_t *streams = kernel_columns(s->trace)->stream;
	const uint32_t *configs = kernel_columns(s->trace)->config;
	uint64_t row = trace_first_row(s->trace, TABLE_kernel, p);
	uint64_t end = trace_first_row(s->trace, TABLE_kernel, p + 1);

	for (; row < end; row++) {
		uint32_t call = calls_launch(c, 0, row);
		bool timed = !starts_valid || starts_valid[row];

		if (!selection_has_time(s, timed, starts[row]) || !selection_has_call(s, call) ||
		    !selection_has_place(s, devices[row], streams[row]) ||
		    !selection_has_config(s, configs[row]))
			continue;
		if (call == TRACE_NO_ROW) {
			out->unmatched++;
			continue;
		}
		if (!timed || seen[call])
			continue;
		seen[call] = 1;
		if (starts[row] < c->start_ns[call])
			out->before_call++;
		else if (starts[row] < c->end_ns[call])
			out->in_call++;
		else if (vec_push(&t->delays, starts[row] - c->end_ns[call]) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct launching_thread *x = a, *y = b;

	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->thread < y->thread ? -1 : x->thread > y->thread;
}

static void finish(struct tally *t, struct launches *out)
{
	out->kernel_calls = stats_of(t->kernel_calls.data, t->kernel_calls.count);
	out->graph_calls = stats_of(t->graph_calls.data, t->graph_calls.count);
	out->delay = stats_of(t->delays.data, t->delays.count);
	out->threads = t->threads.data;
	out->thread_count = t->threads.count;
	if (out->thread_count)
		qsort(out->threads, out->thread_count, sizeof(*out->threads), compare);
}

int launches_analyze(const struct selection *s, const struct calls *calls, struct launches *out)
{
	_cleanup_free_ uint8_t *functions = calls_with_role(s->trace, calls, CALLS_LAUNCH);
	_cleanup_free_ uint8_t *seen = calloc(calls->rows + 1, 1);
	struct tally t = {
		s,
		calls,
		out,
		.results = api_call_columns(s->trace)->result,
		.results_valid = api_call_columns(s->trace)->valid.result,
		.index = MAP_INIT,
	};
	int r = seen && functions ? 0 : -ENOMEM;

	*out = (struct launches){ 0 };
	for (size_t p = 0; p < trace_process_count(s->trace) && r >= 0; p++) {
		if (!s->processes[p])
			continue;
		t.process = (uint32_t)p;
		r = calls_outermost(s->trace, calls, p, functions, add_call, &t);
		if (r >= 0)
			r = tally_delays(&t, s, calls, p, seen, out);
	}
	finish(&t, out);
	vec_release(&t.kernel_calls);
	vec_release(&t.graph_calls);
	vec_release(&t.delays);
	map_release(&t.index);
	return r;
}

static int run(struct report *r, void *out)
{
	return launches_analyze(&r->selection, &r->calls, out);
}

const struct analysis analysis_launches = {
	.size = sizeof(struct launches),
	.load = launches_load,
	.run = run,
	OWNS(struct launches, threads),
};
