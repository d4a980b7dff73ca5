#include "capture/cuda/clock_pairs.h"

#include "base/clock.h"
#include "capture/cuda/cupti_clock.h"

enum { CUPTI_SAID = 1 }; /* ring_event.flags: the time is CUPTI's own */

#define SLOTS 2u
#define ROW_NS NS_PER_S /* between rows of `clock` */

static uint64_t last_row_ns; /* the collector's */

bool clock_pairs_read(const struct cupti *cupti)
{
	struct ring_event event[SLOTS] = { { .kind = RING_CUPTI_CLOCK, .flags = CUPTI_SAID } };
	uint64_t best_width = UINT64_MAX;
	struct ring *r = ring_get();

	for (int i = 0; i < 3; i++) {
		uint64_t before = clock_monotonic_ns(), now = 0, after;

		if (event[0].flags && (cupti->GetTimestamp(&now) != CUPTI_SUCCESS || now == 0)) {
			event[0].flags = 0;
			best_width = UINT64_MAX;
		}
		if (!event[0].flags)
			now = clock_read_ns(CLOCK_REALTIME);
		after = clock_monotonic_ns();
		if (after - before < best_width) {
			best_width = after - before;
			event[0].a = now;
			event[0].b = before + best_width / 2;
		}
	}
	event[0].c = (uint32_t)MIN(best_width, UINT64_C(0xffffffff));
	event[1].a = clock_read_ns(CLOCK_REALTIME);
	event[1].b = clock_read_ns(CLOCK_BOOTTIME);
	event[0].d = (uint32_t)(clock_monotonic_ns() - event[0].b); /* when these were read */
	if (r)
		ring_push(r, event, SLOTS);
	return event[0].flags != 0;
}

uint64_t clock_pairs_event(struct writer *w, const struct ring *r, uint64_t position)
{
	const struct ring_event *event = ring_slot(r, position), *more = ring_slot(r, position + 1);
	struct row_clock row = { .monotonic_ns = event->b,
				 .realtime_ns = more->a - event->d,
				 .boottime_ns = more->b - event->d,
				 .cupti_ns = event->a,
				 .width_ns = event->c };

	cupti_clock_add(event->a, event->b);
	if (!event->flags)
		ROW_MISSING(&row, clock, cupti_ns);
	if (event->b - last_row_ns >= ROW_NS) {
		writer_append(w, TABLE_clock, &row);
		last_row_ns = event->b;
	}
	return SLOTS;
}

void clock_pairs_reset(void)
{
	last_row_ns = 0;
	cupti_clock_reset();
}
