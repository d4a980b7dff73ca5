/*
 * cause_polls.c: a thread that queries an event or a stream until it finds it done waits as in a
 * synchronization. Its queries without another call between them, each CAUSES_POLL_NS at most after
 * the one before, are one task, from the start of the first to the return of the last.
 */
#include "causes/cause_sweep.h"

/* A thread's calls so far. */
struct poller {
	uint64_t first; /* row of the run of queries */
	uint64_t end_ns; /* of its last call */
	bool polls; /* that was a query, which found its work unfinished, or may have */
};

struct polls {
	struct sweep *s;
	VEC(struct poller) pollers;
	bool knows_results; /* some query found its work unfinished */
};

static bool is_query(const struct trace *t, uint64_t call)
{
	uint32_t function = api_call_columns(t)->function[call];

	return function != TRACE_NO_ROW &&
	       api_function_columns(t)->kind[function] == api_kind_query;
}

bool sweep_query_is_done(const struct trace *t, uint64_t call)
{
	const struct api_call_columns *a = api_call_columns(t);

	return !a->result || !column_has(a->valid.result, call) || !a->result[call];
}

static struct poller *poller_of(struct polls *p, struct map *threads, uint32_t thread)
{
	uint64_t *at = map_at(threads, thread, UINT64_MAX);

	if (at && *at == UINT64_MAX) {
		*at = p->pollers.count;
		if (vec_push(&p->pollers, (struct poller){ .polls = false }) < 0)
			return NULL;
	}
	return at ? &p->pollers.data[*at] : NULL;
}

static int add_call(struct polls *p, struct poller *at, uint64_t row)
{
	const struct api_call_columns *a = api_call_columns(p->s->trace);
	uint64_t end_ns = MAX(a->end_ns[row], a->start_ns[row]);
	bool query = is_query(p->s->trace, row), inside = end_ns <= at->end_ns;
	int code = 0;

	if (query && at->polls && (inside || a->start_ns[row] <= at->end_ns + CAUSES_POLL_NS)) {
		code = map_put(&p->s->polls, row, POLL_INSIDE);
		if (code >= 0 && !inside)
			code = map_put(&p->s->polls, at->first, row);
	} else if (!inside) {
		at->first = row;
	}
	if (!inside) {
		at->end_ns = end_ns;
		at->polls = query && (!p->knows_results || !sweep_query_is_done(p->s->trace, row));
	}
	return code;
}

static bool has_queries(const struct trace *t, uint32_t process)
{
	const uint8_t *kinds = api_function_columns(t)->kind;

	for (uint64_t row = trace_first_row(t, TABLE_api_function, process),
		      end = trace_first_row(t, TABLE_api_function, process + 1);
	     row < end; row++)
		if (kinds[row] == api_kind_query)
			return true;
	return false;
}

int sweep_find_polls(struct sweep *s, uint64_t first, uint64_t end)
{
	struct polls p = { .s = s };
	struct map threads = MAP_INIT;
	int code = 0;

	if (!has_queries(s->trace, s->process))
		return 0;
	for (uint64_t row = first; row < end && !p.knows_results; row++)
		p.knows_results = is_query(s->trace, row) && !sweep_query_is_done(s->trace, row);
	for (uint64_t row = first; row < end && code >= 0; row++) {
		struct poller *at =
			poller_of(&p, &threads, api_call_columns(s->trace)->thread[row]);

		code = at ? add_call(&p, at, row) : -ENOMEM;
	}
	vec_release(&p.pollers);
	map_release(&threads);
	return code;
}
