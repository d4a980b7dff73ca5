#include "analysis/scope_counters.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "analysis/nvtx_ranges.h"
#include "analysis/system_use.h"
#include "trace/columns.h"
#include "trace/counter_value.h"

struct tally {
	const struct report *report;
	/* the first by the second: (path + 1) << 32 | name, of gauges and of sums */
	GROUPS(struct scope_counter) groups[2];
};

/* Rows of either table, of which the threads lead to scopes. */
struct rows {
	enum table_id table;
	const uint64_t *time_ns;
	const uint32_t *counter, *thread;
	const uint8_t *has_thread;
};

struct value {
	double value;
	uint64_t count;
	bool is_gauge;
};

static int add_at(struct tally *x, uint32_t path, uint32_t counter, const struct value *v, bool own)
{
	const struct counter_columns *c = counter_columns(x->report->trace);
	struct scope_counter *s =
		groups_at(&x->groups[v->is_gauge], (path + UINT64_C(1)) << 32 | c->name[counter],
			  .path = path, .name = c->name[counter], .unit = c->unit[counter],
			  .is_gauge = v->is_gauge, .min = v->value, .max = v->value);

	if (!s)
		return -ENOMEM;
	s->count += v->count;
	s->sum += v->value;
	s->self += own ? v->value : 0;
	s->min = v->value < s->min ? v->value : s->min;
	s->max = v->value > s->max ? v->value : s->max;
	return 0;
}

static int add_inside(struct tally *x, uint32_t path, uint32_t counter, const struct value *v)
{
	const struct nvtx_ranges *ranges = &x->report->ranges;
	int err = add_at(x, path, counter, v, true);

	while (err == 0 && path != SCOPE_NONE && ranges->paths[path].parent != SCOPE_NONE) {
		path = ranges->paths[path].parent;
		err = add_at(x, path, counter, v, false);
	}
	return err;
}

static bool read_value(const struct trace *t, enum table_id table, uint64_t row, struct value *out)
{
	struct counter_value value;

	if (table == TABLE_counter_addition) {
		const struct counter_addition_columns *c = counter_addition_columns(t);

		*out = (struct value){ .value = (double)c->value[row], .count = c->count[row] };
		return true;
	}
	value = counter_value(t, row);
	*out = (struct value){ .value = value.real, .count = 1, .is_gauge = true };
	return value.is_real;
}

static int add_row(struct tally *x, const struct rows *r, struct nvtx_cursor *cursor,
		   size_t process, uint64_t row)
{
	const struct selection *s = &x->report->selection;
	const struct trace *t = s->trace;
	uint32_t counter = r->counter[row], range = NVTX_NO_RANGE, path;
	struct value v;
	int err = 0;

	if (counter == TRACE_NO_ROW || counter_columns(t)->id[counter] < SYSTEM_COUNTERS_END ||
	    !selection_has_time(s, true, r->time_ns[row]) || !read_value(t, r->table, row, &v))
		return 0;
	if (column_has(r->has_thread, row))
		err = nvtx_cursor_at(cursor, trace_process(t, process)->subject, r->thread[row],
				     r->time_ns[row], &range);
	path = nvtx_path(&x->report->ranges, range);
	return err < 0 || !scope_path_selected(s->scopes, path) ? err
								: add_inside(x, path, counter, &v);
}

static int add_rows(struct tally *x, const struct rows *r)
{
	const struct selection *s = &x->report->selection;
	struct nvtx_cursor cursor = { .ranges = &x->report->ranges };
	int err = 0;

	for (struct row_walk w = selection_rows(s, r->table); err >= 0 && row_walk_next(&w);)
		err = add_row(x, r, &cursor, w.process, w.row);
	map_release(&cursor.last);
	return err;
}

ORDER(by_counter, struct scope_counter, UP(name) ?: UP(is_gauge) ?: UP(path + 1))

static int run(struct report *r, void *result)
{
	const struct counter_addition_columns *a = counter_addition_columns(r->trace);
	const struct counter_sample_columns *g = counter_sample_columns(r->trace);
	struct rows additions = { TABLE_counter_addition, a->time_ns, a->counter, a->thread,
				  a->valid.thread };
	struct rows gauges = { TABLE_counter_sample, g->time_ns, g->counter, g->thread,
			       g->valid.thread };
	struct tally x = { .report = r, .groups = { GROUPS_INIT, GROUPS_INIT } };
	struct scope_counters *out = result;
	int err;

	if (!r->options.scope_tree)
		return 0;
	err = add_rows(&x, &additions);
	if (err >= 0)
		err = add_rows(&x, &gauges);
	for (size_t i = 0; err >= 0 && i < x.groups[1].items.count; i++)
		err = vec_push(&x.groups[0].items, x.groups[1].items.data[i]);
	groups_release(&x.groups[1]);
	if (err >= 0)
		groups_take(&x.groups[0], by_counter, &out->items, &out->count);
	else
		groups_release(&x.groups[0]);
	return err;
}

const struct analysis analysis_scope_counters = {
	.size = sizeof(struct scope_counters),
	.needs = { { TABLE_counter, 0 },
		   { TABLE_counter_sample, 0 },
		   { TABLE_counter_addition, 0 } },
	.run = run,
	.owned = { OWNS(struct scope_counters, items) },
};
