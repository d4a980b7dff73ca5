/*
 * perf_ring.h: the ring that the kernel writes the records of perf events of one processor into,
 * and several of them read in order of time.
 *
 * The records stay in their rings until it is certain that no older one can come: the rings are the
 * buffer in which they are put in order.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_RING_H
#define PITOT_SAMPLER_PERF_PERF_RING_H

#include <stdbool.h>

#include "base/compiler.h"

struct perf_event_header;
struct perf_event_mmap_page;

/* Where a record's time is: from its start, or for all but samples from its end. */
struct perf_times {
	unsigned in_sample, from_end;
};

struct perf_ring {
	int fd; /* of the event that it was mapped for, which its owner closes */
	int cpu; /* processor */
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	uint64_t size; /* of data, a power of two */
	uint64_t head, tail; /* records between them have been seen */
	uint64_t time_ns; /* of the record at tail, if there is one */
	/* of the record before it; when the ring was mapped, if there was none */
	uint64_t dropped_ns;
};

/*
 * size: a power of two of at least a page. 0 or a negative errno: -EPERM when so much may not be
 * locked.
 */
int perf_ring_map(struct perf_ring *r, int fd, uint64_t size) MUST_USE;
void perf_ring_unmap(struct perf_ring *r);

#define PERF_RECORD_BYTES_MAX 65536u /* bytes of a record, whose size has 16 bits */

struct perf_rings {
	struct perf_ring *rings;
	unsigned count;
	struct perf_times times;
	uint8_t *scratch; /* PERF_RECORD_BYTES_MAX: a record that goes round the end of its ring */
	bool corrupt; /* a ring had a malformed record, and was emptied */
};

/* Reads how far the kernel has written. Returns whether a ring is more than half full. */
bool perf_rings_look(struct perf_rings *all);
/*
 * Returns the oldest record up to where perf_rings_look() read, if it is not younger than until_ns,
 * else NULL. It is valid until perf_rings_drop().
 */
const struct perf_event_header *perf_rings_next(struct perf_rings *all, uint64_t until_ns,
						struct perf_ring **ring);
/* Gives the record's memory back to the kernel. */
void perf_rings_drop(struct perf_rings *all, struct perf_ring *ring);

/*
 * A second reader of a ring, on a thread of its own, which gives no memory back: `at` is where it
 * is, 0 at first. Copies the next record, if there is one, into `out` (PERF_RECORD_BYTES_MAX) and
 * returns it; NULL: there is none, or the first reader was faster and its memory has been reused.
 */
const struct perf_event_header *perf_ring_copy(const struct perf_ring *r, uint64_t *at,
					       uint8_t *out);

#endif
