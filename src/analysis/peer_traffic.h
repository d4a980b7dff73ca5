/*
 * peer_traffic.h: how much ranks sent to each other by sends and receives, whose peers NCCL tells.
 * Of collectives it is unknown between which ranks their data goes: they are only counted.
 *
 * What a rank sent is from its own sends or, if it was not recorded, unknown.
 */
#ifndef PITOT_ANALYSIS_PEER_TRAFFIC_H
#define PITOT_ANALYSIS_PEER_TRAFFIC_H

#include "ranks/peer_pattern.h"

struct peer_traffic {
	struct peer_pair *items; /* by sender and receiver: items of collectives.ranks */
	size_t count;
	enum peer_pattern pattern;
	size_t groups; /* of ranks that exchange something */
	uint64_t bytes; /* sum of all */
	/*
	 * Sends that are not in the items: captured into graphs, which may run any number of times,
	 * of unknown size, or between ranks of which one is unknown.
	 */
	uint64_t unknown;
	uint64_t collectives; /* rows of other functions */
};

#endif
