/*
 * lanes.h: spreads intervals that come in order of their start over as few lanes as are needed, so
 * that in each lane they nest, or (exclusive) follow one another. Lane 0 is tried first.
 */
#ifndef PITOT_EXPORT_LANES_H
#define PITOT_EXPORT_LANES_H

#include <stdbool.h>

#include "base/vec.h"

/* Intervals that overlap at one time; only hostile or damaged recordings need more. */
#define LANES_MAX 1024

struct lane {
	VEC(uint64_t) ends; /* of the open intervals, innermost last */
};

struct lanes {
	VEC(struct lane) items;
	bool exclusive;
	/* Told of each interval that is over, innermost first; may be NULL. */
	void (*ended)(void *user, size_t lane, uint64_t end_ns);
	void *user;
};

/* Index of the lane for an interval, -E2BIG when LANES_MAX are in use, or -ENOMEM. */
int lanes_place(struct lanes *l, uint64_t start_ns, uint64_t end_ns) MUST_USE;
/* Ends what ends at or before now_ns. */
void lanes_advance(struct lanes *l, uint64_t now_ns);
/* Ends what is open. */
void lanes_finish(struct lanes *l);
void lanes_release(struct lanes *l);

#endif
