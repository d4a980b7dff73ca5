/*
 * graph_level.h: --graphs auto: chooses between one record per launch of a CUDA graph, and records
 * of its nodes where those are cheap.
 *
 * It begins with launch records, and switches permanently to nodes after five seconds with launches
 * in which node records would have cost less than a tenth of the time (schema/graph_cost.h); the
 * number of nodes per launch is estimated from the instantiations. Switching back is impossible:
 * CUPTI 13.0 on an H200 crashes in cuGraphLaunch if launch records are enabled after the graph was
 * instantiated without them (switching from launches to nodes works). A row of `capability` records
 * the decision.
 */
#ifndef PITOT_CAPTURE_CUDA_GRAPH_LEVEL_H
#define PITOT_CAPTURE_CUDA_GRAPH_LEVEL_H

#include <stdbool.h>

#include "format/writer.h"

/* Totals of a recording. */
struct graph_counts {
	uint64_t calls; /* successful launches of graphs */
	uint64_t instantiations, nodes; /* nodes: cloned in these instantiations */
};

/* Called when the collector's thread begins. Times in messages count from start_ns. */
void graph_level_begin(uint64_t start_ns);

/*
 * Called at each tick with --graphs auto, on the collector's thread. Returns true if the level has
 * changed, which the vendor thread must then carry out.
 */
bool graph_level_update(struct writer *w, const struct graph_counts *now, uint64_t now_ns);

/* Writes which level was used to the end. Collector's thread. */
void graph_level_end(struct writer *w);

/* Whether whole launches are recorded. Any thread. */
bool graph_level_is_launch(void);

/*
 * Switches permanently to nodes because launches cannot be recorded. Must be called on the vendor
 * thread, or before it runs; `why` must stay valid.
 */
void graph_level_refused(const char *why);

#endif
