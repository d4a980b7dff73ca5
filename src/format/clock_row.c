#include "format/clock_row.h"

#include "base/clock.h"

void clock_row_append(struct writer *w, uint64_t cupti_ns)
{
	uint64_t before = clock_monotonic_ns();
	struct row_clock row = {
		.realtime_ns = clock_read_ns(CLOCK_REALTIME),
		.boottime_ns = clock_read_ns(CLOCK_BOOTTIME),
		.cupti_ns = cupti_ns,
	};
	uint64_t after = clock_monotonic_ns();

	row.monotonic_ns = before + (after - before) / 2;
	row.width_ns = (uint32_t)MIN(after - before, UINT64_C(0xffffffff));
	if (!cupti_ns)
		ROW_MISSING(&row, clock, cupti_ns);
	writer_append(w, TABLE_clock, &row);
}
