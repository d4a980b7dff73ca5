/*
 * fact_queue.h: facts that wait for their time. They come block by block, each nearly in the order
 * of time, so the queue is a heap of sorted runs: facts never move while they wait.
 */
#ifndef PITOT_RULES_FACT_QUEUE_H
#define PITOT_RULES_FACT_QUEUE_H

#include "base/vec.h"
#include "rules/rule_watch.h"

/* Rows may claim any time: without a limit memory would grow. */
#define FACTS_MAX ((size_t)256 << 10)

/* Facts from `at` to `end`, none earlier than the one before it. */
struct fact_run {
	uint64_t time_ns; /* of the first one */
	size_t at, end;
};

/* All zeros: empty. */
struct fact_queue {
	VEC(struct fact) facts; /* as they came, with gaps where facts have been taken */
	VEC(struct fact_run) runs; /* heap */
	struct fact_run open; /* the run that grows; it is not in the heap */
	size_t waiting;
	uint64_t forgotten;
};

/* Without room or memory the fact is forgotten. */
void fact_queue_add(struct fact_queue *q, const struct fact *fact);
/*
 * Removes the earliest fact if its time is at most until_ns; of one time, the one that came first.
 * False: there is none.
 */
bool fact_queue_take(struct fact_queue *q, uint64_t until_ns, struct fact *out);
void fact_queue_release(struct fact_queue *q);

#endif
