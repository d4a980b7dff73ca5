/*
 * graph_cost.h: when records of the nodes of CUDA graphs are expensive: for the recorder, which can
 * do without, and for reports.
 */
#ifndef PITOT_SCHEMA_GRAPH_COST_H
#define PITOT_SCHEMA_GRAPH_COST_H

/*
 * What CUPTI's record of a node adds to the run: on an H200 a step that launches a graph of ten
 * kernels took 0.107 ms alone, 0.11 ms with one record a launch, and 0.14 to 0.15 ms with one a
 * node.
 */
#define GRAPH_NODE_COST_NS 3500u
#define GRAPH_EXPENSIVE_SHARE 10u /* of the time: one part in so many */

#endif
