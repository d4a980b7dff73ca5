#include "perfetto/packet_queue.h"

#include <errno.h>
#include <string.h>

int packet_queue_init(struct packet_queue *q, size_t size)
{
	*q = (struct packet_queue){ .size = size, .bytes = malloc(size) };
	pthread_mutex_init(&q->lock, NULL);
	return q->bytes ? 0 : -ENOMEM;
}

void packet_queue_release(struct packet_queue *q)
{
	pthread_mutex_destroy(&q->lock);
	free(q->bytes);
}

static void copy_in(struct packet_queue *q, size_t position, const void *bytes, size_t length)
{
	size_t at = position & (q->size - 1), first = MIN(length, q->size - at);

	if (!length)
		return;
	memcpy(q->bytes + at, bytes, first);
	memcpy(q->bytes, (const uint8_t *)bytes + first, length - first);
}

bool packet_queue_add(struct packet_queue *q, const struct queued_packet *head, const void *packet,
		      const void *end, size_t end_length, size_t reserve)
{
	size_t position = atomic_load_explicit(&q->added, memory_order_relaxed);
	size_t length = sizeof(*head) + head->length, left = q->size - packet_queue_used(q);

	if (left < length || left - length < reserve)
		return false;
	copy_in(q, position, head, sizeof(*head));
	copy_in(q, position + sizeof(*head), packet, head->length - end_length);
	copy_in(q, position + length - end_length, end, end_length);
	atomic_store_explicit(&q->added, position + length, memory_order_release);
	return true;
}

void packet_queue_remove(struct packet_queue *q, void *out, size_t length)
{
	size_t position = atomic_load_explicit(&q->removed, memory_order_relaxed);
	size_t at = position & (q->size - 1), first = MIN(length, q->size - at);

	memcpy(out, q->bytes + at, first);
	memcpy((uint8_t *)out + first, q->bytes, length - first);
	packet_queue_skip(q, length);
}

void packet_queue_skip(struct packet_queue *q, size_t length)
{
	atomic_fetch_add_explicit(&q->removed, length, memory_order_release);
}
