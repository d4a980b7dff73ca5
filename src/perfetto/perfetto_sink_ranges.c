/*
 * perfetto_sink_ranges.c: hardware counters of ranges and graph launches (table range_value). They
 * arrive after the pop of their range, mostly within milliseconds. While ranges are measured, the
 * ends of pushed ranges therefore wait until the second seal at most, and have the values as
 * arguments. Readers sort by time, so the order of packets does not matter.
 */

#include "perfetto/perfetto_sink_state.h"

#define WRITTEN UINT8_MAX /* kind of rows that need not wait any longer */

static size_t values_end(const struct perfetto_live *p, size_t first)
{
	const struct row_range_value *rows = p->range_values.data;
	size_t i = first;

	while (i < p->range_values.count && rows[i].end_ns == rows[first].end_ns &&
	       rows[i].thread == rows[first].thread && rows[i].kind == rows[first].kind)
		i++;
	return i;
}

/* Annotates the open slice with the values from row `first` on, which are written then. */
static void annotate(struct perfetto_live *p, size_t first)
{
	size_t end = values_end(p, first);

	perfetto_annotate_passes(p->out, p->range_values.data[first].passes);
	for (; first < end; first++) {
		struct row_range_value *row = &p->range_values.data[first];
		const struct row_metric *metric =
			definitions_row(&p->definitions, TABLE_metric, row->metric);
		double value;

		memcpy(&value, &row->value, sizeof(value));
		if (metric && !(row->missing >> COLUMN_range_value_value & 1))
			perfetto_annotate_metric(p->out, live_text(p, metric->name), value);
		row->kind = WRITTEN;
	}
}

/* Writes values whose slice is not in the trace as a slice of their own, from row `first` on. */
static int write_alone(struct perfetto_live *p, const struct row_range_value row, size_t first)
{
	struct live_track *track = live_track(p, LIVE_COUNTERS, 0, 0);
	const char *name = live_text(p, row.name);
	const char *title = *name ? name : "(no message)";
	struct perfetto_slice slice = { .time_ns = row.start_ns,
					.category = CATEGORY_COUNTERS,
					.name = { row.name, title, strlen(title) } };
	struct open_slice open;
	int rc;

	raw_reserve(p->out, 0);
	rc = live_slice(p, track, &slice, row.end_ns, &open);
	if (rc < 0)
		return rc;
	if (!p->export)
		annotate(p, first);
	live_slice_end(p, track, &slice, row.end_ns, &open);
	return 0;
}

int live_range_value(struct perfetto_live *p, const struct row_range_value *row)
{
	if (p->export)
		return write_alone(p, *row, 0);
	if (p->range_values.count < LIVE_VALUES)
		return vec_push(&p->range_values, *row);
	p->lost++;
	return 0;
}

void live_annotate_graph(struct perfetto_live *p, uint64_t correlation)
{
	for (size_t i = 0; i < p->range_values.count; i++) {
		const struct row_range_value *row = &p->range_values.data[i];

		if (row->kind == range_kind_graph && row->correlation == correlation) {
			annotate(p, i);
			return;
		}
	}
}

bool live_hold_end(struct perfetto_live *p, struct live_track *track, const struct row_nvtx *row)
{
	unsigned rows = atomic_load_explicit(p->options.rows, memory_order_relaxed);
	struct live_end end = { track, row->time_ns, row->level };

	return rows & PERFETTO_RANGE_METRICS && !(row->missing >> COLUMN_nvtx_level & 1) &&
	       p->ends.count < LIVE_ENDS && vec_push(&p->ends, end) == 0;
}

/* Returns the first row of the values of the range that ends here, or SIZE_MAX. */
static size_t find_values(const struct perfetto_live *p, const struct live_end *end)
{
	for (size_t i = 0; i < p->range_values.count; i++) {
		const struct row_range_value *row = &p->range_values.data[i];

		if (row->thread == end->track->thread && row->domain == end->track->domain &&
		    row->level == end->level && row->start_ns <= end->time_ns &&
		    end->time_ns <= row->end_ns && row->kind != WRITTEN &&
		    !(row->missing >> COLUMN_range_value_level & 1))
			return i;
	}
	return SIZE_MAX;
}

/* Ends a range, if possible with the values from row `first` on. */
static void end_range(struct perfetto_live *p, const struct live_end *end, size_t first)
{
	const struct perfetto_slices *slices = &end->track->slices;
	struct open_slice open;

	raw_reserve(p->out, 0);
	if (first != SIZE_MAX) {
		perfetto_slice_end_open(slices, p->out, 0, end->time_ns, &open);
		annotate(p, first);
		perfetto_slice_close(&open);
		if (live_emit(p))
			return;
	}
	live_end_slice(p, end->track, 0, end->time_ns);
}

static void flush_ends(struct perfetto_live *p, bool all)
{
	size_t kept = 0;

	for (size_t i = 0; i < p->ends.count; i++) {
		const struct live_end end = p->ends.data[i];
		size_t first = find_values(p, &end);

		if (first == SIZE_MAX && i >= p->ends_before_seal && !all)
			p->ends.data[kept++] = end;
		else
			end_range(p, &end, first);
	}
	p->ends.count = p->ends_before_seal = kept;
}

/* Whether values may still find their slice. */
static bool may_wait(const struct perfetto_live *p, size_t first)
{
	const struct row_range_value *row = &p->range_values.data[first];
	uint64_t launch;

	if (row->kind == range_kind_graph && map_get(&p->launch_index, row->correlation, &launch))
		return true;
	return first >= p->values_before_seal;
}

void live_ranges_flush(struct perfetto_live *p, bool all)
{
	size_t kept = 0;

	flush_ends(p, all);
	for (size_t i = 0, end; i < p->range_values.count; i = end) {
		struct row_range_value *rows = p->range_values.data;

		end = values_end(p, i);
		if (rows[i].kind != WRITTEN && may_wait(p, i) && !all) {
			memmove(&rows[kept], &rows[i], (end - i) * sizeof(*rows));
			kept += end - i;
		} else if (rows[i].kind != WRITTEN && write_alone(p, rows[i], i) < 0) {
			live_discard(p);
		}
	}
	p->range_values.count = p->values_before_seal = kept;
}
