#include "capture/cuda/clock_pairs.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "capture/core/shared_area.h"
#include "capture/cuda/cupti_clock.h"

#define PAIRS 64u /* that can wait for the collector, more than it leaves waiting */
#define ROW_NS NS_PER_S /* between rows of `clock` */
/* A pair that took longer to read is off by up to half of that, as after a step of a clock. */
#define CERTAIN_NS NS_PER_MS

/* One producer at a time: first the thread that initializes CUDA, then the vendor thread. */
static struct row_clock pairs[PAIRS];
static atomic_uint head, tail;
static uint64_t last_row_ns, last_pair_ns; /* the collector's */
static bool is_certain; /* the collector's: times are converted with a pair that is */

/*
 * Publishes the pair for whoever reads the records after the process's death, which may come before
 * the collector has read any pair.
 */
static void share(const struct row_clock *pair)
{
	struct area_head *area = shared_area_head;

	if (atomic_load(&area->has_clock) && pair->width_ns > CERTAIN_NS)
		return;
	atomic_store(&area->clock_offset_ns, (int64_t)(pair->monotonic_ns - pair->gpu_ns));
	atomic_store(&area->has_clock, 1);
}

bool clock_pairs_read(const struct cupti *cupti)
{
	unsigned at = atomic_load_explicit(&head, memory_order_relaxed);
	struct row_clock *pair = &pairs[at % PAIRS];
	uint64_t best_width = UINT64_MAX;
	bool known = true;

	if (at - atomic_load_explicit(&tail, memory_order_acquire) == PAIRS)
		return true;
	for (int i = 0; i < 3; i++) {
		uint64_t before = clock_monotonic_ns(), now = 0, after;

		if (known && (cupti->GetTimestamp(&now) != CUPTI_SUCCESS || now == 0)) {
			known = false;
			best_width = UINT64_MAX;
		}
		if (!known)
			now = clock_read_ns(CLOCK_REALTIME);
		after = clock_monotonic_ns();
		if (after - before >= best_width)
			continue;
		best_width = after - before;
		*pair = (struct row_clock){ .missing = schema_missing(TABLE_clock),
					    .monotonic_ns = before + best_width / 2,
					    .realtime_ns = clock_read_ns(CLOCK_REALTIME),
					    .boottime_ns = clock_read_ns(CLOCK_BOOTTIME),
					    .gpu_ns = now };
		pair->width_ns = (uint32_t)MIN(clock_monotonic_ns() - before, UINT64_C(0xffffffff));
	}
	if (known)
		ROW_PRESENT(pair, clock, gpu_ns);
	share(pair);
	atomic_store_explicit(&head, at + 1, memory_order_release);
	return known;
}

/* While the machine is busy the reader may be interrupted in each attempt. */
static void add_pair(const struct row_clock *pair)
{
	bool certain = pair->width_ns <= CERTAIN_NS;

	if (is_certain && !certain)
		return;
	if (certain && !is_certain)
		cupti_clock_reset();
	is_certain = certain;
	cupti_clock_add(pair->gpu_ns, pair->monotonic_ns);
}

uint64_t clock_pairs_drain(struct writer *w)
{
	unsigned at = atomic_load_explicit(&tail, memory_order_relaxed);

	for (; at != atomic_load_explicit(&head, memory_order_acquire); at++) {
		const struct row_clock *pair = &pairs[at % PAIRS];

		add_pair(pair);
		last_pair_ns = pair->monotonic_ns;
		if (pair->monotonic_ns - last_row_ns >= ROW_NS) {
			writer_append(w, TABLE_clock, pair);
			last_row_ns = pair->monotonic_ns;
		}
		atomic_store_explicit(&tail, at + 1, memory_order_release);
	}
	return last_pair_ns;
}

void clock_pairs_reset(void)
{
	atomic_store(&tail, atomic_load(&head));
	last_row_ns = last_pair_ns = 0;
	is_certain = false;
	cupti_clock_reset();
}
