/*
 * graph_cost.h: when node records of CUDA graphs are expensive. For the recorder, which can disable
 * them, and for reports.
 */
#ifndef PITOT_SCHEMA_GRAPH_COST_H
#define PITOT_SCHEMA_GRAPH_COST_H

/*
 * What a node record of CUPTI adds to the run time: on an H200 a step that launches a graph of ten
 * kernels took 0.107 ms without CUPTI, 0.11 ms with one record per launch, and 0.14 to 0.15 ms with
 * one per node.
 */
#define GRAPH_NODE_COST_NS 3500u
#define GRAPH_EXPENSIVE_SHARE 10u /* expensive above 1/10 of the time */

#endif
