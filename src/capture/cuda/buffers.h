/*
 * buffers.h: the memory that CUPTI writes its activity records into.
 *
 * Buffers go round: FREE -> with CUPTI -> FULL -> decoded, zeroed -> FREE. CUPTI asks for one on a thread of the target (and may
 * keep one for each thread), so taking one is a scan over a few words; the first ones are mapped and touched beforehand. All
 * memory is handed out zeroed, so that CUPTI need not clear it there (CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER). A mapped
 * buffer stays mapped; beyond as many as have lately been in use, its pages go back to the kernel.
 *
 * Where BUFFERS_FULL_MAX wait for a disk that stalls, CUPTI gets a buffer whose records nobody reads, and the loss is counted:
 * CUPTI up to 12.8 crashes when it gets none.
 */
#ifndef PITOT_CAPTURE_CUDA_BUFFERS_H
#define PITOT_CAPTURE_CUDA_BUFFERS_H

#include <stdbool.h>

#include "base/compiler.h"

#define BUFFER_BYTES (1u << 20)
#define BUFFERS_READY 2u	/* mapped and touched at the start */
#define BUFFERS_FULL_MAX 192u	/* wait to be decoded */
#define BUFFERS_MAX (1024u + BUFFERS_FULL_MAX) /* one for each thread that has a ring */

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
