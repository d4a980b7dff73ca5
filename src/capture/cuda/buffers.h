/*
 * buffers.h: the memory that CUPTI writes its activity records into.
 *
 * Buffers go round: free -> with CUPTI -> full -> decoded, zeroed -> free. CUPTI asks for one on a
 * thread of the program (since 13.0 each thread has its own), so taking one is a pop from a
 * lock-free list; the first ones are touched beforehand. All memory is handed out zeroed, so that
 * CUPTI need not clear it there (CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER). Beyond as many
 * buffers as have lately been in use, pages go back to the kernel.
 *
 * CUPTI reserves records when work is launched, and hands a buffer over only when all of its
 * records have finished: what a SIGKILL costs is what a buffer holds. So buffers are as large as
 * what the GPU does in about BUFFER_WORK_NS: the first ones are small; each one that comes back
 * full and held less than half of that doubles the size of the next ones, one that held more than
 * twice that shrinks it. Of work that is launched in a burst, before any of it has finished,
 * nothing is known: it goes into small buffers, larger ones only beyond BUFFERS_AHEAD that are with
 * CUPTI or wait for the collector, so that their number stays bounded. When short kernels are
 * followed by long ones without a pause, the buffer that is open then is too large once.
 *
 * CUPTI asks for no minimum and no alignment beyond 8 bytes (its samples use 8 KiB and more): ours
 * are pages. A request costs the launching thread 1.5 to 4 us and CUPTI's worker 60 us (H200, CUPTI
 * 13.0, its own OVERHEAD records), and is itself one record in the new buffer and two in the
 * worker's: fewer than BUFFER_RECORDS_MIN records a buffer would beget buffers.
 *
 * Where BUFFERS_FULL_MAX wait for a collector that is held up, CUPTI gets buffers whose records
 * nobody reads, and the loss is counted: CUPTI up to 12.8 crashes when it gets none. No two that it
 * has are the same memory, as long as there are less than BUFFERS_MAX.
 */
#ifndef PITOT_CAPTURE_CUDA_BUFFERS_H
#define PITOT_CAPTURE_CUDA_BUFFERS_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/compiler.h"

#define BUFFER_BYTES (128u << 10) /* the largest; address space of each */
#define BUFFER_RECORD_BYTES 256u  /* room for one, of any kind */
#define BUFFER_RECORDS_MIN 8u	  /* also of the first ones */
#define BUFFER_WORK_NS (20 * NS_PER_MS)
/* 1,024 records: as many launches as a stream takes before it blocks */
#define BUFFERS_AHEAD 128u
#define BUFFERS_READY 8u	/* touched at the start */
#define BUFFERS_FULL_MAX 1536u	/* wait to be decoded: 192 MiB */
/* address space: since 13.0 each thread that launches has one */
#define BUFFERS_MAX (4096u + BUFFERS_FULL_MAX)

/* Reserves the address space and touches the first ones. false without memory. */
bool buffers_start(void);

/* CUPTI's two callbacks, with their signatures. */
void buffers_on_request(uint8_t **buffer, size_t *size, size_t *max_records);
void buffers_on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			 size_t valid);

/* Whether that is one of ours. Any thread. */
bool buffers_has(const uint8_t *buffer);

/*
 * Numbers of those that CUPTI has completed, and that were given back after decoding. Any thread.
 */
uint64_t buffers_completed(void);
uint64_t buffers_decoded(void);

struct full_buffer {
	uint8_t *bytes;
	size_t valid;
	unsigned slot;
};

/* When the latest buffer was completed; 0: none is full. Collector thread. */
uint64_t buffers_completed_ns(void);

/* Takes the oldest full buffer. false when there is none. Collector thread. */
bool buffers_take_full(struct full_buffer *full);
/*
 * Gives it back after decoding. It held `records` records; work_ns passed from the first start of
 * GPU work among them to the last end.
 */
void buffers_give_back(const struct full_buffer *full, uint64_t records, uint64_t work_ns);

struct buffer_counts {
	uint64_t requests, refused, request_ns;
};
/* Totals since the start. */
void buffers_counts(struct buffer_counts *counts);

/* In the child of a fork: none of them is with a CUPTI here. */
void buffers_after_fork(void);

#endif
