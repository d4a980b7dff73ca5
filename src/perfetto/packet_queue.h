/*
 * packet_queue.h: packets on their way from any thread to the producer's: a ring of bytes.
 *
 * Threads that add hold `lock`, for a copy's time; the thread that takes out needs no lock. A
 * packet may lie around the end of the ring, so it is copied out in pieces of any length.
 */
#ifndef PITOT_PERFETTO_PACKET_QUEUE_H
#define PITOT_PERFETTO_PACKET_QUEUE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/compiler.h"

struct packet_queue {
	pthread_mutex_t lock;
	uint8_t *bytes;
	size_t size; /* a power of two */
	atomic_size_t added, taken; /* bytes since the beginning */
};

struct queued_packet {
	uint32_t instance;
	uint32_t sequence; /* 0: no packet, but an answer of the instance */
	uint32_t length; /* of the packet, which follows */
};

/* 0 or -ENOMEM. */
int packet_queue_init(struct packet_queue *q, size_t size) MUST_USE;
void packet_queue_release(struct packet_queue *q);

static inline size_t packet_queue_used(const struct packet_queue *q)
{
	return atomic_load_explicit(&q->added, memory_order_acquire) -
	       atomic_load_explicit(&q->taken, memory_order_acquire);
}

/*
 * Adds head and packet, of which the last bytes are `end`. false: there would be less than
 * `reserve` bytes left. With q->lock.
 */
bool packet_queue_add(struct packet_queue *q, const struct queued_packet *head, const void *packet,
		      const void *end, size_t end_length, size_t reserve) MUST_USE;

/* Takes out the next `length` bytes, which must be there. */
void packet_queue_take(struct packet_queue *q, void *out, size_t length);
void packet_queue_skip(struct packet_queue *q, size_t length);

#endif
