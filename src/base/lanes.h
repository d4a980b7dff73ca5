/*
 * lanes.h: distributes intervals, added by start time, over as few lanes as possible. Within a lane
 * intervals nest, or (exclusive) do not overlap. Lane 0 is preferred. A track is what a viewer
 * draws as a line or, if events of the line overlap, as several.
 */
#ifndef PITOT_BASE_LANES_H
#define PITOT_BASE_LANES_H

#include <stdbool.h>

#include "base/map.h"
#include "base/vec.h"

/* Limit of simultaneous intervals; only hostile or damaged recordings need more. */
#define LANES_MAX 1024

struct lane {
	VEC(uint64_t) ends; /* of the open intervals, innermost last */
};

struct lanes {
	VEC(struct lane) items;
	bool exclusive;
};

/* Returns the interval's lane, -E2BIG if LANES_MAX lanes are in use, or -ENOMEM. */
int lanes_add(struct lanes *l, uint64_t start_ns, uint64_t end_ns) MUST_USE;
void lanes_release(struct lanes *l);

/* The tracks of an exporter, which begin with their struct lanes. */
struct tracks {
	struct map index; /* key -> item */
	VEC(struct lanes *) items; /* in the order in which they were added */
};

/* Finds the track of a key, or adds one of `size` zeroed bytes; NULL: out of memory. */
void *tracks_at(struct tracks *t, uint64_t key, size_t size, bool *is_new) MUST_USE;
void tracks_release(struct tracks *t);

#endif
