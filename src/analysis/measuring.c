#include "analysis/measuring.h"

#include "base/search.h"

ORDER(by_start, struct measuring_time, UP(process) ?: UP(start_ns))

static int add(struct measuring *m, uint32_t process, uint64_t start_ns, uint64_t end_ns,
	       uint64_t count)
{
	struct measuring_time time = { process, start_ns, end_ns, 0, count };

	return end_ns > start_ns ? vec_push(&m->times, time) : 0;
}

/* A row that is as long as its period is that time; others are sums over their period. */
static int add_costs(struct measuring *m, const struct trace *t)
{
	const struct cost_columns *c = cost_columns(t);
	int err = 0;

	for (uint64_t row = 0; row < trace_rows(t, TABLE_cost) && !err; row++) {
		bool replay = c->kind[row] == cost_kind_replay;

		if ((replay || c->kind[row] == cost_kind_setup) &&
		    c->total_ns[row] == c->end_ns[row] - c->start_ns[row])
			err = add(m, (uint32_t)trace_row_process(t, TABLE_cost, row),
				  c->start_ns[row], c->end_ns[row], replay ? c->count[row] : 0);
	}
	return err;
}

static bool has_replays(const struct trace *t, size_t process)
{
	const uint8_t *kind = cost_columns(t)->kind;

	for (struct row_walk w = process_rows(t, TABLE_cost, process); row_walk_next(&w);)
		if (kind[w.row] == cost_kind_replay)
			return true;
	return false;
}

/*
 * Where launches are measured, kernels without times were replayed, or ran with patched code. Nodes
 * of graphs are not measured.
 */
static int add_untimed(struct measuring *m, const struct trace *t, const struct calls *calls)
{
	struct event_columns c = events_of(t, TABLE_kernel);
	size_t process = SIZE_MAX;
	bool replays = false;
	int err = 0;

	for (struct row_walk w = all_rows(t, TABLE_kernel); !err && row_walk_next(&w);) {
		uint32_t call;

		if (w.process != process)
			replays = has_replays(t, process = w.process);
		if (!replays || event_is_timed(&c, w.row))
			continue;
		call = calls_timed(calls, calls_launch(calls, GPU_WORK_kernel, w.row));
		if (call != TRACE_NO_ROW && calls_kind(calls, call) == api_kind_launch)
			err = add(m, w.process, calls->start_ns[call], calls->end_ns[call], 1);
	}
	return err;
}

/* What CUPTI does only because it records. Other overhead is the driver's in any run. */
static int add_overhead(struct measuring *m, const struct trace *t)
{
	struct event_columns c = events_of(t, TABLE_overhead);
	const uint8_t *kind = overhead_columns(t)->kind;
	int err = 0;

	for (uint64_t row = 0; row < c.rows && !err; row++)
		if (event_is_timed(&c, row) && (kind[row] == overhead_kind_instrumentation ||
						kind[row] == overhead_kind_resource))
			err = add(m, (uint32_t)trace_row_process(t, TABLE_overhead, row),
				  c.start_ns[row], c.end_ns[row], 0);
	return err;
}

/* Merges times that overlap, and sums the lengths. */
static void merge(struct measuring *m)
{
	struct measuring_time *last = NULL;
	size_t count = 0;

	vec_sort(&m->times, by_start);
	for (size_t i = 0; i < m->times.count; i++) {
		struct measuring_time time = m->times.data[i];

		if (last && last->process == time.process && time.start_ns <= last->end_ns) {
			last->end_ns = MAX(last->end_ns, time.end_ns);
			last->count = MAX(last->count, time.count);
			continue;
		}
		if (last && last->process == time.process)
			time.before_ns = last->before_ns + last->end_ns - last->start_ns;
		last = &m->times.data[count++];
		*last = time;
	}
	m->times.count = count;
}

int measuring_init(struct measuring *m, struct trace *t, const struct calls *calls, struct error *e)
{
	int rc = trace_load(t, TABLE_cost, 0, e);

	*m = (struct measuring){ 0 };
	if (rc >= 0)
		rc = trace_load(t, TABLE_overhead, COLUMN_BITS(overhead, start_ns, end_ns, kind),
				e);
	if (rc < 0)
		return rc;
	if (add_costs(m, t) < 0 || add_overhead(m, t) < 0 || add_untimed(m, t, calls) < 0) {
		measuring_release(m);
		return error_set(e, -ENOMEM, "out of memory");
	}
	merge(m);
	return 0;
}

void measuring_release(struct measuring *m)
{
	vec_release(&m->times);
}

/* Length of the process's times before a moment. */
static uint64_t length_until(const struct measuring *m, uint32_t process, uint64_t time_ns)
{
	const struct measuring_time *times = m->times.data, *last;
	size_t count = sorted_prefix(m->times.count, i,
				     times[i].process < process || (times[i].process == process &&
								    times[i].start_ns < time_ns));

	if (!count || times[count - 1].process != process)
		return 0;
	last = &times[count - 1];
	return last->before_ns + MIN(time_ns, last->end_ns) - last->start_ns;
}

uint64_t measuring_within(const struct measuring *m, uint32_t process, uint64_t start_ns,
			  uint64_t end_ns)
{
	if (!m->times.count || end_ns <= start_ns)
		return 0;
	return length_until(m, process, end_ns) - length_until(m, process, start_ns);
}

uint64_t measuring_count(const struct measuring *m, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t count = 0;

	for (size_t i = 0; i < m->times.count; i++) {
		const struct measuring_time *t = &m->times.data[i];

		count += t->start_ns < end_ns && t->end_ns > start_ns ? t->count : 0;
	}
	return count;
}
