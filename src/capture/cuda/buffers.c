#include "capture/cuda/buffers.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

#include "capture/core/collector.h"
#include "capture/core/shared_area.h"

#define PERIOD_NS (10 * NS_PER_S) /* of the high-water marks */
#define DISCARD_BYTES (64u << 10)
#define SIZE_MIN 4096u
#define REGION_BYTES ((size_t)BUFFERS_MAX * BUFFER_BYTES)
#define WAKE_AT (BUFFERS_READY / 2) /* waiting buffers at which the collector is woken */
#define AHEAD_DOUBLES 16u /* number of buffers beyond BUFFERS_AHEAD after which size doubles */

static struct buffer_slot own_slots[BUFFERS_MAX + 1]; /* [0] is none */
static struct buffer_slot *slots = own_slots; /* or the area's, as region */

/*
 * The first slot of a list (0: none) in the low half, the number of the list's changes in the high
 * half: a list that lost and regained its first slot thus compares as different (ABA).
 */
typedef atomic_uint_fast64_t list;

static uint8_t *region; /* of all slots */
static list warm, cold, full; /* free with pages, free without; full: latest first */
static atomic_uint warm_count, fresh; /* fresh: the first slot that was never used */
static atomic_uint with_cupti, waiting; /* waiting: completed, not yet given back */
static unsigned in_order; /* the collector's: full slots, oldest first, linked by `next` */
static atomic_uint next_records; /* size of the next buffers, unless many are ahead */
static atomic_uint_fast64_t completed, decoded, requests, refused, request_ns, completed_ns;
/* the collector's: most buffers in use in this period and in the last one */
static unsigned high_water, high_water_last;
static uint64_t period_ns;

/*
 * Lent when no slot is left; never read. CUPTI may then hold it several times, which can crash it;
 * but NULL certainly crashes CUPTI up to 12.8.
 */
static _Alignas(64) uint8_t discard[DISCARD_BYTES];

static uint64_t changed(uint64_t head, unsigned first)
{
	return ((head >> 32) + 1) << 32 | first;
}

static void push(list *l, unsigned slot)
{
	uint64_t head = atomic_load(l);

	do
		atomic_store(&slots[slot].next, (uint32_t)head);
	while (!atomic_compare_exchange_weak(l, &head, changed(head, slot)));
}

static unsigned pop(list *l)
{
	uint64_t head = atomic_load(l);

	while ((uint32_t)head &&
	       !atomic_compare_exchange_weak(
		       l, &head, changed(head, atomic_load(&slots[(uint32_t)head].next))))
		;
	return (uint32_t)head;
}

static void push_warm(unsigned slot)
{
	atomic_fetch_add(&warm_count, 1);
	push(&warm, slot);
}

static unsigned pop_warm(void)
{
	unsigned slot = pop(&warm);

	if (slot)
		atomic_fetch_sub(&warm_count, 1);
	return slot;
}

static uint8_t *bytes_of(unsigned slot)
{
	return region + (size_t)(slot - 1) * BUFFER_BYTES;
}

/*
 * Several threads may make the pages of one slot usable, and one of them gets the slot. Without
 * memory for the pages the slot stays fresh.
 */
static unsigned reserve_fresh(void)
{
	unsigned slot = atomic_load(&fresh);

	do
		if (slot == BUFFERS_MAX ||
		    mprotect(bytes_of(slot + 1), BUFFER_BYTES, PROT_READ | PROT_WRITE) < 0)
			return 0;
	while (!atomic_compare_exchange_weak(&fresh, &slot, slot + 1));
	return slot + 1;
}

static bool reserve_region(void)
{
	void *p = shared_area_part(AREA_BUFFERS);

	_Static_assert(sizeof(own_slots) <= 1 << 20 && REGION_BYTES <= 768 << 20,
		       "the area has room for all");
	shared_area_head->slot_bytes = sizeof(*slots);
	slots = p ? shared_area_part(AREA_SLOTS) : own_slots;
	if (!p)
		p = mmap(NULL, REGION_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			 -1, 0);
	region = p == MAP_FAILED ? NULL : p;
	return region;
}

