/*
 * ebpf_queue.h: records put in order of time. Processors write into one ring at the same time, so
 * what is taken from it may be a little older than what came before: records are held back until it
 * is certain that no older one can come.
 */
#ifndef PITOT_SAMPLER_EBPF_EBPF_QUEUE_H
#define PITOT_SAMPLER_EBPF_EBPF_QUEUE_H

#include <stdbool.h>

#include "base/vec.h"

struct ebpf_item {
	uint64_t time_ns;
	uint64_t order; /* in which it was put in: for equal times */
	size_t offset; /* in the bytes */
	size_t size;
};

struct ebpf_queue {
	VEC(struct ebpf_item) items;
	VEC(uint8_t) bytes;
	uint64_t order;
	uint64_t lost; /* for want of memory */
};

void ebpf_queue_release(struct ebpf_queue *q);
void ebpf_queue_put(struct ebpf_queue *q, uint64_t time_ns, const void *bytes, size_t size);

/* The bytes are aligned to 8. */
typedef void ebpf_queue_take(void *context, const struct ebpf_item *item, const void *bytes);
/* Hands over what is not later than `until_ns`, in order of time. */
void ebpf_queue_drain(struct ebpf_queue *q, uint64_t until_ns, ebpf_queue_take *take,
		      void *context);

#endif
