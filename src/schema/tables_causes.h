/* tables_causes.h: the tables of what GPU work depends on; tables.h explains the macros. */
#ifndef PITOT_SCHEMA_TABLES_CAUSES_H
#define PITOT_SCHEMA_TABLES_CAUSES_H

/* clang-format off */
/*
 * A clone of a node whose own dependencies were not reported depends on the clones of the nodes on
 * which its original depends.
 */
#define SCHEMA_graph_edge(C, T)                                                                                        \
	C(T, time_ns, TIME, ALWAYS, NONE, "ns", "time when the dependency was created or removed")                     \
	C(T, node, U64, ALWAYS, NONE, "", "graph node id of the node that waits")                                      \
	C(T, dependency, U64, ALWAYS, NONE, "", "graph node id of the node for which it waits")                        \
	C(T, graph, U32, MAYBE, NONE, "", "graph id")                                                                  \
	C(T, removed, U8, MAYBE, NONE, "", "1: the dependency was removed")
#define TRAITS_graph_edge(X, T) X(T, LAST_OF, node, dependency)
/* clang-format on */

#endif
