#include "rules/fact_queue.h"

#include <string.h>

#include "base/heap.h"
#include "base/search.h"

#define GAPS_MIN 4096u /* fewer are not worth a move of the array */

#define RUN_BEFORE(a, b)                                                                           \
	((a)->time_ns < (b)->time_ns || ((a)->time_ns == (b)->time_ns && (a)->at < (b)->at))

static int close_run(struct fact_queue *q)
{
	if (q->open.at == q->open.end)
		return 0;
	if (vec_push(&q->runs, q->open) < 0)
		return -ENOMEM;
	heap_up(q->runs.data, q->runs.count - 1, a, b, RUN_BEFORE(a, b));
	q->open.at = q->open.end;
	return 0;
}

void fact_queue_add(struct fact_queue *q, const struct fact *fact)
{
	size_t end = q->facts.count;

	if (q->waiting >= FACTS_MAX || vec_reserve(&q->facts, 1) < 0) {
		q->forgotten++;
		return;
	}
	if (q->open.at == q->open.end || fact->time_ns < q->facts.data[end - 1].time_ns) {
		if (close_run(q) < 0)
			return;
		q->open = (struct fact_run){ fact->time_ns, end, end };
	}
	q->facts.data[q->facts.count++] = *fact;
	q->open.end++;
	q->waiting++;
}

ORDER(by_place, struct fact_run, UP(at))

/* Moves the facts together, in their order. */
static void close_gaps(struct fact_queue *q)
{
	size_t kept = 0;

	vec_sort(&q->runs, by_place);
	for (size_t i = 0; i < q->runs.count; i++) {
		struct fact_run *run = &q->runs.data[i];
		size_t length = run->end - run->at;

		memmove(q->facts.data + kept, q->facts.data + run->at,
			length * sizeof(*q->facts.data));
		run->at = kept;
		run->end = kept += length;
	}
	q->facts.count = kept;
	for (size_t i = 1; i < q->runs.count; i++)
		heap_up(q->runs.data, i, a, b, RUN_BEFORE(a, b));
}

bool fact_queue_take(struct fact_queue *q, uint64_t until_ns, struct fact *out)
{
	struct fact_run *first;

	if (close_run(q) < 0 || !q->runs.count || q->runs.data[0].time_ns > until_ns) {
		if (q->open.at == q->open.end &&
		    q->facts.count - q->waiting > q->waiting + GAPS_MIN)
			close_gaps(q);
		return false;
	}
	first = &q->runs.data[0];
	*out = q->facts.data[first->at++];
	q->waiting--;
	if (first->at < first->end)
		first->time_ns = q->facts.data[first->at].time_ns;
	else
		*first = q->runs.data[--q->runs.count];
	heap_down(q->runs.data, q->runs.count, 0, a, b, RUN_BEFORE(a, b));
	return true;
}

void fact_queue_release(struct fact_queue *q)
{
	vec_release(&q->facts);
	vec_release(&q->runs);
	*q = (struct fact_queue){ .waiting = 0 };
}
