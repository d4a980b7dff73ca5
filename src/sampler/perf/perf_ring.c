#include "sampler/perf/perf_ring.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"

int perf_ring_map(struct perf_ring *r, int fd, uint64_t size)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	void *p = mmap(NULL, page + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	*r = (struct perf_ring){
		.fd = fd,
		.cpu = r->cpu,
		.page = p,
		.data = (const uint8_t *)p + page,
		.size = size,
		.dropped_ns = clock_monotonic_ns(),
	};
	return 0;
}

void perf_ring_unmap(struct perf_ring *r)
{
	if (r->page)
		munmap(r->page, (size_t)(r->data - (const uint8_t *)r->page) + r->size);
	r->page = NULL;
}

/* Returns a word of the ring. Offsets are multiples of 8, so no word wraps around the end. */
static uint64_t word_at(const struct perf_ring *r, uint64_t at)
{
	return load_u64(r->data + (at & (r->size - 1)));
}

/* The header's word: type (32 bits), misc (16), size (16). */
static unsigned record_size(uint64_t word)
{
	return (unsigned)(word >> 48);
}

static void forget_all(struct perf_rings *all, struct perf_ring *r)
{
	all->corrupt = true;
	r->tail = r->head;
	__atomic_store_n(&r->page->data_tail, r->tail, __ATOMIC_RELEASE);
}

/* Reads the time of the record at the tail. */
static void read_time(struct perf_rings *all, struct perf_ring *r)
{
	unsigned size, at;
	uint64_t word;

	if (r->tail == r->head)
		return;
	word = word_at(r, r->tail);
	size = record_size(word);
	at = (uint32_t)word == PERF_RECORD_SAMPLE ? all->times.in_sample
						  : size - all->times.from_end;
	if (size < 8 + all->times.from_end || size % 8 || size > r->head - r->tail ||
	    at > size - 8) {
		forget_all(all, r);
		return;
	}
	r->time_ns = word_at(r, r->tail + at);
}

bool perf_rings_update(struct perf_rings *all)
{
	bool ring_nearly_full = false;

	for (unsigned i = 0; i < all->count; i++) {
		struct perf_ring *r = &all->rings[i];
		uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
		bool was_empty = r->head == r->tail;

		if (head - r->tail > r->size) {
			r->head = head;
			forget_all(all, r);
			continue;
		}
		r->head = head;
		if (was_empty)
			read_time(all, r);
		ring_nearly_full |= r->head - r->tail > r->size / 2;
	}
	return ring_nearly_full;
}

/* Returns the record at the tail as contiguous memory. */
static const struct perf_event_header *record_at(struct perf_rings *all, const struct perf_ring *r)
{
	uint64_t at = r->tail & (r->size - 1);
	unsigned size = record_size(word_at(r, r->tail));

	if (at + size <= r->size)
		return (const struct perf_event_header *)(r->data + at);
	memcpy(all->scratch, r->data + at, r->size - at);
	memcpy(all->scratch + (r->size - at), r->data, size - (r->size - at));
	return (const struct perf_event_header *)all->scratch;
}
_Static_assert(PERF_RECORD_BYTES_MAX > UINT16_MAX, "any record fits");

static void copy_bytes(const struct perf_ring *r, uint64_t at, uint8_t *out, size_t size)
{
	size_t offset = at & (r->size - 1), first = MIN(size, r->size - offset);

	memcpy(out, r->data + offset, first);
	memcpy(out + first, r->data, size - first);
}

const struct perf_event_header *perf_ring_copy(const struct perf_ring *r, uint64_t *at,
					       uint8_t *out)
{
	uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t start = MAX(*at, __atomic_load_n(&r->page->data_tail, __ATOMIC_ACQUIRE)), word;
	size_t size;

	*at = head;
	if (head - start < 8 || head - start > r->size)
		return NULL;
	word = word_at(r, start);
	size = record_size(word);
	if (size < 8 || size % 8 || size > head - start)
		return NULL;
	copy_bytes(r, start, out, size);
	/*
	 * The copy is valid only if the first reader has not removed the record meanwhile: its
	 * loads must come before that of the tail.
	 */
	atomic_thread_fence(memory_order_acquire);
	if (__atomic_load_n(&r->page->data_tail, __ATOMIC_RELAXED) > start)
		return NULL;
	*at = start + size;
	return (const struct perf_event_header *)out;
}

const struct perf_event_header *perf_rings_next(struct perf_rings *all, uint64_t until_ns,
						struct perf_ring **ring)
{
	struct perf_ring *first = NULL;

	for (unsigned i = 0; i < all->count; i++) {
		struct perf_ring *r = &all->rings[i];

		if (r->head != r->tail && (!first || r->time_ns < first->time_ns))
			first = r;
	}
	if (!first || first->time_ns > until_ns)
		return NULL;
	*ring = first;
	return record_at(all, first);
}

void perf_rings_drop(struct perf_rings *all, struct perf_ring *ring)
{
	ring->dropped_ns = ring->time_ns;
	ring->tail += record_size(word_at(ring, ring->tail));
	__atomic_store_n(&ring->page->data_tail, ring->tail, __ATOMIC_RELEASE);
	read_time(all, ring);
}
