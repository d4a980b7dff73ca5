#include "export/event_records.h"

#include "trace/columns.h"

#define LOOK_BACK 256 /* rows examined per table */

struct wait {
	uint64_t start_ns, end_ns;
	uint32_t context, stream;
	bool any_stream;
};

/* Returns the first row of [row, stop) that starts after time_ns. */
static uint64_t upper_bound(const struct event_columns *w, uint64_t row, uint64_t stop,
			    uint64_t time_ns)
{
	while (row < stop) {
		uint64_t middle = row + (stop - row) / 2;

		/* Rows without a time precede all others. */
		if (!column_has(w->start_valid, middle) || w->start_ns[middle] <= time_ns)
			row = middle + 1;
		else
			stop = middle;
	}
	return row;
}

static bool ended_during(const struct event_columns *w, uint64_t row, const struct wait *wait)
{
	return column_has(w->start_valid, row) && column_has(w->end_valid, row) &&
	       w->end_ns[row] >= wait->start_ns && w->end_ns[row] <= wait->end_ns &&
	       w->context[row] == wait->context &&
	       (wait->any_stream || w->stream[row] == wait->stream);
}

uint32_t sync_dependency(const struct export_view *v, size_t process, uint64_t sync_row)
{
	const struct event_columns *sync = &v->work[WORK_SYNC];
	const uint8_t *kinds = synchronization_columns(v->trace)->kind;
	struct wait wait = { sync->start_ns[sync_row], sync->end_ns[sync_row],
			     sync->context[sync_row], sync->stream[sync_row],
			     kinds[sync_row] == synchronization_kind_context };
	uint32_t last = NO_WORK;
	uint64_t last_end_ns = 0;

	if (kinds[sync_row] != synchronization_kind_stream && !wait.any_stream)
		return NO_WORK;
	for (int k = 0; k < WORK_SYNC; k++) {
		const struct event_columns *w = &v->work[k];
		uint64_t first, row;

		if (!w->rows)
			continue;
		first = trace_first_row(v->trace, w->table, process);
		row = upper_bound(w, first, trace_first_row(v->trace, w->table, process + 1),
				  wait.end_ns);
		for (unsigned n = 0; row-- > first && n < LOOK_BACK; n++) {
			if (!ended_during(w, row, &wait) || w->end_ns[row] < last_end_ns)
				continue;
			last = work_number(v, w, row);
			last_end_ns = w->end_ns[row];
		}
	}
	return last;
}
