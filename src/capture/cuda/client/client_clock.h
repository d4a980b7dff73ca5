/* client_clock.h: converts CUPTI's time to the time of another clock, using pairs of both. */
#ifndef PITOT_CAPTURE_CUDA_CLIENT_CLIENT_CLOCK_H
#define PITOT_CAPTURE_CUDA_CLIENT_CLIENT_CLOCK_H

#include "base/compiler.h"

#define CLIENT_CLOCK_PAIRS 64u

struct client_clock {
	unsigned count; /* of pairs, oldest first; 0: times are not converted */
	struct {
		uint64_t cupti, client;
	} pairs[CLIENT_CLOCK_PAIRS];
	/* client's ticks per nanosecond of CUPTI's; 0: not known yet, 1 is assumed */
	double rate;
};

/*
 * Adds a pair: the times of one moment on both clocks. A pair that contradicts the others means
 * that a clock was set: the others are dropped.
 */
void client_clock_add(struct client_clock *c, uint64_t cupti, uint64_t client);

/*
 * Converts a time of a record whose first time is `first`. `first` is interpolated, and the
 * distance of `time` from it is scaled, which is exact if both clocks tick in nanoseconds.
 */
uint64_t client_clock_convert(const struct client_clock *c, uint64_t first, uint64_t time);

#endif
