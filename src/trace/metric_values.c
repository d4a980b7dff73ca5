#include "trace/metric_values.h"

#include <errno.h>
#include <math.h>

#include "trace/columns.h"
#include "trace/counter_value.h"

#define PROCESS_SHIFT 48
#define COUNT_BITS 16
#define COUNT_MAX ((UINT64_C(1) << COUNT_BITS) - 1)

int metric_values_load(struct trace *t, struct error *e)
{
	bool launches = trace_rows(t, TABLE_metric_value),
	     ranges = trace_rows(t, TABLE_range_value);
	int rc = 0;

	if (launches)
		rc = trace_load(t, TABLE_metric_value,
				COLUMN_BITS(metric_value, correlation, metric, value), e);
	if (ranges && rc >= 0)
		rc = trace_load(t, TABLE_range_value, 0, e);
	if ((launches || ranges) && rc >= 0)
		rc = trace_load(t, TABLE_metric, COLUMN_BITS(metric, id, name, unit, description),
				e);
	if (launches && rc >= 0)
		rc = trace_load(t, TABLE_kernel, COLUMN_BITS(kernel, correlation), e);
	return MIN(rc, 0);
}

/* Key of a launch; 0: there is none, or the ids do not fit. */
static uint64_t key_of(size_t process, uint64_t correlation)
{
	bool fits = process < UINT64_C(1) << (64 - PROCESS_SHIFT) &&
		    correlation < UINT64_C(1) << PROCESS_SHIFT;

	return fits && correlation ? (uint64_t)process << PROCESS_SHIFT | correlation : 0;
}

/* The rows of a launch are consecutive. */
static int add_rows(struct metric_values *m, size_t process, const uint64_t *correlations,
		    uint64_t row, uint64_t end)
{
	while (row < end) {
		uint64_t first = row, key = key_of(process, correlations[row]), *launch;

		while (row < end && correlations[row] == correlations[first])
			row++;
		if (!key)
			continue;
		launch = map_at(&m->launches, key, 0);
		if (!launch)
			return -ENOMEM;
		if (!*launch)
			*launch = first << COUNT_BITS | MIN(row - first, COUNT_MAX);
	}
	return 0;
}

int metric_values_init(struct metric_values *m, const struct trace *t)
{
	const struct metric_value_columns *c = metric_value_columns(t);
	int err = 0;

	*m = (struct metric_values){ .launches = MAP_INIT };
	if (!trace_rows(t, TABLE_metric_value) || !c->correlation)
		return 0;
	for (size_t p = 0; p < trace_process_count(t) && err == 0; p++)
		err = add_rows(m, p, c->correlation, trace_first_row(t, TABLE_metric_value, p),
			       trace_first_row(t, TABLE_metric_value, p + 1));
	if (err < 0)
		metric_values_release(m);
	return err;
}

void metric_values_release(struct metric_values *m)
{
	map_release(&m->launches);
}

unsigned metric_values_take(struct metric_values *m, size_t process, uint64_t correlation,
			    uint64_t *first)
{
	uint64_t key = key_of(process, correlation), launch;

	if (!m->launches.count || !key || !map_get(&m->launches, key, &launch) ||
	    !(launch & COUNT_MAX))
		return 0;
	*first = launch >> COUNT_BITS;
	*map_at(&m->launches, key, 0) = *first << COUNT_BITS;
	return (unsigned)(launch & COUNT_MAX);
}

uint64_t range_values_end(const struct trace *t, uint64_t row, uint64_t end)
{
	const struct range_value_columns *c = range_value_columns(t);
	uint64_t first = row;

	while (row < end && c->end_ns[row] == c->end_ns[first] &&
	       c->thread[row] == c->thread[first] && c->name[row] == c->name[first])
		row++;
	return row;
}

bool metric_values_read(const struct trace *t, enum table_id table, uint64_t row, uint32_t *metric,
			double *value)
{
	const struct metric_value_columns *launch = metric_value_columns(t);
	const struct range_value_columns *range = range_value_columns(t);
	bool is_range = table == TABLE_range_value;

	*metric = is_range ? range->metric[row] : launch->metric[row];
	if (*metric == TRACE_NO_ROW ||
	    !column_has(is_range ? range->valid.value : launch->valid.value, row))
		return false;
	*value = counter_value_real(is_range ? range->value[row] : launch->value[row]).real;
	return isfinite(*value);
}
