/*
 * cause_queue.h: the queue of launches that have not begun on the GPU. If it is full, a launching
 * call returns only when the first of them begins. Its depth is not documented; it is learnt: calls
 * that return with nearly the largest number in the queue take several times as long as those with
 * less than half of it.
 */
#ifndef PITOT_CAUSES_CAUSE_QUEUE_H
#define PITOT_CAUSES_CAUSE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

#define QUEUE_BUCKETS 4096u
#define QUEUE_BUCKET 16u /* launches */

struct queued {
	uint64_t start_ns;
	uint32_t task;
};

struct cause_queue {
	VEC(struct queued) heap; /* by start */
	size_t most; /* that were in the queue when a call returned */
	size_t full; /* calls that return with at least so many wait for it; 0: none do */
	struct queue_bucket {
		uint64_t calls, ns;
	} buckets[QUEUE_BUCKETS]; /* of calls, by the length of the queue at their return */
};

/* 0 or -ENOMEM. */
int queue_launch(struct cause_queue *q, uint64_t start_ns, uint32_t task);
/* Drops what has begun by then. Returns the last of it in *last; false: nothing had. */
bool queue_begin(struct cause_queue *q, uint64_t now_ns, struct queued *last);
/* Counts a launching call that returns now. */
void queue_count(struct cause_queue *q, uint64_t call_ns);
/* Decides from the calls counted whether and when the queue is full; empties it. */
void queue_learn(struct cause_queue *q);

#endif
