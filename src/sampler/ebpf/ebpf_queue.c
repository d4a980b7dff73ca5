#include "sampler/ebpf/ebpf_queue.h"

#include <string.h>

#include "base/search.h"

void ebpf_queue_release(struct ebpf_queue *q)
{
	vec_release(&q->items);
	vec_release(&q->bytes);
}

void ebpf_queue_put(struct ebpf_queue *q, uint64_t time_ns, const void *bytes, size_t size)
{
	size_t room = (size + 7) & ~(size_t)7;
	struct ebpf_item item = { time_ns, q->order++, q->bytes.count, size };

	if (vec_reserve(&q->bytes, room) < 0 || vec_push(&q->items, item) < 0) {
		q->lost++;
		return;
	}
	memcpy(q->bytes.data + q->bytes.count, bytes, size);
	q->bytes.count += room;
}

ORDER(compare, struct ebpf_item, UP(time_ns) ?: UP(order))

/* Removes the first `count` items, and moves the others to the front. */
static void forget(struct ebpf_queue *q, size_t count)
{
	size_t left = q->items.count - count, at = 0;
	uint8_t *kept = NULL;

	for (size_t i = 0; i < left; i++)
		at += (q->items.data[count + i].size + 7) & ~(size_t)7;
	if (at)
		kept = malloc(at);
	if (at && !kept) {
		q->lost += left;
		left = 0;
	}
	at = 0;
	for (size_t i = 0; i < left; i++) {
		struct ebpf_item item = q->items.data[count + i];

		memcpy(kept + at, q->bytes.data + item.offset, item.size);
		item.offset = at;
		at += (item.size + 7) & ~(size_t)7;
		q->items.data[i] = item;
	}
	if (at)
		memcpy(q->bytes.data, kept, at);
	free(kept);
	q->items.count = left;
	q->bytes.count = at;
}

void ebpf_queue_drain(struct ebpf_queue *q, uint64_t until_ns, ebpf_queue_visit *visit,
		      void *context)
{
	size_t n = 0;

	vec_sort(&q->items, compare);
	for (; n < q->items.count && q->items.data[n].time_ns <= until_ns; n++)
		visit(context, &q->items.data[n], q->bytes.data + q->items.data[n].offset);
	forget(q, n);
}
