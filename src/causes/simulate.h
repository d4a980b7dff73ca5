/*
 * simulate.h: replays the graph with other costs: each task begins when all that it waits for is
 * over, and the latency of that edge has passed. One pass in the order of tasks.
 *
 * Latencies are the recorded ones where the edge bound the recorded start or return, else the
 * usual ones, or the recorded distance if that is shorter. Therefore a replay without a change
 * gives the recorded times, except where nothing is known that a task waited for: such a task
 * begins when it did. A call that waited costs its return's latency; its waiting is no cost.
 */
#ifndef PITOT_CAUSES_SIMULATE_H
#define PITOT_CAUSES_SIMULATE_H

#include "causes/causes.h"

enum cost_of {
	COST_WORK, /* of a task on the GPU */
	COST_CALL, /* of a call, except what it waits */
	COST_HOST, /* of the thread before a call */
	COST_LATENCY, /* of the edge that bound a start or return */
};

struct simulation {
	const struct causes *causes;
	/* Returns the cost instead of recorded_ns, never more than 2^62. */
	uint64_t (*cost)(void *user, enum cost_of what, uint32_t task, enum edge_kind edge,
			 uint64_t recorded_ns);
	void *user;
};

/*
 * Returns the last end of the tasks that began at or after start_ns and ended by end_ns in the
 * recording; UINT64_MAX: no memory.
 */
uint64_t simulate(const struct simulation *s, uint64_t start_ns, uint64_t end_ns);

#endif