bool buffers_start(void)
{
	if (!region && !reserve_region())
		return false;
	atomic_store(&next_records, BUFFER_RECORDS_MIN);
	while (atomic_load(&fresh) < BUFFERS_READY) {
		unsigned slot = reserve_fresh();

		if (!slot)
			return false;
		for (size_t at = 0; at < BUFFER_BYTES; at += 4096)
			((volatile uint8_t *)bytes_of(slot))[at] = 0;
		push_warm(slot);
	}
	return true;
}

static unsigned pop_free(void)
{
	unsigned slot = pop_warm();

	if (!slot)
		slot = pop(&cold);
	return slot ? slot : reserve_fresh();
}

/* `ahead`: number of buffers that were lent and are not decoded yet. */
static unsigned next_buffer_records(unsigned ahead)
{
	unsigned records = atomic_load_explicit(&next_records, memory_order_relaxed);
	unsigned most = BUFFER_BYTES / BUFFER_RECORD_BYTES;

	for (; ahead > BUFFERS_AHEAD && records < most; ahead -= MIN(ahead, AHEAD_DOUBLES))
		records *= 2;
	return MIN(records, most);
}

void buffers_on_request(uint8_t **buffer, size_t *size, size_t *max_records)
{
	uint64_t start = clock_monotonic_ns();
	unsigned slot = pop_free(), behind = atomic_load(&waiting), records;
	bool is_read = slot && behind < BUFFERS_FULL_MAX;

	*buffer = discard;
	*size = DISCARD_BYTES;
	*max_records = 0;
	if (slot) {
		records = next_buffer_records(atomic_fetch_add(&with_cupti, 1) + behind);
		slots[slot].size = MAX(records * BUFFER_RECORD_BYTES, SIZE_MIN);
		slots[slot].records_max = records * BUFFER_RECORD_BYTES < SIZE_MIN ? records : 0;
		slots[slot].is_unread = !is_read;
		atomic_store(&slots[slot].is_out, true);
		*buffer = bytes_of(slot);
		*size = slots[slot].size;
		*max_records = slots[slot].records_max;
	}
	atomic_fetch_add_explicit(is_read ? &requests : &refused, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&request_ns, clock_monotonic_ns() - start, memory_order_relaxed);
}

bool buffers_has(const uint8_t *buffer)
{
	return region && buffer >= region && buffer < region + REGION_BYTES;
}

void buffers_on_complete(void *context, uint32_t stream, uint8_t *buffer, size_t size, size_t valid)
{
	unsigned slot, behind;

	(void)context;
	(void)stream;
	(void)size;
	if (!buffers_has(buffer))
		return;
	slot = (unsigned)((size_t)(buffer - region) / BUFFER_BYTES) + 1;
	if (buffer != bytes_of(slot) || !atomic_load(&slots[slot].is_out))
		return;
	/* First: at any moment one of the two says that the buffer has records. */
	atomic_store(&slots[slot].is_full, true);
	if (!atomic_exchange(&slots[slot].is_out, false))
		return;
	slots[slot].valid = MIN(valid, slots[slot].size);
	atomic_fetch_sub(&with_cupti, 1);
	if (slots[slot].is_unread) {
		atomic_store(&slots[slot].is_full, false);
		memset(bytes_of(slot), 0, slots[slot].size);
		push_warm(slot);
		return;
	}
	behind = atomic_fetch_add(&waiting, 1);
	atomic_fetch_add(&completed, 1);
	atomic_store(&completed_ns, clock_monotonic_ns());
	push(&full, slot);
	collector_count_progress();
	if (atomic_load(&collector_idle) || behind == WAKE_AT)
		collector_wake();
}

uint64_t buffers_completed(void)
{
	return atomic_load(&completed);
}

uint64_t buffers_decoded(void)
{
	return atomic_load(&decoded);
}

uint64_t buffers_completed_ns(void)
{
	return atomic_load(&waiting) ? atomic_load(&completed_ns) : 0;
}

/* Takes all full slots and reverses their order. */
static void drain_full(void)
{
	uint64_t head = atomic_load(&full);

	while (!atomic_compare_exchange_weak(&full, &head, changed(head, 0)))
		;
	for (unsigned slot = (uint32_t)head, next; slot; slot = next) {
		next = atomic_load(&slots[slot].next);
		atomic_store(&slots[slot].next, in_order);
		in_order = slot;
	}
}

