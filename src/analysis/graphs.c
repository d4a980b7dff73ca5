/*
 * graphs.c: nodes of one launch share its correlation id. Nodes are gathered by (correlation,
 * graph) into replays, and replays by graph. In a table the nodes of a replay mostly follow each
 * other, so the last replay is tried first.
 */
#include "analysis/graphs.h"

#include <errno.h>

#include "analysis/report.h"
#include "base/clock.h"
#include "base/map.h"
#include "base/vec.h"
#include "trace/events.h"

/*
 * What CUPTI's record of a node adds to the run: on an H200 a step that launches a graph of ten kernels took 0.107 ms
 * alone, 0.11 ms with one record a launch, and 0.14 to 0.15 ms with one a node.
 */
#define NODE_COST_NS 3500
#define EXPENSIVE_SHARE 10 /* one part in so many */
#define EXPENSIVE_NS (50 * NS_PER_MS) /* less than that is not worth a word */

struct replay {
	uint64_t correlation;
	uint64_t first_ns, last_ns; /* if timed */
	uint32_t graph, group;
	bool timed;
};

struct tally {
	struct map groups_index; /* graph -> group, of this process */
	struct map replays_index; /* hash of correlation and graph -> replay, of this process */
	VEC(struct graph_group) groups;
	VEC(struct replay) replays;
	uint32_t last; /* replay of the row before */
	bool of_nodes; /* the rows at hand are nodes, not launches of whole graphs */
	/* Nodes of this process. */
	uint64_t nodes, first_ns, last_ns;
};

int graphs_load(struct trace *t, struct error *e)
{
	int r = 0;

	for (size_t i = 0; i < GPU_WORK_KINDS && r >= 0; i++)
		if (schema_gpu_work[i]->roles[ROLE_GRAPH] >= 0)
			r = events_load(t, schema_gpu_work[i]->id,
					ROLES_TIMES | 1u << ROLE_CORRELATION | 1u << ROLE_GRAPH, e);
	return r;
}

static int new_replay(struct tally *t, uint32_t process, struct replay replay)
{
	struct graph_group new = { .process = process, .graph = replay.graph };
	uint64_t *group = map_at(&t->groups_index, replay.graph, t->groups.count);

	if (!group || (*group == t->groups.count && vec_push(&t->groups, new) < 0))
		return -ENOMEM;
	replay.group = (uint32_t)*group;
	t->groups.data[replay.group].launches++;
	return vec_push(&t->replays, replay);
}

static struct replay *replay_of(struct tally *t, uint32_t process, uint32_t graph,
				uint64_t correlation)
{
	struct replay new = { .correlation = correlation, .graph = graph };
	struct replay *last = t->last < t->replays.count ? &t->replays.data[t->last] : NULL;
	uint64_t *index;

	if (last && last->correlation == correlation && last->graph == graph)
		return last;
	/*
	 * Correlation ids are counted up, so that xor with a hash of few graphs keeps the keys
	 * apart.
	 */
	index = map_at(&t->replays_index, correlation ^ hash_u64(graph), t->replays.count);
	if (!index || (*index == t->replays.count && new_replay(t, process, new) < 0))
		return NULL;
	t->last = (uint32_t)*index;
	return &t->replays.data[*index];
}

static int add_row(struct tally *t, const struct event_columns *c, uint64_t row, uint32_t process,
		   bool timed)
{
	struct replay *r = replay_of(t, process, c->graph[row], c->correlation[row]);
	struct graph_group *g;

	if (!r)
		return -ENOMEM;
	g = &t->groups.data[r->group];
	g->nodes += t->of_nodes;
	if (!timed)
		return 0;
	if (t->of_nodes) {
		t->first_ns = t->nodes ? MIN(t->first_ns, c->start_ns[row]) : c->start_ns[row];
		t->last_ns = MAX(t->last_ns, c->end_ns[row]);
		t->nodes++;
	}
	g->node_ns += t->of_nodes ? c->end_ns[row] - c->start_ns[row] : 0;
	r->first_ns = r->timed ? MIN(r->first_ns, c->start_ns[row]) : c->start_ns[row];
	r->last_ns = MAX(r->last_ns, c->end_ns[row]);
	r->timed = true;
	return 0;
}

