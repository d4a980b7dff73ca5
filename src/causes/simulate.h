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
	COST_LATENCY, /* of an edge: recorded if it bound a start or return, else the usual one */
};

/* Another order of the tasks of a lane. */
struct task_order {
	uint32_t previous; /* instead of the task's own, with the usual latency; or TASK_NONE */
	uint32_t also; /* another task that must have ended: before the return of a call */
	uint32_t latency_ns; /* after `previous`; TASK_USUAL_NS: as usual */
	bool joined; /* work: part of `previous`, after which it waits for nothing else */
};

#define TASK_USUAL_NS UINT32_MAX

struct simulation {
	const struct causes *causes;
	/* Returns the cost instead of recorded_ns, never more than 2^62. */
	uint64_t (*cost)(void *user, enum cost_of what, uint32_t task, enum edge_kind edge,
			 uint64_t recorded_ns);
	/* Whether the return of a call does not wait for its edges any more; NULL: they all do. */
	bool (*returns_at_once)(void *user, uint32_t call);
	void *user;
	const struct task_order *order; /* from `first` on; NULL: as recorded */
	const uint32_t *turns; /* of causes_turns; NULL: threads do not wait for each other */
	/* Tasks to simulate; those before `first` are as recorded, those from `end` on are not. */
	uint32_t first, end;
};

struct simulated {
	int64_t start_ns, end_ns; /* signed: a cause may end after its effect, within the clock */
};

/*
 * Simulates the tasks from `first` to `end`, into as many items. What they wait for is never
 * behind `end` if that is the end of a process's tasks or begins with a call.
 */
void simulate_tasks(const struct simulation *s, struct simulated *times);
/* Simulates one task. Those before it have their times, from s->first on. */
void simulate_task(const struct simulation *s, struct simulated *times, uint32_t task);

/*
 * Simulates all tasks. Returns the last end of those that began at or after start_ns and ended by
 * end_ns in the recording; UINT64_MAX: no memory.
 */
uint64_t simulate(struct simulation s, uint64_t start_ns, uint64_t end_ns);

/*
 * Finds the threads of processes that take turns, as PyTorch's main thread and its autograd thread
 * do: while one of them makes calls, the others make none. By task: the last call of the turn
 * before, if the task is a call with which a thread's turn begins, else TASK_NONE. Sets a byte of
 * `beside` (by process) where threads make calls side by side: they have no turns, and what they
 * wait for each other for is unknown. The caller frees the array; NULL: no memory.
 */
uint32_t *causes_turns(const struct causes *c, uint8_t *beside);

#endif
