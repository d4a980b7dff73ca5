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
	 * Estimated cost of recording the nodes, in calls that launch them, and the time from the
	 * first node to the last, of the process in which that cost is the largest share of that
	 * time.
	 */
	uint64_t node_cost_ns, node_span_ns;
};

/*
 * Whether --graphs launch may have been noticeably cheaper: recording nodes cost up to an estimated
 * tenth of a process's time with graphs, and a total that matters. It costs less where the GPU is
 * busy meanwhile.
 */
bool graphs_nodes_are_expensive(const struct graphs *g);

/*
 * What recording so many nodes adds to the call that launches them: measured on H200s, where it was
 * 2.0 to 3.1 us and 0.69 to 0.80 us for each node, and up to twice as much for seconds at a time
 * (bench/results/what-if-2026-11.txt).
 */
#define GRAPHS_LAUNCH_NS UINT64_C(2300)
#define GRAPHS_NODE_NS UINT64_C(740)
static inline uint64_t graphs_recording_ns(uint64_t launches, uint64_t nodes)
{
	return launches * GRAPHS_LAUNCH_NS + nodes * GRAPHS_NODE_NS;
}

int graphs_load(struct trace *t, struct error *e) MUST_USE;
int graphs_analyze(const struct selection *s, struct graphs *out) MUST_USE;
void graphs_release(struct graphs *g);

#endif
