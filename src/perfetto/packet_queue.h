/*
 * packet_queue.h: a byte ring that carries packets from any thread to the producer's thread.
 *
 * Adding threads hold `lock` while they copy; the removing thread needs no lock. A packet may wrap
 * around the end of the ring, so it can be removed in pieces of any length.
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
	atomic_size_t added, removed; /* total bytes since the beginning */
};

struct queued_packet {
	uint32_t instance;
	uint32_t sequence; /* 0: not a packet but the instance's answer */
	uint32_t length; /* of the packet that follows */
};

/* Returns 0 or -ENOMEM. */
int packet_queue_init(struct packet_queue *q, size_t size) MUST_USE;
void packet_queue_release(struct packet_queue *q);

static inline size_t packet_queue_used(const struct packet_queue *q)
{
	return atomic_load_explicit(&q->added, memory_order_acquire) -
	       atomic_load_explicit(&q->removed, memory_order_acquire);
}

/*
 * Adds head and packet; `end` is appended to the packet. Returns false if fewer than `reserve`
 * bytes would remain free. The caller holds q->lock.
 */
bool packet_queue_add(struct packet_queue *q, const struct queued_packet *head, const void *packet,
		      const void *end, size_t end_length, size_t reserve) MUST_USE;

/* Remove the next `length` bytes, which the queue must contain. */
void packet_queue_remove(struct packet_queue *q, void *out, size_t length);
void packet_queue_skip(struct packet_queue *q, size_t length);

#endif
