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
	}
	return true;
}

static uint8_t *take_free(void)
{
	for (unsigned i = 0; i < BUFFERS_MAX; i++)
		if (atomic_load_explicit(&slots[i].state, memory_order_relaxed) == SLOT_FREE &&
		    change(i, SLOT_FREE, SLOT_WITH_CUPTI))
			return slots[i].bytes;
	for (unsigned i = 0; i < BUFFERS_MAX; i++) {
		if (!change(i, SLOT_UNMAPPED, SLOT_BUSY))
			continue;
		if (!map_slot(i)) {
			atomic_store(&slots[i].state, SLOT_UNMAPPED);
			return NULL;
		}
		atomic_store(&slots[i].state, SLOT_WITH_CUPTI);
		return slots[i].bytes;
	}
	return NULL;
}

void buffers_on_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	uint64_t start = clock_monotonic_ns();

	*buffer = take_free();
	*size = *buffer ? BUFFER_BYTES : 0;
	*max_records = 0;
	atomic_fetch_add_explicit(*buffer ? &requests : &refused, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&request_ns, clock_monotonic_ns() - start, memory_order_relaxed);
}

void buffers_on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	(void)context;
	(void)stream;
	(void)size;
	for (unsigned i = 0; i < BUFFERS_MAX; i++) {
		if (atomic_load_explicit(&slots[i].state, memory_order_relaxed) !=
			    SLOT_WITH_CUPTI ||
		    slots[i].bytes != buffer)
			continue;
		slots[i].valid = MIN(valid, (size_t)BUFFER_BYTES);
		slots[i].order = atomic_fetch_add(&order_next, 1);
		atomic_store_explicit(&slots[i].state, SLOT_FULL, memory_order_release);
		collector_moved();
		return;
	}
}

bool buffers_take_full(struct full_buffer *full)
{
	unsigned best = BUFFERS_MAX;

	for (unsigned i = 0; i < BUFFERS_MAX; i++)
		if (atomic_load_explicit(&slots[i].state, memory_order_acquire) == SLOT_FULL &&
		    (best == BUFFERS_MAX || slots[i].order < slots[best].order))
			best = i;
	if (best == BUFFERS_MAX)
		return false;
	*full = (struct full_buffer){ slots[best].bytes, slots[best].valid, best };
	return true;
}

void buffers_give_back(const struct full_buffer *full)
{
	if (full->slot < BUFFERS_KEPT) {
		memset(full->bytes, 0, full->valid);
		atomic_store_explicit(&slots[full->slot].state, SLOT_FREE, memory_order_release);
		return;
	}
	munmap(full->bytes, BUFFER_BYTES);
	atomic_store_explicit(&slots[full->slot].state, SLOT_UNMAPPED, memory_order_release);
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
}
