/* client_clock.h: CUPTI's time as the time of another clock, from pairs of both. */
#ifndef PITOT_CAPTURE_CUDA_SHARE_CLIENT_CLOCK_H
#define PITOT_CAPTURE_CUDA_SHARE_CLIENT_CLOCK_H

#include "base/compiler.h"

#define CLIENT_CLOCK_PAIRS 64u

struct client_clock {
	unsigned count; /* of pairs, oldest first; 0: times stay as they are */
	struct {
		uint64_t cupti, client;
	} pairs[CLIENT_CLOCK_PAIRS];
	/* the client's ticks in a nanosecond of CUPTI's; 0: not known yet, taken to be 1 */
	double rate;
};

/*
 * Adds a pair of times of one moment. One that the others cannot be right with means that a clock
 * was set: they are dropped.
 */
void client_clock_add(struct client_clock *c, uint64_t cupti, uint64_t client);

/*
 * A time of a record whose first time is `first`: that is interpolated, and what lies after it
 * comes at its distance from it, which is exact where both clocks tick nanoseconds.
 */
uint64_t client_clock_convert(const struct client_clock *c, uint64_t first, uint64_t time);

#endif