bool buffers_take_full(struct full_buffer *taken)
{
	unsigned slot;

	if (!in_order)
		drain_full();
	slot = in_order;
	if (!slot)
		return false;
	in_order = atomic_load(&slots[slot].next);
	*taken = (struct full_buffer){ bytes_of(slot), slots[slot].valid, slot };
	return true;
}

/*
 * Adapts the size of the next buffers to the work that the GPU does in BUFFER_WORK_NS, as measured
 * by a full one.
 */
static void adapt_size(unsigned slot, uint64_t records, uint64_t work_ns)
{
	unsigned now = atomic_load(&next_records);
	bool was_full = slots[slot].records_max
				? records >= slots[slot].records_max
				: slots[slot].size - slots[slot].valid < BUFFER_RECORD_BYTES;

	if (!was_full)
		return;
	if (work_ns > 2 * BUFFER_WORK_NS)
		now = MIN(now,
			  MAX((unsigned)(records * BUFFER_WORK_NS / work_ns), BUFFER_RECORDS_MIN));
	else if (work_ns < BUFFER_WORK_NS / 2 && slots[slot].size >= now * BUFFER_RECORD_BYTES)
		now = MIN(2 * now, BUFFER_BYTES / BUFFER_RECORD_BYTES);
	atomic_store(&next_records, now);
}

/* Returns how many buffers retain their pages. */
static unsigned warm_target(unsigned in_use)
{
	uint64_t now = clock_monotonic_ns();

	if (now - period_ns >= PERIOD_NS) {
		period_ns = now;
		high_water_last = high_water;
		high_water = 0;
	}
	high_water = MAX(high_water, in_use);
	return MAX(MAX(high_water, high_water_last), BUFFERS_READY);
}

static void release_pages(unsigned slot)
{
	if (shared_area_release(bytes_of(slot), BUFFER_BYTES) == 0)
		push(&cold, slot);
	else
		push_warm(slot);
}

void buffers_give_back(const struct full_buffer *taken, uint64_t records, uint64_t work_ns)
{
	unsigned in_use = atomic_load(&with_cupti) + atomic_fetch_sub(&waiting, 1),
		 most = warm_target(in_use), extra;
	struct journal *journal = shared_area_marks();

	adapt_size(taken->slot, records, work_ns);
	/*
	 * From is_full on, nobody reads the slot, and the mark has no meaning. It must be gone
	 * before CUPTI gets the slot again, whose first records would count as decoded.
	 */
	atomic_store(&slots[taken->slot].is_full, false);
	if (journal)
		journal_mark(journal, JOURNAL_NO_SOURCE, 0);
	slots[taken->slot].valid = 0;
	/* Clears all that CUPTI may have written: unfinished records may follow the valid bytes. */
	memset(taken->bytes, 0, slots[taken->slot].size);
	push_warm(taken->slot);
	atomic_fetch_add(&decoded, 1);
	/* Two for each one returned, so that the pages of a burst are released in time. */
	for (int i = 0; i < 2 && in_use - 1 + atomic_load(&warm_count) > most; i++)
		if ((extra = pop_warm()))
			release_pages(extra);
}

void buffers_counts(struct buffer_counts *counts)
{
	counts->requests = atomic_load(&requests);
	counts->refused = atomic_load(&refused);
	counts->request_ns = atomic_load(&request_ns);
}

/*
 * The memory is not freed: the child's copy of CUPTI holds buffers, and may write into them or hand
 * them over when the child exits. They are outside the child's region then.
 */
void buffers_after_fork(void)
{
	if (region && slots != own_slots) /* see shared_area_after_fork() */
		mprotect(region, (size_t)atomic_load(&fresh) * BUFFER_BYTES,
			 PROT_READ | PROT_WRITE);
	region = NULL;
	slots = own_slots;
	memset(own_slots, 0, sizeof(own_slots));
	warm = cold = full = 0;
	warm_count = fresh = 0;
	with_cupti = waiting = 0;
	completed = decoded = 0;
	in_order = high_water = high_water_last = 0;
}
