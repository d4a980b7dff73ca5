/*
 * cause_graphs.c: nodes of launched graphs. Work of a graph is of clones of the nodes that were
 * created; a clone without dependencies of its own has those of its original, between the clones in
 * its graph. A dependency on a node that is no GPU work (empty, host, event) stands for the
 * dependencies of that node.
 *
 * The first nodes follow the work before on the stream of the launch, and a join at which all last
 * nodes have ended is the stream's task for what comes later.
 */
#include "causes/cause_sweep.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"

#define HOPS_MAX 1024u /* dependencies followed for one node; then the rest is unknown */

struct dependency {
	uint64_t node, on;
};

struct graph_edges {
	VEC(struct dependency) items; /* by node */
	struct map first; /* node -> first item */
	struct map launched; /* of one launch: node -> task; reused */
	VEC(uint64_t) open; /* nodes to follow; reused */
	VEC(uint32_t) last; /* of one launch: its tasks that nothing depends on; reused */
};

ORDER(by_node, struct dependency, UP(node) ?: UP(on))

static uint64_t clone_key(uint64_t original, uint32_t graph)
{
	return hash_u64(original ^ hash_u64(graph));
}

/* The dependencies that exist at the end: a removed one has a later row that says so. */
static int read_created(struct sweep *s, struct graph_edges *g)
{
	const struct graph_edge_columns *e = graph_edge_columns(s->trace);
	uint64_t first = trace_first_row(s->trace, TABLE_graph_edge, s->process),
		 end = trace_first_row(s->trace, TABLE_graph_edge, s->process + 1);
	struct map removed = MAP_INIT;
	int code = 0;

	for (uint64_t row = end; row-- > first && code >= 0;) {
		uint64_t key = hash_u64(e->node[row] ^ hash_u64(e->dependency[row]));

		if (column_has(e->valid.removed, row) && e->removed[row])
			code = map_add(&removed, key);
		else if (map_add(&removed, key) == 1)
			code = vec_push(&g->items,
					((struct dependency){ e->node[row], e->dependency[row] }));
	}
	map_release(&removed);
	return code < 0 ? code : 0;
}

static int index_items(struct graph_edges *g)
{
	map_clear(&g->first);
	vec_sort(&g->items, by_node);
	for (size_t i = 0; i < g->items.count; i++)
		if ((!i || g->items.data[i].node != g->items.data[i - 1].node) &&
		    map_put(&g->first, g->items.data[i].node, i) < 0)
			return -ENOMEM;
	return 0;
}

/* Adds what a clone inherits from its original. */
static int add_inherited(struct graph_edges *g, const struct map *clones, uint64_t clone,
			 uint64_t original, uint32_t graph)
{
	uint64_t i, on;

	if (map_get(&g->first, clone, &i) || !map_get(&g->first, original, &i))
		return 0;
	for (; i < g->items.count && g->items.data[i].node == original; i++)
		if (map_get(clones, clone_key(g->items.data[i].on, graph), &on) &&
		    vec_push(&g->items, ((struct dependency){ clone, on })) < 0)
			return -ENOMEM;
	return 0;
}

/* The node that was created, of which `node` is a clone, directly or not. */
static uint64_t root_of(const struct map *roots, uint64_t node)
{
	map_get(roots, node, &node);
	return node;
}

static int read_clones(struct sweep *s, struct graph_edges *g)
{
	const struct graph_node_columns *n = graph_node_columns(s->trace);
	uint64_t first = trace_first_row(s->trace, TABLE_graph_node, s->process),
		 end = trace_first_row(s->trace, TABLE_graph_node, s->process + 1);
	struct map clones = MAP_INIT, roots = MAP_INIT;
	int code = 0;

	for (unsigned pass = 0; pass < 2; pass++) {
		for (uint64_t row = first; row < end && code >= 0; row++) {
			uint32_t graph = column_has(n->valid.graph, row) ? n->graph[row] : 0;
			uint64_t root;

			if (!column_has(n->valid.original, row) || !n->original[row])
				continue;
			root = root_of(&roots, n->original[row]);
			if (pass)
				code = add_inherited(g, &clones, n->node[row], root, graph);
			else if (map_put(&roots, n->node[row], root) < 0 ||
				 map_put(&clones, clone_key(root, graph), n->node[row]) < 0)
				code = -ENOMEM;
		}
	}
	map_release(&clones);
	map_release(&roots);
	return code;
}

int graph_edges_new(struct sweep *s)
{
	struct graph_edges *g = s->graphs = calloc(1, sizeof(*g));
	int code = g ? read_created(s, g) : -ENOMEM;

	if (code >= 0)
		code = index_items(g);
	if (code >= 0)
		code = read_clones(s, g);
	return code < 0 ? code : index_items(g);
}

void graph_edges_free(struct graph_edges *g)
{
	if (!g)
		return;
	vec_release(&g->items);
	vec_release(&g->open);
	vec_release(&g->last);
	map_release(&g->first);
	map_release(&g->launched);
	free(g);
}

