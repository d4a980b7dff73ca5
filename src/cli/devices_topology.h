/* devices_topology.h: how the devices of this machine are connected, for `pitot devices`. */
#ifndef PITOT_CLI_DEVICES_TOPOLOGY_H
#define PITOT_CLI_DEVICES_TOPOLOGY_H

#include "cli/command.h"

/* Prints the topology, as a graph for Graphviz with `dot`. Returns the exit status. */
int devices_print_topology(const struct context *c, bool measure, bool dot);

#endif
