/*
 * cause_path.h: the critical path of a window: what bounded its length, found by a walk backwards
 * from its last GPU work or call that waited for some. Calls that go on beside the GPU, such as
 * queries of a thread that polls in vain, end no path. At each start the latest of the arrivals
 * bounded it: the time since then is the edge's latency, and the walk goes on there. The pieces
 * tile the window, and each has one owner.
 */
#ifndef PITOT_CAUSES_CAUSE_PATH_H
#define PITOT_CAUSES_CAUSE_PATH_H

#include "causes/causes.h"

enum piece_kind {
	PIECE_WORK, /* `task` ran on the GPU */
	PIECE_CALL, /* `task` is a call that did not wait for the GPU, or before it waited */
	/*
	 * The thread of call `task` was between its calls, or before its first one; or between the
	 * last call of another thread, for which it may have waited, and `task`.
	 */
	PIECE_HOST,
	PIECE_LATENCY, /* from the end of an edge's cause to the start or return of `task` */
	PIECE_UNKNOWN, /* what `task` (or TASK_NONE) waited for is unknown */
};

struct path_piece {
	uint64_t start_ns, end_ns;
	uint32_t task;
	uint8_t kind; /* enum piece_kind */
	uint8_t edge; /* PIECE_LATENCY: enum edge_kind */
};

struct path {
	VEC(struct path_piece) pieces; /* from the last to the first; none is empty */
};

/* Whether it is work, or a call that waited for some. */
bool path_can_end(const struct causes *c, uint32_t task);

/*
 * Finds the path from start_ns to end_ns, which ends in one of `processes` (a byte for each; NULL:
 * all), at the last task that can end it, or, without such tasks, at the last one. 0 or -ENOMEM;
 * path_release in either case.
 */
int path_find(struct path *p, const struct causes *c, const uint8_t *processes, uint64_t start_ns,
	      uint64_t end_ns) MUST_USE;
void path_release(struct path *p);

/* Where a walk is: behind a task, or where `at_start` before it, at a time. */
struct path_point {
	uint64_t ns;
	uint32_t task; /* TASK_NONE: nothing is known of what was before */
	bool at_start;
};

/*
 * Walks backwards from a point to start_ns, or until it comes behind a task of which leaves(user,
 * task) is true, and appends the pieces in between. *at becomes the point that it came to. 0 or
 * -ENOMEM.
 */
int path_walk(struct path *p, const struct causes *c, struct path_point *at, uint64_t start_ns,
	      bool (*leaves)(void *user, uint32_t task), void *user) MUST_USE;

/*
 * Finds for how long each task could take longer without anything ending later than end_ns; of a
 * call, until its return. Longer than UINT32_MAX ns is UINT32_MAX. NULL: no memory; else the caller
 * frees it.
 */
uint32_t *causes_slack(const struct causes *c, uint64_t end_ns) MUST_USE;

#endif
