/*
 * graphs.h: CUDA graphs: how often each was launched, how many nodes ran per launch, how long a
 * replay took from the start of its first node to the end of its last. From the nodes (--graphs
 * node) or from whole graphs (--graphs launch).
 */
#ifndef PITOT_ANALYSIS_GRAPHS_H
#define PITOT_ANALYSIS_GRAPHS_H

#include "analysis/filter.h"
#include "analysis/gpus.h"
#include "analysis/stats.h"

struct graph_group {
	uint32_t process, graph;
	uint64_t launches;
	/* That ran, of all launches: kernels, copies, sets; 0 if whole graphs were recorded. */
	uint64_t nodes;
	uint64_t node_launches; /* of which nodes were recorded */
	uint64_t node_ns; /* sum of their durations */
	struct duration_stats replay; /* launches with times */
};

struct graphs {
	struct graph_group *items; /* by total replay time, longest first */
	size_t count;
	uint64_t launches, nodes;
	/*
	 * Of the process in which it is the largest share: estimated cost of recording its nodes,
	 * and the time from its first node to its last.
	 */
	uint64_t node_cost_ns, node_span_ns;
};

/*
 * Whether one record per launch (--graphs launch) would have been noticeably cheaper: node records
 * are estimated to have cost a tenth of a process's time with graphs, and enough of it to matter.
 */
bool graphs_nodes_are_expensive(const struct graphs *g);

int graphs_load(struct trace *t, struct error *e) MUST_USE;
int graphs_analyze(const struct selection *s, struct graphs *out) MUST_USE;
void graphs_release(struct graphs *g);

#endif
