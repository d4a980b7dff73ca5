/*
 * own_work.c: a ring of times between the program's threads and the collector. A thread reserves a
 * slot by advancing `head`, and publishes it by storing its end last. The collector zeroes the ends
 * of slots before it lets them be reserved again. Times that find the ring full are added up.
 */
#include "capture/core/own_work.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "format/rows.h"

#define SLOTS 1024u /* one seal's; a measurement takes a tenth of a millisecond at least */

struct slot {
	uint64_t start_ns;
	enum cost_kind kind;
	unsigned count;
	atomic_uint_fast64_t end_ns; /* 0: not published */
};

static struct {
	struct slot slots[SLOTS];
	atomic_uint head, tail;
	struct {
		atomic_uint_fast64_t count, ns;
	} more[2]; /* set-up, replay */
} self;

static bool reserve(unsigned *position)
{
	unsigned head = atomic_load(&self.head);

	do {
		if (head - atomic_load(&self.tail) >= SLOTS)
			return false;
	} while (!atomic_compare_exchange_weak(&self.head, &head, head + 1));
	*position = head;
	return true;
}

void own_work_add(enum cost_kind kind, uint64_t start_ns, unsigned count)
{
	uint64_t end_ns = clock_monotonic_ns();
	struct slot *slot;
	unsigned position;

	if (!reserve(&position)) {
		atomic_fetch_add(&self.more[kind == cost_kind_replay].count, count);
		atomic_fetch_add(&self.more[kind == cost_kind_replay].ns, end_ns - start_ns);
		return;
	}
	slot = &self.slots[position % SLOTS];
	slot->kind = kind;
	slot->count = count;
	slot->start_ns = start_ns;
	atomic_store_explicit(&slot->end_ns, end_ns, memory_order_release);
}

void own_work_write(struct writer *w, uint64_t since_ns, uint64_t now_ns)
{
	unsigned tail = atomic_load(&self.tail);

	for (; tail != atomic_load(&self.head); atomic_store(&self.tail, ++tail)) {
		struct slot *slot = &self.slots[tail % SLOTS];
		uint64_t end_ns = atomic_load_explicit(&slot->end_ns, memory_order_acquire);

		if (!end_ns)
			break;
		rows_cost(w, slot->kind, slot->start_ns, end_ns, slot->count,
			  end_ns - slot->start_ns);
		atomic_store(&slot->end_ns, 0);
	}
	for (unsigned i = 0; i < 2; i++)
		rows_cost(w, i ? cost_kind_replay : cost_kind_setup, since_ns, now_ns,
			  atomic_exchange(&self.more[i].count, 0),
			  atomic_exchange(&self.more[i].ns, 0));
}

void own_work_after_fork(void)
{
	memset(&self, 0, sizeof(self));
}
