/* range_values.c: finds the slices that show measured ranges and graph launches. */
#include <errno.h>

#include "base/search.h"
#include "export/export_view.h"
#include "trace/columns.h"

/* The key of range_slices: a row of nvtx, api_call or, of a range without a slice, range_value. */
static uint64_t key_of(enum table_id table, uint64_t row)
{
	return (uint64_t)table << 56 | row;
}

/*
 * Finds the push of a measured range. The engine starts before the push and stops after the pop, so
 * no other range of its thread, domain and level can be there. TRACE_NO_ROW: a row was lost.
 */
static uint32_t find_push(const struct export_view *v, size_t process, uint64_t row)
{
	const struct range_value_columns *c = range_value_columns(v->trace);
	const struct nvtx_columns *n = nvtx_columns(v->trace);
	uint64_t first = trace_first_row(v->trace, TABLE_nvtx, process),
		 end = trace_first_row(v->trace, TABLE_nvtx, process + 1);

	if (!trace_rows(v->trace, TABLE_nvtx) || !column_has(c->valid.level, row))
		return TRACE_NO_ROW;
	first += sorted_prefix(end - first, i, n->time_ns[first + i] < c->start_ns[row]);
	for (; first < end && n->time_ns[first] <= c->end_ns[row]; first++)
		if (n->kind[first] == nvtx_kind_push && n->thread[first] == c->thread[row] &&
		    n->domain[first] == c->domain[row] && column_has(n->valid.level, first) &&
		    n->level[first] == c->level[row])
			return v->nvtx_end_ns[first] <= c->end_ns[row] ? (uint32_t)first
								       : TRACE_NO_ROW;
	return TRACE_NO_ROW;
}

/* A process measures one range at a time: others are not searched, which bounds the time. */
static uint64_t slice_of(const struct export_view *v, size_t process, uint64_t row, bool overlaps)
{
	bool is_graph = range_value_columns(v->trace)->kind[row] == range_kind_graph;
	uint32_t slice = TRACE_NO_ROW;

	if (is_graph)
		slice = v->range_launches[row];
	else if (!overlaps)
		slice = find_push(v, process, row);
	if (slice == TRACE_NO_ROW)
		return key_of(TABLE_range_value, row);
	return key_of(is_graph ? TABLE_api_call : TABLE_nvtx, slice);
}

int range_values_init(struct export_view *v)
{
	const struct range_value_columns *c = range_value_columns(v->trace);

	for (size_t p = 0; p < v->process_count && trace_rows(v->trace, TABLE_range_value); p++) {
		uint64_t row = trace_first_row(v->trace, TABLE_range_value, p),
			 end = trace_first_row(v->trace, TABLE_range_value, p + 1), next,
			 last_ns = 0;

		for (; row < end; row = next) {
			next = range_values_end(v->trace, row, end);
			if (map_put(&v->range_slices,
				    slice_of(v, p, row, c->start_ns[row] < last_ns),
				    row << 16 | MIN(next - row, UINT16_MAX)) < 0)
				return -ENOMEM;
			last_ns = MAX(last_ns, c->end_ns[row]);
		}
	}
	return 0;
}

unsigned range_values_of(const struct export_view *v, enum table_id table, uint64_t row,
			 uint64_t *first)
{
	uint64_t values;

	if (likely(!v->range_slices.count) ||
	    !map_get(&v->range_slices, key_of(table, row), &values))
		return 0;
	*first = values >> 16;
	return (unsigned)(values & UINT16_MAX);
}
