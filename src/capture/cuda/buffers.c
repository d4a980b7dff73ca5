#include "capture/cuda/buffers.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "base/clock.h"
#include "capture/collector.h"

enum { SLOT_UNMAPPED, SLOT_BUSY, SLOT_FREE, SLOT_WITH_CUPTI, SLOT_FULL };

static struct {
	atomic_uint state;
	uint8_t *bytes; /* valid while the state is not SLOT_UNMAPPED */
	size_t valid;
	uint64_t order; /* in which it became full */
} slots[BUFFERS_MAX];

static atomic_uint_fast64_t requests, refused, request_ns, order_next;
static atomic_uint in_use, full_count,
	used_slots; /* used_slots: those that were ever mapped are below it */
static unsigned high_water,
	high_water_last; /* the collector's: most in use in this period, in the last */
static uint64_t period_ns;

#define PERIOD_NS (10 * NS_PER_S) /* of the high-water mark */
#define DISCARD_BYTES (64u << 10)

/* Records for which there is no room: never read, written by any number of threads. */
static _Alignas(64) uint8_t discard[DISCARD_BYTES];

static bool change(unsigned i, unsigned from, unsigned to)
{
	return atomic_compare_exchange_strong(&slots[i].state, &from, to);
}

static bool map_slot(unsigned i)
{
	void *p = mmap(NULL, BUFFER_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		       0);

	if (p == MAP_FAILED)
		return false;
	slots[i].bytes = p;
	return true;
}

bool buffers_start(void)
{
	for (unsigned i = 0; i < BUFFERS_READY; i++) {
		if (!change(i, SLOT_UNMAPPED, SLOT_BUSY))
			continue;
		if (!map_slot(i)) {
			atomic_store(&slots[i].state, SLOT_UNMAPPED);
			return i > 0;
		}
		for (size_t at = 0; at < BUFFER_BYTES; at += 4096)
			((volatile uint8_t *)slots[i].bytes)[at] = 0;
		atomic_store(&slots[i].state, SLOT_FREE);
		atomic_store(&used_slots, i + 1);
	}
	return true;
}

static uint8_t *take_mapped(void)
{
	unsigned used = atomic_load(&used_slots);

	for (unsigned i = 0; i < used; i++)
		if (atomic_load_explicit(&slots[i].state, memory_order_relaxed) == SLOT_FREE &&
		    change(i, SLOT_FREE, SLOT_WITH_CUPTI))
			return slots[i].bytes;
	return NULL;
}

static uint8_t *take_new(void)
{
	for (unsigned i = atomic_load(&used_slots); i < BUFFERS_MAX; i++) {
		unsigned seen;

		if (!change(i, SLOT_UNMAPPED, SLOT_BUSY))
			continue;
		if (!map_slot(i)) {
			atomic_store(&slots[i].state, SLOT_UNMAPPED);
			return NULL;
		}
		atomic_store(&slots[i].state, SLOT_WITH_CUPTI);
		seen = atomic_load(&used_slots);
		while (seen <= i && !atomic_compare_exchange_weak(&used_slots, &seen, i + 1))
			;
		return slots[i].bytes;
	}
	return NULL;
}

static uint8_t *take_free(void)
{
	uint8_t *bytes = NULL;

	if (atomic_load(&full_count) < BUFFERS_FULL_MAX)
		bytes = take_mapped();
	if (!bytes && atomic_load(&full_count) < BUFFERS_FULL_MAX)
		bytes = take_new();
	if (bytes)
		atomic_fetch_add(&in_use, 1);
	return bytes;
}

void buffers_on_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	uint64_t start = clock_monotonic_ns();
	uint8_t *bytes = take_free();

	*buffer = bytes ? bytes : discard;
	*size = bytes ? BUFFER_BYTES : DISCARD_BYTES;
	*max_records = 0;
	atomic_fetch_add_explicit(bytes ? &requests : &refused, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&request_ns, clock_monotonic_ns() - start, memory_order_relaxed);
}

void buffers_on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	unsigned used = atomic_load(&used_slots);

	(void)context;
	(void)stream;
	(void)size;
	for (unsigned i = 0; i < used; i++) {
		if (atomic_load_explicit(&slots[i].state, memory_order_relaxed) !=
			    SLOT_WITH_CUPTI ||
		    slots[i].bytes != buffer)
			continue;
		slots[i].valid = MIN(valid, (size_t)BUFFER_BYTES);
		slots[i].order = atomic_fetch_add(&order_next, 1);
		atomic_fetch_add(&full_count, 1);
		atomic_store_explicit(&slots[i].state, SLOT_FULL, memory_order_release);
		collector_moved();
		if (atomic_load(&collector_idle))
			collector_wake();
		return;
	}
}

bool buffers_take_full(struct full_buffer *full)
{
	unsigned best = BUFFERS_MAX, used = atomic_load(&used_slots);

	for (unsigned i = 0; i < used; i++)
		if (atomic_load_explicit(&slots[i].state, memory_order_acquire) == SLOT_FULL &&
		    (best == BUFFERS_MAX || slots[i].order < slots[best].order))
			best = i;
	if (best == BUFFERS_MAX)
		return false;
	*full = (struct full_buffer){ slots[best].bytes, slots[best].valid, best };
	return true;
}

/* So many buffers keep their pages. */
static unsigned kept(unsigned now_in_use)
{
	uint64_t now = clock_monotonic_ns();

	if (now - period_ns >= PERIOD_NS) {
		period_ns = now;
		high_water_last = high_water;
		high_water = 0;
	}
	high_water = MAX(high_water, now_in_use);
	return MAX(MAX(high_water, high_water_last), BUFFERS_READY);
}

void buffers_give_back(const struct full_buffer *full)
{
	unsigned most = kept(atomic_fetch_sub(&in_use, 1));

	atomic_fetch_sub(&full_count, 1);
	if (full->slot < most || madvise(full->bytes, BUFFER_BYTES, MADV_DONTNEED) < 0)
		memset(full->bytes, 0, full->valid);
	atomic_store_explicit(&slots[full->slot].state, SLOT_FREE, memory_order_release);
}

void buffers_counts(struct buffer_counts *counts)
{
	counts->requests = atomic_load(&requests);
	counts->refused = atomic_load(&refused);
	counts->request_ns = atomic_load(&request_ns);
}

void buffers_after_fork(void)
{
	for (unsigned i = 0; i < BUFFERS_MAX; i++) {
		if (slots[i].bytes && atomic_load(&slots[i].state) != SLOT_UNMAPPED)
			munmap(slots[i].bytes, BUFFER_BYTES);
		slots[i].bytes = NULL;
		atomic_store(&slots[i].state, SLOT_UNMAPPED);
	}
	atomic_store(&in_use, 0);
	atomic_store(&full_count, 0);
	atomic_store(&used_slots, 0);
	high_water = high_water_last = 0;
}
