/*
 * graphs.h: CUDA graphs: number of launches, nodes per launch, and duration of a replay from the
 * start of its first node to the end of its last. From recorded nodes (--graphs node) or whole
 * graphs (--graphs launch).
 */
#ifndef PITOT_ANALYSIS_GRAPHS_H
#define PITOT_ANALYSIS_GRAPHS_H

#include "analysis/filter.h"
#include "analysis/gpus.h"
#include "analysis/stats.h"

struct graph_group {
	uint32_t process, graph;
	uint64_t launches;
	/* kernels, copies and sets that ran, over all launches; 0 if whole graphs were recorded */
	uint64_t nodes;
	uint64_t node_launches; /* launches whose nodes were recorded */
	uint64_t node_ns; /* sum of the nodes' durations */
	struct duration_stats replay; /* launches with times */
};

struct graphs {
	struct graph_group *items; /* by total replay time, longest first */
	size_t count;
	uint64_t launches, nodes;
	/*
	 * Estimated cost of recording the nodes, and the time from the first node to the last, of
	 * the process in which that cost is the largest share of that time.
	 */
	uint64_t node_cost_ns, node_span_ns;
};

/*
 * Whether --graphs launch would have been noticeably cheaper: recording nodes cost an estimated
 * tenth of a process's time with graphs, and a total that matters.
 */
bool graphs_nodes_are_expensive(const struct graphs *g);

int graphs_load(struct trace *t, struct error *e) MUST_USE;
int graphs_analyze(const struct selection *s, struct graphs *out) MUST_USE;
void graphs_release(struct graphs *g);

#endif
