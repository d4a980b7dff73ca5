/*
 * perf_ring.h: the ring into which the operating system's kernel writes the perf event records of
 * one processor; reads several rings in order of time.
 *
 * Records stay in their rings until no older one can arrive: the rings are the buffer in which they
 * are sorted.
 */
#ifndef PITOT_SAMPLER_PERF_PERF_RING_H
#define PITOT_SAMPLER_PERF_PERF_RING_H

#include <stdbool.h>

#include "base/compiler.h"

struct perf_event_header;
struct perf_event_mmap_page;

/* Byte offset of a record's time: from the start in samples, from the end in all other records. */
struct perf_times {
	unsigned in_sample, from_end;
};

struct perf_ring {
	int fd; /* event that it was mapped for; not owned */
	int cpu;
	struct perf_event_mmap_page *page;
	const uint8_t *data;
	uint64_t size; /* of data, a power of two */
	uint64_t head, tail; /* the records between them are ready to be read */
	uint64_t time_ns; /* time of the record at tail, if there is one */
	/* time of the record before it; of mapping the ring, if there was none */
	uint64_t dropped_ns;
};

/* size: a power of two, at least a page. 0 or -errno; -EPERM: too much locked memory. */
int perf_ring_map(struct perf_ring *r, int fd, uint64_t size) MUST_USE;
void perf_ring_unmap(struct perf_ring *r);

#define PERF_RECORD_BYTES_MAX 65536u /* of a record, whose size has 16 bits */

struct perf_rings {
	struct perf_ring *rings;
	unsigned count;
	struct perf_times times;
	uint8_t *scratch; /* PERF_RECORD_BYTES_MAX bytes, for a record that wraps around the end */
	bool corrupt; /* a ring had a malformed record and was emptied */
};

/* Makes the records written so far readable. Returns whether a ring is more than half full. */
bool perf_rings_update(struct perf_rings *all);
/* Returns the oldest readable record up to until_ns, or NULL. Valid until perf_rings_drop(). */
const struct perf_event_header *perf_rings_next(struct perf_rings *all, uint64_t until_ns,
						struct perf_ring **ring);
/* Removes the record from its ring. */
void perf_rings_drop(struct perf_rings *all, struct perf_ring *ring);

/*
 * A second reader of a ring, on another thread, which removes nothing: `at` is its position, 0 at
 * first. Copies the next record into `out` (PERF_RECORD_BYTES_MAX bytes) and returns it; NULL:
 * there is none, or the first reader has removed it meanwhile.
 */
const struct perf_event_header *perf_ring_copy(const struct perf_ring *r, uint64_t *at,
					       uint8_t *out);

#endif
