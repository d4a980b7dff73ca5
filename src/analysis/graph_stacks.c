#include "analysis/graph_stacks.h"

#include <errno.h>

#include "analysis/filter.h"
#include "trace/columns.h"

#define CLONES_MAX 16 /* limit on clones of clones: hostile rows may form a cycle */

static int index_nodes(struct graph_stacks *g)
{
	const uint64_t *nodes = graph_node_columns(g->trace)->node;

	for (struct row_walk w = all_rows(g->trace, TABLE_graph_node); row_walk_next(&w);)
		if (map_put(&g->nodes[w.process], nodes[w.row], w.row) < 0)
			return -ENOMEM;
	return 0;
}

int graph_stacks_init(struct graph_stacks *g, struct trace *t, struct error *e)
{
	int rc = trace_load(t, TABLE_graph_node, COLUMN_BITS(graph_node, node, original, stack), e);

	if (rc < 0)
		return rc;
	*g = (struct graph_stacks){ .trace = t };
	g->nodes = calloc(trace_process_count(t) + 1, sizeof(*g->nodes));
	if (g->nodes && index_nodes(g) >= 0)
		return 0;
	graph_stacks_release(g);
	return error_set(e, -ENOMEM, "out of memory");
}

void graph_stacks_release(struct graph_stacks *g)
{
	for (size_t p = 0; g->nodes && p < trace_process_count(g->trace); p++)
		map_release(&g->nodes[p]);
	free(g->nodes);
	*g = (struct graph_stacks){ 0 };
}

uint32_t graph_stacks_find(const struct graph_stacks *g, size_t process, uint64_t node)
{
	uint64_t row;

	for (int i = 0; i < CLONES_MAX && map_get(&g->nodes[process], node, &row); i++) {
		bool missing;
		uint64_t value = trace_value(g->trace, TABLE_graph_node, COLUMN_graph_node_stack,
					     row, &missing);

		if (!missing && value)
			return (uint32_t)value;
		value = trace_value(g->trace, TABLE_graph_node, COLUMN_graph_node_original, row,
				    &missing);
		if (missing)
			return 0;
		node = value;
	}
	return 0;
}
