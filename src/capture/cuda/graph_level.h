/*
 * graph_level.h: --graphs auto: one record for each launch of a CUDA graph, or records of its nodes
 * where they are cheap.
 *
 * It begins with launches, and goes over to nodes for good when for five seconds with launches the
 * records of their nodes would have cost less than a tenth of the time (schema/graph_cost.h); how
 * many nodes a launch has is known from what was instantiated. There is no way back: CUPTI 13.0 on
 * an H200 crashes in cuGraphLaunch when records of launches are switched on after the graph was
 * instantiated without them (from launches to nodes it goes, and the nodes come). What was decided
 * is a row of `capability`.
 */
#ifndef PITOT_CAPTURE_CUDA_GRAPH_LEVEL_H
#define PITOT_CAPTURE_CUDA_GRAPH_LEVEL_H

#include <stdbool.h>

#include "format/writer.h"

/* Totals of a recording. */
struct graph_counts {
	uint64_t calls; /* launches of graphs that succeeded */
	uint64_t instantiations, nodes; /* and the nodes that were cloned in them */
};

/* The collector's thread begins. Times are counted from start_ns on in what is said. */
void graph_level_begin(uint64_t start_ns);

/*
 * At each tick, with --graphs auto. True when the level has changed, which the vendor thread has to
 * carry out. Collector's thread.
 */
bool graph_level_follow(struct writer *w, const struct graph_counts *now, uint64_t now_ns);

/* What was recorded to the end. Collector's thread. */
void graph_level_end(struct writer *w);

/* Whether whole launches are to be recorded. Any thread. */
bool graph_level_is_launch(void);

/*
 * Launches cannot be recorded: nodes for good. Vendor thread, or before it runs; `why` stays valid.
 */
void graph_level_refused(const char *why);

#endif
