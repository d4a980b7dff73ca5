/*
 * graphs.c: all nodes of a graph launch have the same call and correlation id. Nodes are grouped by
 * (launch, graph) into replays, and replays by graph. The nodes of a replay are mostly consecutive
 * rows of a table, so the latest replay is tried first.
 *
 * A launch is identified by the row of its call or, if calls are missing or not loaded, by its
 * correlation id, whose column takes 8 bytes for every kernel, in graphs or not.
 */
#include "analysis/graphs.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "base/clock.h"
#include "base/search.h"
#include "trace/events.h"

#define GRAPH_EXPENSIVE_SHARE 10u /* expensive above 1/10 of the time */
#define BY_CORRELATION (UINT64_C(1) << 63)
#define EXPENSIVE_NS (50 * NS_PER_MS) /* a lower cost is not worth a hint */

struct replay {
	uint64_t launch;
	uint64_t first_ns, last_ns; /* if timed */
	uint32_t graph, group;
	bool timed, has_nodes;
};

struct tally {
	GROUPS(struct graph_group) groups; /* by graph, of this process */
	struct map replays_index; /* hash of launch and graph -> replay, of this process */
	VEC(struct replay) replays;
	size_t last; /* replay of the previous row */
	/* of the nodes of this process */
	uint64_t nodes, launches, first_ns, last_ns;
};

/* Whether some row's launch is known only by its correlation id. */
static bool lacks_calls(const struct event_columns *c)
{
	for (uint64_t row = 0; c->graph && row < c->rows; row++)
		if (column_has(c->graph_valid, row) &&
		    (!c->launches || c->launches[row] == TRACE_NO_ROW))
			return true;
	return false;
}

int graphs_load(struct trace *t, struct error *e)
{
	int rc = 0;

	for (size_t i = 0; i < GPU_WORK_KINDS && rc >= 0; i++) {
		enum table_id table = schema_gpu_work[i]->id;
		struct event_columns c;

		if (schema_gpu_work[i]->roles[ROLE_GRAPH] < 0)
			continue;
		rc = events_load(t, table, ROLES_TIMES | 1u << ROLE_GRAPH, e);
		c = events_of(t, table);
		if (rc >= 0 && lacks_calls(&c))
			rc = events_load(t, table, 1u << ROLE_CORRELATION, e);
	}
	return rc;
}

static int new_replay(struct tally *t, uint32_t process, struct replay replay)
{
	struct graph_group *g =
		groups_at(&t->groups, replay.graph, .process = process, .graph = replay.graph);

	if (!g)
		return -ENOMEM;
	g->launches++;
	replay.group = (uint32_t)(g - t->groups.items.data);
	return vec_push(&t->replays, replay);
}

static struct replay *replay_of(struct tally *t, uint32_t process, uint32_t graph, uint64_t launch)
{
	struct replay new = { .launch = launch, .graph = graph };
	struct replay *last = t->last < t->replays.count ? &t->replays.data[t->last] : NULL;
	uint64_t *index;

	if (last && last->launch == launch && last->graph == graph)
		return last;
	/* launches are small consecutive numbers, so xor with a hash keeps the keys distinct */
	index = map_at(&t->replays_index, launch ^ hash_u64(graph), t->replays.count);
	if (!index || (*index == t->replays.count && new_replay(t, process, new) < 0))
		return NULL;
	t->last = *index;
	return &t->replays.data[*index];
}

/* The same for kernels and copies of a launch, whatever else was loaded of either table. */
static uint64_t launch_of(const struct event_columns *c, uint64_t row)
{
	if (c->launches && c->launches[row] != TRACE_NO_ROW)
		return c->launches[row];
	return BY_CORRELATION | c->correlation[row];
}

static int add_row(struct tally *t, const struct event_columns *c, uint64_t row, uint32_t process)
{
	bool timed = event_is_timed(c, row);
	bool node = schema_table(c->table)->roles[ROLE_GRAPH_NODE] >= 0; /* else a whole graph */
	struct replay *r = replay_of(t, process, c->graph[row], launch_of(c, row));
	struct graph_group *g;

	if (!r)
		return -ENOMEM;
	g = &t->groups.items.data[r->group];
	g->nodes += node;
	g->node_launches += node && !r->has_nodes;
	t->launches += node && !r->has_nodes;
	r->has_nodes |= node;
	if (!timed)
		return 0;
	if (node) {
		t->first_ns = t->nodes ? MIN(t->first_ns, c->start_ns[row]) : c->start_ns[row];
		t->last_ns = MAX(t->last_ns, c->end_ns[row]);
		t->nodes++;
		g->node_ns += c->end_ns[row] - c->start_ns[row];
	}
	r->first_ns = r->timed ? MIN(r->first_ns, c->start_ns[row]) : c->start_ns[row];
	r->last_ns = MAX(r->last_ns, c->end_ns[row]);
	r->timed = true;
	return 0;
}

