/* graph_stacks.h: finds the call stacks that captured the nodes of CUDA graphs. */
#ifndef PITOT_ANALYSIS_GRAPH_STACKS_H
#define PITOT_ANALYSIS_GRAPH_STACKS_H

#include "base/map.h"
#include "trace/trace.h"

struct graph_stacks {
	const struct trace *trace;
	struct map *nodes; /* by process: CUPTI's node id -> its last row of graph_node */
};

/* Loads table graph_node. 0 or a negative code; after an error, do not release *g. */
int graph_stacks_init(struct graph_stacks *g, struct trace *t, struct error *e) MUST_USE;
void graph_stacks_release(struct graph_stacks *g);

/* Id of the stack that created a node or the node that it was cloned from; 0: not recorded. */
uint32_t graph_stacks_find(const struct graph_stacks *g, size_t process, uint64_t node);

#endif
