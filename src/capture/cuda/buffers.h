/*
 * buffers.h: the memory that CUPTI writes its activity records into.
 *
 * A fixed set of buffers goes round: FREE -> with CUPTI -> FULL -> decoded, zeroed -> FREE. CUPTI asks for one on a thread
 * of the target, so taking one is a scan over a few words without lock or system call; the first ones are mapped and
 * touched beforehand. All memory is handed out zeroed, so that CUPTI need not clear it there
 * (CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER). Beyond BUFFERS_KEPT buffers are unmapped again after use; beyond
 * BUFFERS_MAX the request is refused and counted.
 */
#ifndef PITOT_CAPTURE_CUDA_BUFFERS_H
#define PITOT_CAPTURE_CUDA_BUFFERS_H

#include <stdbool.h>

#include "base/compiler.h"

#define BUFFER_BYTES (1u << 20)
#define BUFFERS_READY 2u	/* mapped and touched at the start */
#define BUFFERS_KEPT 6u	/* stay mapped: 6 MiB */
#define BUFFERS_MAX 192u

/* Maps the first ones. false without memory. */
bool buffers_start(void);

/* CUPTI's two callbacks, with their signatures. */
void buffers_on_request(uint8_t **buffer, size_t *size, size_t *max_records);
void buffers_on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid);

struct full_buffer {
	uint8_t *bytes;
	size_t valid;
	unsigned slot;
};

/* Takes the oldest full buffer. false when there is none. Collector thread. */
bool buffers_take_full(struct full_buffer *full);
/* Gives it back after decoding. */
void buffers_give_back(const struct full_buffer *full);

struct buffer_counts {
	uint64_t requests, refused, request_ns;
};
/* Totals since the start. */
void buffers_counts(struct buffer_counts *counts);

/* In the child of a fork: none of them is with a CUPTI here. */
void buffers_after_fork(void);

#endif
