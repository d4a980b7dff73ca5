/*
 * replay_nodes.c: graphs by their nodes. All launches with the same nodes are launches of one
 * graph, whose nodes take the mean of what they took.
 */
#include <stdlib.h>

#include "replay/replay_plan_state.h"

/* The id of a node: of its n-th execution in a launch another one; without one, by its place. */
static int node_id(struct plan_maker *m, uint32_t i, uint32_t place, uint64_t *id)
{
	const struct event_columns *c = &m->work[task_at(m, i)->kind];
	uint32_t row = task_at(m, i)->row;
	uint64_t *times;

	*id = c->graph_node && column_has(c->graph_node_valid, row) ? c->graph_node[row]
								    : UINT64_MAX - place;
	times = map_at(&m->seen, *id, 0);
	if (!times)
		return -ENOMEM;
	if ((*times)++)
		*id = hash_u64(*id + *times);
	return 0;
}

static uint64_t node_key(uint64_t graph, uint64_t id)
{
	return hash_u64(id ^ hash_u64(graph));
}

/* Appends the numbers of the nodes for which the node of a task waits. */
static int add_node_edges(struct plan_maker *m, uint32_t i, uint32_t first, bool *is_ordered)
{
	const struct task *task = task_at(m, i);

	for (size_t k = task->edges; k < task[1].edges; k++) {
		const struct task_edge *edge = &m->c->edges.data[k];

		if (edge->kind == EDGE_graph && edge->from >= first && edge->from < i &&
		    vec_push(&m->p->edges, edge->from - first) < 0)
			return -ENOMEM;
	}
	if (task->previous == TASK_NONE || task->previous < first || task->previous >= i)
		return 0;
	*is_ordered = true;
	return vec_push(&m->p->edges, task->previous - first);
}

static int64_t new_graph(struct plan_maker *m, uint32_t first, uint32_t end, const uint64_t *ids)
{
	struct replay_plan *p = m->p;
	struct replay_graph graph = { .first_node = (uint32_t)p->nodes.count,
				      .node_count = end - first,
				      .stream = m->stream_of[task_at(m, first)->lane] };
	uint64_t number = p->graphs.count;

	for (uint32_t i = first; i < end; i++) {
		struct replay_node node = { .id = ids[i - first],
					    .first_edge = (uint32_t)p->edges.count };

		if (describe_work(m, task_at(m, i), &node.work) < 0 ||
		    add_node_edges(m, i, first, &graph.is_ordered) < 0 ||
		    map_put(&m->nodes, node_key(number, node.id), p->nodes.count) < 0)
			return -ENOMEM;
		node.work.duration_ns = 0;
		if (vec_push(&p->nodes, node) < 0)
			return -ENOMEM;
	}
	return vec_push(&p->graphs, graph) < 0 ? -ENOMEM : (int64_t)number;
}

/* Whether the graph has these nodes; adds their durations if so. */
static bool is_same_graph(struct plan_maker *m, uint64_t number, uint32_t first, uint32_t end,
			  const uint64_t *ids)
{
	const struct replay_graph *graph = &m->p->graphs.data[number];
	uint64_t node;

	if (graph->node_count != end - first)
		return false;
	for (unsigned add = 0; add < 2; add++)
		for (uint32_t i = first; i < end; i++) {
			if (!map_get(&m->nodes, node_key(number, ids[i - first]), &node) ||
			    m->p->nodes.data[node].id != ids[i - first])
				return false;
			if (add)
				m->p->nodes.data[node].work.duration_ns +=
					MIN(task_at(m, i)->end_ns - task_at(m, i)->start_ns,
					    REPLAY_KERNEL_NS_MAX);
		}
	return true;
}

int64_t graph_at(struct plan_maker *m, uint32_t first, uint32_t end)
{
	_cleanup_free_ uint64_t *ids = calloc(end - first, sizeof(*ids));
	uint64_t hash = m->stream_of[task_at(m, first)->lane], found;
	int64_t number;

	map_clear(&m->seen);
	for (uint32_t i = first; i < end; i++) {
		if (!ids || node_id(m, i, i - first, &ids[i - first]) < 0)
			return -ENOMEM;
		hash += hash_u64(ids[i - first]); /* in any order: nodes may run side by side */
	}
	if (!map_get(&m->graphs, hash, &found) || !is_same_graph(m, found, first, end, ids)) {
		number = new_graph(m, first, end, ids);
		if (number < 0 || map_put(&m->graphs, hash, (uint64_t)number) < 0)
			return -ENOMEM;
		found = (uint64_t)number;
		is_same_graph(m, found, first, end, ids);
	}
	m->p->graphs.data[found].launches++;
	m->p->substituted[SUBSTITUTION_ordered_graphs] +=
		end - first > 1 && m->p->graphs.data[found].is_ordered;
	return (int64_t)found;
}