static int add_rows(struct tally *t, const struct selection *s, const struct event_columns *c,
		    size_t process)
{
	struct row_walk w = process_rows(s->trace, c->table, process);
	int rc = 0;

	while (c->graph && rc >= 0 && row_walk_next(&w))
		if (column_has(c->graph_valid, w.row) &&
		    selection_has_time(s, event_is_timed(c, w.row), c->start_ns[w.row]))
			rc = add_row(t, c, w.row, w.process);
	return rc;
}

static int measure(struct tally *t)
{
	_cleanup_free_ struct durations *durations =
		calloc(t->groups.items.count + 1, sizeof(*durations));
	int code = durations ? 0 : -ENOMEM;

	for (size_t i = 0; i < t->replays.count && code >= 0; i++) {
		const struct replay *r = &t->replays.data[i];

		if (r->timed)
			code = durations_add(&durations[r->group], r->last_ns - r->first_ns);
	}
	for (size_t i = 0; durations && i < t->groups.items.count; i++) {
		t->groups.items.data[i].replay = durations_stats(&durations[i]);
		durations_release(&durations[i]);
	}
	return code;
}

ORDER(compare, struct graph_group, DOWN(replay.total_ns) ?: UP(process) ?: UP(graph))

/* Stores the estimate if node records slowed this process down more than the others so far. */
static void estimate_node_cost(const struct tally *t, struct graphs *out)
{
	uint64_t span_ns = t->last_ns - t->first_ns;
	uint64_t cost_ns = MIN(graphs_recording_ns(t->launches, t->nodes), span_ns);

	if ((double)cost_ns * (double)out->node_span_ns <
	    (double)out->node_cost_ns * (double)span_ns)
		return;
	out->node_cost_ns = cost_ns;
	out->node_span_ns = span_ns;
}

bool graphs_nodes_are_expensive(const struct graphs *g)
{
	return g->node_cost_ns >= EXPENSIVE_NS &&
	       g->node_cost_ns >= g->node_span_ns / GRAPH_EXPENSIVE_SHARE;
}

int graphs_analyze(const struct selection *s, struct graphs *out)
{
	struct event_columns columns[GPU_WORK_KINDS];
	struct tally t = { .replays_index = MAP_INIT };
	int rc = 0;

	*out = (struct graphs){ 0 };
	for (size_t i = 0; i < GPU_WORK_KINDS; i++)
		columns[i] = events_of(s->trace, schema_gpu_work[i]->id);
	for (size_t p = 0; p < trace_process_count(s->trace) && rc >= 0; p++) {
		map_clear(&t.groups.index);
		map_clear(&t.replays_index);
		t.last = SIZE_MAX;
		t.nodes = t.first_ns = t.last_ns = 0;
		for (size_t i = 0; s->processes[p] && i < GPU_WORK_KINDS && rc >= 0; i++)
			rc = add_rows(&t, s, &columns[i], p);
		if (t.nodes)
			estimate_node_cost(&t, out);
	}
	if (rc >= 0)
		rc = measure(&t);
	groups_take(&t.groups, compare, &out->items, &out->count);
	for (size_t i = 0; i < out->count; i++) {
		out->launches += out->items[i].launches;
		out->nodes += out->items[i].nodes;
	}
	vec_release(&t.replays);
	map_release(&t.replays_index);
	return rc;
}

void graphs_release(struct graphs *g)
{
	free(g->items);
	*g = (struct graphs){ 0 };
}

static int run(struct report *r, void *out)
{
	return graphs_analyze(&r->selection, out);
}

const struct analysis analysis_graphs = {
	.size = sizeof(struct graphs),
	.load = graphs_load,
	.run = run,
	.owned = { OWNS(struct graphs, items) },
};
