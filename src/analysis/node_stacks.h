/*
 * node_stacks.h: the call stack that captured or added a node of a CUDA graph. Kernels come from
 * nodes of executable graphs, which are clones, perhaps of clones, of those.
 */
#ifndef PITOT_ANALYSIS_NODE_STACKS_H
#define PITOT_ANALYSIS_NODE_STACKS_H

#include "base/map.h"
#include "trace/trace.h"

struct node_stacks {
	struct map *stacks; /* one a process: node -> id of table stack */
	size_t process_count;
};

/* 0 or a negative code; then nothing needs a release. */
int node_stacks_init(struct node_stacks *n, struct trace *t, struct error *e) MUST_USE;
void node_stacks_release(struct node_stacks *n);

/* Id of the stack (stacks_find), 0 where it is not known. `node` as kernel.graph_node has it. */
uint32_t node_stacks_find(const struct node_stacks *n, size_t process, uint64_t node);

#endif
