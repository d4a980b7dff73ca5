/*
 * graph_nodes.h: records the nodes of CUDA graphs and the code that made them (table graph_node),
 * and their dependencies (graph_edge).
 *
 * A kernel's record in a replayed graph names its node. That node is nearly always a clone, made
 * when the graph was instantiated, of a node that a captured launch or cudaGraphAdd… made.
 * `original` leads to that node, whose stack shows the launch during the capture. Replaying a graph
 * causes none of these events.
 */
#ifndef PITOT_CAPTURE_CUDA_GRAPH_NODES_H
#define PITOT_CAPTURE_CUDA_GRAPH_NODES_H

#include "capture/cuda/hub/hub.h"
#include "capture/core/ring.h"
#include "format/writer.h"

/* Enables the callbacks for nodes and dependencies. False: this CUPTI has no ids for nodes. */
bool graph_nodes_start(const struct hub_client *c, const struct cupti *cupti);

/* Only watches whether graphs exist. */
void graph_nodes_watch_graphs(const struct hub_client *c);

/* Disables the callbacks of both. */
void graph_nodes_stop(const struct hub_client *c);

/* Handles a callback of the resource domain, on the thread that caused it. */
void graph_nodes_callback(CUpti_CallbackId cbid, const CUpti_ResourceData *data);

/* Whether graphs were instantiated in this process, or may have been unseen. Any thread. */
bool graph_nodes_graphs_exist(void);
void graph_nodes_graphs_unseen(void);

/* Makes a row of the RING_GRAPH_NODE event at `position`; returns its slots. Collector's thread. */
uint64_t graph_nodes_event(struct writer *w, const struct ring *r, uint64_t position);

#endif
