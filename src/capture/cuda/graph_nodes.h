/*
 * graph_nodes.h: which nodes CUDA graphs have, and which code made them: table graph_node.
 *
 * A kernel of a replayed graph says which node it is. That node is nearly always a clone, made when
 * the graph was instantiated, of the one that a captured launch or cudaGraphAdd… made; `original`
 * leads there, and the stack of that row is who launched the kernel while the graph was captured.
 * Nothing of this happens when a graph is replayed.
 */
#ifndef PITOT_CAPTURE_CUDA_GRAPH_NODES_H
#define PITOT_CAPTURE_CUDA_GRAPH_NODES_H

#include "capture/cuda/vendor.h"
#include "capture/ring.h"
#include "format/writer.h"

/* Asks CUPTI for the callbacks. false: this CUPTI has no ids for nodes. */
bool graph_nodes_start(const struct cupti *cupti, CUpti_SubscriberHandle subscriber);

/* Only whether there are graphs. */
void graph_nodes_watch_graphs(const struct cupti *cupti, CUpti_SubscriberHandle subscriber);

/* Ends both. */
void graph_nodes_stop(const struct cupti *cupti, CUpti_SubscriberHandle subscriber);

/* A callback of the resource domain, on the thread that it is about. */
void graph_nodes_callback(CUpti_CallbackId cbid, const CUpti_ResourceData *data);

/* Graphs instantiated so far, and their nodes. */
uint64_t graph_nodes_instantiations(void);
uint64_t graph_nodes_instantiated(void);

/*
 * Whether a graph was instantiated in this process, or may have been while nobody watched. Any
 * thread.
 */
bool graph_nodes_graphs_exist(void);
void graph_nodes_graphs_unseen(void);

/* Collector's thread: makes a row of the RING_GRAPH_NODE event at `position`; returns its slots. */
uint64_t graph_nodes_event(struct writer *w, const struct ring *r, uint64_t position);

#endif
