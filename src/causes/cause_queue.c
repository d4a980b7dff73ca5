#include "causes/cause_queue.h"

#include <string.h>

#include "base/heap.h"

#define LEAST_DEPTH 64u /* shorter queues are not the driver's */
#define LEAST_CALLS 8u
#define TIMES_LONGER 4u

int queue_launch(struct cause_queue *q, uint64_t start_ns, uint32_t task)
{
	if (vec_push(&q->heap, ((struct queued){ start_ns, task })) < 0)
		return -ENOMEM;
	heap_up(q->heap.data, q->heap.count - 1, a, b, a->start_ns < b->start_ns);
	return 0;
}

bool queue_begin(struct cause_queue *q, uint64_t now_ns, struct queued *last)
{
	bool any = false;

	for (; q->heap.count && q->heap.data[0].start_ns <= now_ns; any = true) {
		*last = q->heap.data[0];
		q->heap.data[0] = q->heap.data[--q->heap.count];
		heap_down(q->heap.data, q->heap.count, 0, a, b, a->start_ns < b->start_ns);
	}
	return any;
}

void queue_count(struct cause_queue *q, uint64_t call_ns)
{
	struct queue_bucket *b = &q->buckets[MIN(q->heap.count / QUEUE_BUCKET, QUEUE_BUCKETS - 1)];

	q->most = MAX(q->most, q->heap.count);
	b->calls++;
	b->ns += call_ns;
}

static struct queue_bucket sum(const struct cause_queue *q, size_t from, size_t to)
{
	struct queue_bucket all = { 0 };

	for (size_t i = from / QUEUE_BUCKET; i <= to / QUEUE_BUCKET && i < QUEUE_BUCKETS; i++) {
		all.calls += q->buckets[i].calls;
		all.ns += q->buckets[i].ns;
	}
	return all;
}

void queue_learn(struct cause_queue *q)
{
	size_t full = q->most - q->most / QUEUE_BUCKET;
	struct queue_bucket at_full = sum(q, full, q->most), below = sum(q, 0, q->most / 2);

	q->full = 0;
	if (q->most >= LEAST_DEPTH && at_full.calls >= LEAST_CALLS && below.calls >= LEAST_CALLS &&
	    (double)at_full.ns / (double)at_full.calls >
		    TIMES_LONGER * (double)below.ns / (double)below.calls)
		q->full = full;
	q->heap.count = q->most = 0;
	memset(q->buckets, 0, sizeof(q->buckets));
}
