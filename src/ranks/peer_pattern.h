/*
 * peer_pattern.h: the pattern in which ranks send to each other. Ranks that exchange something form
 * a group; if all groups have one pattern, it has a name.
 */
#ifndef PITOT_RANKS_PEER_PATTERN_H
#define PITOT_RANKS_PEER_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

struct peer_pair {
	uint32_t from, to; /* ranks */
	uint64_t bytes, count;
};

enum peer_pattern {
	PEERS_NONE, /* nothing is sent */
	PEERS_PAIRS, /* two ranks send to each other */
	PEERS_RING, /* each sends to the next, or to both neighbours, and the last to the first */
	PEERS_PIPELINE, /* the same without the last step */
	PEERS_ALL_TO_ALL, /* at least three ranks, each sends to each */
	PEERS_OTHER,
	PEER_PATTERNS,
};

/*
 * pairs: each at most once, from != to, both below `ranks`. *groups: their number. 0 or -ENOMEM.
 */
int peer_pattern_find(const struct peer_pair *pairs, size_t count, size_t ranks,
		      enum peer_pattern *pattern, size_t *groups) MUST_USE;

#endif
