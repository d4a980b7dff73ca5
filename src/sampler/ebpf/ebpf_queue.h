/*
 * ebpf_queue.h: puts records in order of time. All processors write into one ring concurrently, so
 * a record may be slightly older than the one before it: records are queued until no older one can
 * arrive.
 */
#ifndef PITOT_SAMPLER_EBPF_EBPF_QUEUE_H
#define PITOT_SAMPLER_EBPF_EBPF_QUEUE_H

#include <stdbool.h>

#include "base/vec.h"

struct ebpf_item {
	uint64_t time_ns;
	uint64_t order; /* sequence number, which orders records of equal time */
	size_t offset; /* in ebpf_queue.bytes */
	size_t size;
};

struct ebpf_queue {
	VEC(struct ebpf_item) items;
	VEC(uint8_t) bytes;
	uint64_t order;
	uint64_t lost; /* records dropped because there was no memory */
};

void ebpf_queue_release(struct ebpf_queue *q);
void ebpf_queue_put(struct ebpf_queue *q, uint64_t time_ns, const void *bytes, size_t size);

/* `bytes` is aligned to 8. */
typedef void ebpf_queue_visit(void *context, const struct ebpf_item *item, const void *bytes);
/* Calls `visit` for the records up to `until_ns`, in order of time, and removes them. */
void ebpf_queue_drain(struct ebpf_queue *q, uint64_t until_ns, ebpf_queue_visit *visit,
		      void *context);

#endif
