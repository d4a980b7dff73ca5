#include "analysis/node_stacks.h"

#include <errno.h>

/* Rows are in order of time: what a node was cloned from comes before it. */
static int add_process(struct node_stacks *n, const struct trace *t, size_t process)
{
	const uint64_t *nodes = trace_u64(t, TABLE_graph_node, COLUMN_graph_node_node);
	const uint64_t *originals = trace_u64(t, TABLE_graph_node, COLUMN_graph_node_original);
	const uint8_t *cloned = trace_valid(t, TABLE_graph_node, COLUMN_graph_node_original);
	const uint32_t *stacks = trace_u32(t, TABLE_graph_node, COLUMN_graph_node_stack);
	const uint8_t *known = trace_valid(t, TABLE_graph_node, COLUMN_graph_node_stack);
	uint64_t end = trace_first_row(t, TABLE_graph_node, process + 1);

	for (uint64_t row = trace_first_row(t, TABLE_graph_node, process); row < end; row++) {
		uint64_t stack = 0;

		if (!cloned || cloned[row])
			map_get(&n->stacks[process], originals[row], &stack);
		else if (!known || known[row])
			stack = stacks[row];
		if (stack && map_put(&n->stacks[process], nodes[row], stack) < 0)
			return -ENOMEM;
	}
	return 0;
}

int node_stacks_init(struct node_stacks *n, struct trace *t, struct error *e)
{
	size_t count = trace_process_count(t);
	int r = trace_load(t, TABLE_graph_node,
			   COLUMN_BIT(graph_node, time_ns) | COLUMN_BIT(graph_node, node) |
				   COLUMN_BIT(graph_node, original) | COLUMN_BIT(graph_node, stack),
			   e);

	if (r < 0)
		return r;
	*n = (struct node_stacks){ calloc(count + 1, sizeof(*n->stacks)), count };
	r = n->stacks ? 0 : -ENOMEM;
	for (size_t p = 0; p < count && r == 0; p++)
		r = add_process(n, t, p);
	if (r == 0)
		return 0;
	node_stacks_release(n);
	return error_set(e, r, "out of memory");
}

void node_stacks_release(struct node_stacks *n)
{
	for (size_t p = 0; n->stacks && p < n->process_count; p++)
		map_release(&n->stacks[p]);
	free(n->stacks);
	*n = (struct node_stacks){ 0 };
}

uint32_t node_stacks_find(const struct node_stacks *n, size_t process, uint64_t node)
{
	uint64_t stack;

	return process < n->process_count && map_get(&n->stacks[process], node, &stack)
		       ? (uint32_t)stack
		       : 0;
}