static uint64_t node_of(const struct sweep *s, const struct launched_work *w)
{
	const struct event_columns *c = &s->work[w->work];

	return c->graph_node && column_has(c->graph_node_valid, w->row) ? c->graph_node[w->row] : 0;
}

static bool has_edges(struct sweep *s, const struct launched_work *nodes, size_t count)
{
	uint64_t first;

	for (size_t i = 0; i < count; i++)
		if (map_get(&s->graphs->first, node_of(s, &nodes[i]), &first))
			return true;
	return false;
}

static int open_dependencies(struct graph_edges *g, uint64_t node)
{
	uint64_t i;

	if (!map_get(&g->first, node, &i))
		return 0;
	for (; i < g->items.count && g->items.data[i].node == node && g->open.count < HOPS_MAX; i++)
		if (vec_push(&g->open, g->items.data[i].on) < 0)
			return -ENOMEM;
	return 0;
}

/* Adds the edges of the newest task, which is of `node`. Returns their number. */
static int add_edges(struct sweep *s, uint64_t node)
{
	struct graph_edges *g = s->graphs;
	int found = 0, code = open_dependencies(g, node);

	for (unsigned hops = 0; g->open.count && hops < HOPS_MAX && code >= 0; hops++) {
		uint64_t on = g->open.data[--g->open.count], task;

		if (!map_get(&g->launched, on, &task)) {
			code = open_dependencies(g, on);
			continue;
		}
		found++;
		code = sweep_edge(s, (uint32_t)(task >> 1), EDGE_graph);
		if (code >= 0) /* something depends on it */
			code = map_put(&g->launched, on, task | 1);
	}
	g->open.count = 0;
	return code < 0 ? code : found;
}

/* What the launch follows, before its first node was appended. */
struct entry {
	uint32_t previous, lane;
	uint8_t order;
};

static int append_node(struct sweep *s, const struct launched_work *node, uint32_t call,
		       const struct entry *entry)
{
	uint64_t id = node_of(s, node);
	struct task task;
	int64_t index;
	int code = sweep_task_of(s, node, call, &task);

	task.previous = TASK_NONE;
	task.order = EDGE_graph;
	index = code < 0 ? code : sweep_add(s, task);
	if (index < 0)
		return (int)index;
	code = add_edges(s, id);
	if (code == 0) {
		s->c->tasks.data[index].previous = entry->previous;
		s->c->tasks.data[index].order = entry->order;
	}
	if (code >= 0)
		code = vec_push(&s->graphs->last, (uint32_t)index);
	return code < 0 ? code : map_put(&s->graphs->launched, id, (uint64_t)index << 1);
}

/* The join of the nodes that nothing depends on. */
static int append_end(struct sweep *s, const struct launched_work *nodes, size_t count,
		      uint32_t call, uint32_t lane)
{
	const struct graph_edges *g = s->graphs;
	struct task join = { .row = TRACE_NO_ROW,
			     .lane = lane,
			     .launch = call,
			     .previous = TASK_NONE,
			     .order = EDGE_graph,
			     .kind = TASK_JOIN };
	int64_t index;

	for (size_t i = 0; i < g->last.count; i++)
		join.end_ns = MAX(join.end_ns, s->c->tasks.data[g->last.data[i]].end_ns);
	join.start_ns = join.end_ns;
	index = sweep_add(s, join);
	if (index < 0)
		return (int)index;
	for (size_t i = 0; i < count; i++) {
		uint64_t task = 0;

		map_get(&g->launched, node_of(s, &nodes[i]), &task);
		if (!(task & 1) && sweep_edge(s, g->last.data[i], EDGE_graph) < 0)
			return -ENOMEM;
	}
	return sweep_set_tail(s, lane, (uint32_t)index);
}

static int append_in_order(struct sweep *s, const struct launched_work *nodes, size_t count,
			   uint32_t call)
{
	s->c->unknown.unordered_graphs += count > 1;
	for (size_t i = 0; i < count; i++) {
		struct task task;
		int64_t index = sweep_task_of(s, &nodes[i], call, &task);

		index = index < 0 ? index : sweep_append(s, task);
		if (index < 0)
			return (int)index;
		if (i)
			s->c->tasks.data[index].order = EDGE_graph_order;
	}
	return 0;
}

int sweep_graph(struct sweep *s, const struct launched_work *nodes, size_t count, uint32_t call)
{
	struct graph_edges *g = s->graphs;
	struct entry entry;
	struct task first;
	int code;

	if (!has_edges(s, nodes, count))
		return append_in_order(s, nodes, count, call);
	map_clear(&g->launched);
	g->last.count = 0;
	code = sweep_task_of(s, &nodes[0], call, &first);
	if (code >= 0)
		code = sweep_settle(s, first.lane);
	if (code < 0)
		return code;
	entry = (struct entry){ s->states.data[first.lane].tail, first.lane,
				s->states.data[first.lane].order };
	for (size_t i = 0; i < count && code >= 0; i++)
		code = append_node(s, &nodes[i], call, &entry);
	return code < 0 ? code : append_end(s, nodes, count, call, entry.lane);
}
