/*
 * buffers.h: the memory that CUPTI writes its activity records into.
 *
 * The life of a buffer is: free -> with CUPTI -> full -> decoded and zeroed -> free. CUPTI requests
 * a buffer on a thread of the program (since 13.0 each thread has its own), so a request pops it
 * from a lock-free list; the first buffers' pages are touched beforehand. Memory is zeroed before
 * it is lent, so that CUPTI need not do so (CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER).
 *
 * CUPTI reserves records when work is launched, and hands a buffer over only when all its records
 * have finished, so a SIGKILL loses what one buffer holds. Therefore a buffer should hold the work
 * that the GPU does in about BUFFER_WORK_NS. The first buffers are small; a full buffer that comes
 * back with less than half of that work doubles the size of the next ones, one with more than twice
 * that work shrinks it. The duration of work that is launched in a burst, before any of it has
 * finished, is unknown: it goes into small buffers, and into larger ones only when more than
 * BUFFERS_AHEAD are with CUPTI or waiting for the collector, so that their number stays bounded.
 * When short kernels are directly followed by long ones, the buffer open at that moment is too
 * large, once.
 *
 * CUPTI requires no minimum size, and alignment to 8 bytes only (its samples use 8 KiB and more);
 * our buffers are aligned to pages. A request costs the launching thread 1.5 to 4 us and CUPTI's
 * worker 60 us (H200, CUPTI 13.0, by its own OVERHEAD records), and adds one record to the new
 * buffer and two to the worker's: with fewer than BUFFER_RECORDS_MIN records each, buffers would
 * cause further buffers.
 *
 * While BUFFERS_FULL_MAX buffers wait for a delayed collector, CUPTI gets buffers whose records are
 * not read, and the loss is counted: CUPTI up to 12.8 crashes if it gets none. No two buffers that
 * it has are the same memory, as long as it has fewer than BUFFERS_MAX.
 */
#ifndef PITOT_CAPTURE_CUDA_BUFFERS_H
#define PITOT_CAPTURE_CUDA_BUFFERS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/compiler.h"

#define BUFFER_BYTES (128u << 10) /* the largest size, and the address space of each buffer */
#define BUFFER_RECORD_BYTES 256u  /* room for one record of any kind */
#define BUFFER_RECORDS_MIN 8u	  /* also the first buffers' size */
#define BUFFER_WORK_NS (20 * NS_PER_MS)
/* 1,024 records: as many launches as a stream accepts before it blocks */
#define BUFFERS_AHEAD 128u
#define BUFFERS_READY 8u	/* touched at the start */
#define BUFFERS_FULL_MAX 1536u	/* waiting to be decoded: 192 MiB */
/* limits the address space: since 13.0 each thread that launches has a buffer */
#define BUFFERS_MAX (4096u + BUFFERS_FULL_MAX)

/* Whether a buffer has records that are no rows yet; in memory that outlives the process. */
struct buffer_slot {
	atomic_uint next;
	/* bytes rather than bool, which must not have other values than 0 and 1 */
	atomic_uchar is_out; /* lent to CUPTI */
	atomic_uchar is_full; /* completed by CUPTI, and not decoded yet */
	uint8_t is_unread; /* lent while too many were waiting: its records are not decoded */
	unsigned records_max; /* as told to CUPTI; 0: as many as fit */
	size_t size, valid;
};

/* Reserves the address space and touches the first buffers. Returns false without memory. */
bool buffers_start(void);

/* CUPTI's two callbacks, with their signatures. */
void buffers_on_request(uint8_t **buffer, size_t *size, size_t *max_records);
void buffers_on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size,
			 size_t valid);

/* Whether `buffer` is one of ours. Any thread. */
bool buffers_has(const uint8_t *buffer);

/* How many buffers CUPTI has completed, and how many were given back after decoding. Any thread. */
uint64_t buffers_completed(void);
uint64_t buffers_decoded(void);

struct full_buffer {
	uint8_t *bytes;
	size_t valid;
	unsigned slot;
};

/* When the latest buffer was completed; 0: no buffer is full. Collector thread. */
uint64_t buffers_completed_ns(void);

/* Takes the oldest full buffer. Returns false if there is none. Collector thread. */
bool buffers_take_full(struct full_buffer *full);
/*
 * Gives a buffer back after decoding. It held `records` records; work_ns passed from the first
 * start of its GPU work to the last end.
 */
void buffers_give_back(const struct full_buffer *full, uint64_t records, uint64_t work_ns);

struct buffer_counts {
	uint64_t requests, refused, request_ns;
};
/* Totals since the start. */
void buffers_counts(struct buffer_counts *counts);

/* Called in the child of a fork, where CUPTI holds no buffers. */
void buffers_after_fork(void);

#endif