static int tally_process(struct tally *t, const struct selection *s, const struct event_columns *c,
			 size_t p)
{
	uint64_t row = trace_first_row(s->trace, c->table, p),
		 end = trace_first_row(s->trace, c->table, p + 1);
	int r = 0;

	t->of_nodes = schema_table(c->table)->roles[ROLE_GRAPH_NODE] >= 0;
	for (; c->graph && row < end && r >= 0; row++) {
		bool timed = event_is_timed(c, row);

		if (!column_has(c->graph_valid, row) ||
		    !selection_has_time(s, timed, c->start_ns[row]))
			continue;
		r = add_row(t, c, row, (uint32_t)p, timed);
	}
	return r;
}

/* Durations of the replays, group by group. */
static int measure(struct tally *t)
{
	_cleanup_free_ uint64_t *next = calloc(t->groups.count + 1, sizeof(*next));
	_cleanup_free_ uint64_t *durations = malloc((t->replays.count + 1) * sizeof(*durations));

	if (!next || !durations)
		return -ENOMEM;
	for (size_t i = 0; i < t->groups.count; i++)
		next[i + 1] = next[i] + t->groups.data[i].launches;
	for (size_t i = 0; i < t->replays.count; i++) {
		const struct replay *r = &t->replays.data[i];

		if (r->timed)
			durations[next[r->group] + t->groups.data[r->group].replay.count++] =
				r->last_ns - r->first_ns;
	}
	for (size_t i = 0; i < t->groups.count; i++)
		t->groups.data[i].replay =
			stats_of(durations + next[i], t->groups.data[i].replay.count);
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct graph_group *x = a, *y = b;

	if (x->replay.total_ns != y->replay.total_ns)
		return x->replay.total_ns < y->replay.total_ns ? 1 : -1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->graph < y->graph ? -1 : x->graph > y->graph;
}

/* Keeps the process that node records slowed down most. */
static void estimate_node_cost(const struct tally *t, struct graphs *out)
{
	uint64_t span_ns = t->last_ns - t->first_ns;
	uint64_t cost_ns = MIN(t->nodes * NODE_COST_NS, span_ns);

	if ((double)cost_ns * (double)out->node_span_ns <
	    (double)out->node_cost_ns * (double)span_ns)
		return;
	out->node_cost_ns = cost_ns;
	out->node_span_ns = span_ns;
}

bool graphs_nodes_are_expensive(const struct graphs *g)
{
	return g->node_cost_ns >= EXPENSIVE_NS &&
	       g->node_cost_ns >= g->node_span_ns / EXPENSIVE_SHARE;
}

int graphs_analyze(const struct selection *s, struct graphs *out)
{
	struct event_columns columns[GPU_WORK_KINDS];
	struct tally t = { .groups_index = MAP_INIT, .replays_index = MAP_INIT };
	int r = 0;

	*out = (struct graphs){ 0 };
	for (size_t i = 0; i < GPU_WORK_KINDS; i++)
		columns[i] = events_of(s->trace, schema_gpu_work[i]->id);
	for (size_t p = 0; p < trace_process_count(s->trace) && r >= 0; p++) {
		map_clear(&t.groups_index);
		map_clear(&t.replays_index);
		t.last = UINT32_MAX;
		t.nodes = t.first_ns = t.last_ns = 0;
		for (size_t i = 0; s->processes[p] && i < GPU_WORK_KINDS && r >= 0; i++)
			r = tally_process(&t, s, &columns[i], p);
		if (t.nodes)
			estimate_node_cost(&t, out);
	}
	if (r >= 0)
		r = measure(&t);
	out->items = t.groups.data;
	out->count = t.groups.count;
	for (size_t i = 0; i < out->count; i++) {
		out->launches += out->items[i].launches;
		out->nodes += out->items[i].nodes;
	}
	if (out->count)
		qsort(out->items, out->count, sizeof(*out->items), compare);
	vec_release(&t.replays);
	map_release(&t.groups_index);
	map_release(&t.replays_index);
	return r;
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
	OWNS(struct graphs, items),
};
