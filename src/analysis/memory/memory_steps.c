#include "analysis/memory/memory_steps.h"

#include <errno.h>
#include <math.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "analysis/steps.h"

/* --- trends --- */

/* The sum of t (t - 1) (2 t + 5) over the sizes of ties. Sorts the values. */
static double tie_term(double *values, size_t count)
{
	double sum = 0;

	qsort(values, count, sizeof(*values), order_double);
	for (size_t i = 0, end; i < count; i = end) {
		double t;

		for (end = i; end < count && values[end] == values[i]; end++)
			;
		t = (double)(end - i);
		sum += t * (t - 1) * (2 * t + 5);
	}
	return sum;
}

int memory_trend(const double *values, size_t count, double *slope, double *p)
{
	size_t pairs = count * (count - MIN(count, 1)) / 2, n = 0;
	_cleanup_free_ double *slopes = calloc(MAX(pairs, count) + 1, sizeof(*slopes));
	double score = 0, size = (double)count, variance;

	if (!slopes)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		for (size_t j = i + 1; j < count; j++) {
			slopes[n++] = (values[j] - values[i]) / (double)(j - i);
			score += ORDER_OF(values[j], values[i]);
		}
	qsort(slopes, n, sizeof(*slopes), order_double);
	*slope = !n ? 0 : n % 2 ? slopes[n / 2] : (slopes[n / 2 - 1] + slopes[n / 2]) / 2;
	for (size_t i = 0; i < count; i++)
		slopes[i] = values[i];
	variance = (size * (size - 1) * (2 * size + 5) - tie_term(slopes, count)) / 18;
	*p = score > 1 && variance > 0 ? erfc((score - 1) / sqrt(2 * variance)) / 2 : 1;
	return 0;
}

/* --- leaks --- */

/* What a line of a group has live at the ends of the sampled steps. */
struct line_levels {
	uint32_t group, line;
	int64_t bytes[MEMORY_LEAK_SAMPLES], count; /* bytes: changes, then levels */
};

struct leak_finder {
	const struct report *report;
	GROUPS(struct line_levels) lines; /* key: group << 32 | line */
	VEC(struct memory_leak) leaks;
};

static size_t sample_count(const struct step_loop *loop)
{
	return MIN(loop->count, MEMORY_LEAK_SAMPLES);
}

static uint64_t sample_end(const struct report *r, const struct step_loop *loop, size_t i)
{
	size_t last = sample_count(loop) - 1;
	size_t step = last ? i * (loop->count - 1) / last : 0;

	return r->steps->items[loop->first + step].host_end_ns;
}

/* The first sampled step that ends after a row. */
static size_t sample_after(const struct report *r, const struct step_loop *loop, uint32_t row)
{
	uint64_t time_ns = row == TRACE_NO_ROW ? 0 : allocation_columns(r->trace)->time_ns[row];

	return sorted_prefix(sample_count(loop), i, sample_end(r, loop, i) <= time_ns);
}

static int add_live(struct leak_finder *f, const struct memory_block *b)
{
	const struct report *r = f->report;
	const struct step_loop *loop = memory_loop(r, r->memory_use->items[b->group].process);
	uint32_t line = memory_line(r, b);
	struct line_levels *l;
	size_t from, until;

	if (!loop || loop->count < MEMORY_LEAK_STEPS || line == MEMORY_BEFORE)
		return 0;
	from = sample_after(r, loop, b->row);
	until = b->release == TRACE_NO_ROW ? sample_count(loop) : sample_after(r, loop, b->release);
	if (from >= until)
		return 0;
	l = groups_at(&f->lines, (uint64_t)b->group << 32 | line, .group = b->group, .line = line);
	if (!l)
		return -ENOMEM;
	l->bytes[from] = memory_sum(l->bytes[from], b->bytes);
	if (until < sample_count(loop))
		l->bytes[until] = memory_sum(l->bytes[until], -b->bytes);
	else
		l->count++;
	return 0;
}

static int judge(struct leak_finder *f, struct line_levels *l)
{
	const struct report *r = f->report;
	const struct step_loop *loop = memory_loop(r, r->memory_use->items[l->group].process);
	size_t count = sample_count(loop);
	double levels[MEMORY_LEAK_SAMPLES], slope, p;
	struct memory_leak leak = { .group = l->group, .line = l->line, .steps = loop->count };

	for (size_t i = 0; i < count; i++) {
		l->bytes[i] = memory_sum(l->bytes[i], i ? (uint64_t)l->bytes[i - 1] : 0);
		levels[i] = (double)l->bytes[i];
	}
	if (levels[count - 1] <= levels[count - 1 - count / 3])
		return 0;
	if (memory_trend(levels, count, &slope, &p) < 0)
		return -ENOMEM;
	if (!(slope > 0) || p >= MEMORY_LEAK_P)
		return 0;
	leak.first_bytes = (uint64_t)l->bytes[0];
	leak.last_bytes = (uint64_t)l->bytes[count - 1];
	leak.last_count = (uint64_t)l->count;
	leak.step_bytes = slope * (double)(count - 1) / (double)(loop->count - 1);
	leak.p = p;
	return vec_push(&f->leaks, leak);
}

ORDER(fastest_first, struct memory_leak, DOWN(step_bytes) ?: UP(group) ?: UP(line))

static int find_leaks(const struct report *r, struct memory_steps *out)
{
	struct leak_finder f = { .report = r, .lines = GROUPS_INIT };
	int code = 0;

	for (size_t i = 0; i < r->memory_use->block_count && code == 0; i++)
		code = add_live(&f, &r->memory_use->blocks[i]);
	for (size_t i = 0; i < f.lines.items.count && code == 0; i++)
		code = judge(&f, &f.lines.items.data[i]);
	groups_release(&f.lines);
	vec_sort(&f.leaks, fastest_first);
	out->leaks = f.leaks.data;
	out->leak_count = f.leaks.count;
	return code;
}

/* --- churn --- */

struct churn_finder {
	const struct report *report;
	const struct step_loop *loop; /* of the process */
	GROUPS(struct memory_churn) lines; /* key: process << 32 | line */
};

static int add_call(struct churn_finder *f, uint32_t process, uint32_t row)
{
	const struct report *r = f->report;
	const struct allocation_columns *c = allocation_columns(r->trace);
	const struct step *step = steps_at(r->steps, f->loop, c->time_ns[row]);
	uint32_t call = memory_call(r, row), line;
	bool allocates = c->operation[row] == memory_operation_allocation;
	struct memory_churn *m;

	if (!step)
		return 0;
	line = callers_of_call(&r->callers, process, call);
	m = groups_at(&f->lines, (uint64_t)process << 32 | line, .process = process, .line = line,
		      .loop_steps = f->loop->count, .last_step = MEMORY_NONE);
	if (!m)
		return -ENOMEM;
	m->allocations += allocates;
	m->releases += !allocates;
	m->allocated_bytes += allocates && column_has(c->valid.bytes, row) ? c->bytes[row] : 0;
	m->synchronizing += column_has(c->valid.async, row) && !c->async[row];
	call = calls_timed(&r->calls, call);
	if (call != TRACE_NO_ROW)
		m->host_ns += r->calls.end_ns[call] - r->calls.start_ns[call];
	m->steps += m->last_step != step->number;
	m->last_step = step->number;
	return 0;
}

ORDER(longest_first, struct memory_churn,
      DOWN(host_ns) ?: DOWN(allocations) ?: DOWN(releases) ?: UP(process) ?: UP(line))

static int find_churn(const struct report *r, struct memory_steps *out)
{
	struct churn_finder f = { .report = r, .lines = GROUPS_INIT };
	const struct allocation_columns *c = allocation_columns(r->trace);
	uint32_t process = UINT32_MAX;
	int code = 0;

	for (struct row_walk w = selection_rows(&r->selection, TABLE_allocation);
	     code == 0 && row_walk_next(&w);) {
		if (w.process != process)
			f.loop = memory_loop(r, w.process);
		process = w.process;
		if (f.loop && column_has(c->valid.time_ns, w.row) &&
		    !memory_is_of_allocator(c->kind[w.row]) && c->operation[w.row] &&
		    selection_has_time(&r->selection, true, c->time_ns[w.row]))
			code = add_call(&f, w.process, (uint32_t)w.row);
	}
	groups_take(&f.lines, longest_first, &out->churn, &out->churn_count);
	return code;
}

/* --- lifetimes --- */

static uint32_t range_of(const struct report *r, uint32_t row)
{
	uint32_t call = memory_call(r, row);

	return call == TRACE_NO_ROW || !r->ranges.of_call ? NVTX_NO_RANGE : r->ranges.of_call[call];
}

static void add_lifetime(const struct report *r, const struct memory_block *b,
			 struct memory_lifetime *l)
{
	const uint64_t *times = allocation_columns(r->trace)->time_ns;
	uint64_t limit_ns = 10000, ns;
	unsigned decade = 0;

	if (b->row == TRACE_NO_ROW || b->release == TRACE_NO_ROW)
		return;
	ns = times[b->release] - MIN(times[b->row], times[b->release]);
	for (; decade < MEMORY_LIFETIMES - 1 && ns >= limit_ns; decade++)
		limit_ns *= 10;
	l->counts[decade]++;
	l->bytes[decade] += b->bytes;
	l->knows_ranges |= memory_call(r, b->release) != TRACE_NO_ROW;
	if (range_of(r, b->row) != NVTX_NO_RANGE &&
	    range_of(r, b->row) == range_of(r, b->release)) {
		l->same_range_count++;
		l->same_range_bytes += b->bytes;
	}
}

static int find_lifetimes(const struct report *r, struct memory_steps *out)
{
	const struct memory_use *u = r->memory_use;

	out->lifetimes = calloc(u->count + 1, sizeof(*out->lifetimes));
	if (!out->lifetimes)
		return -ENOMEM;
	for (out->lifetime_count = 0; out->lifetime_count < u->count; out->lifetime_count++)
		out->lifetimes[out->lifetime_count].group = (uint32_t)out->lifetime_count;
	for (size_t i = 0; i < u->block_count; i++)
		add_lifetime(r, &u->blocks[i], &out->lifetimes[u->blocks[i].group]);
	return 0;
}

static int run(struct report *r, void *result)
{
	struct memory_steps *out = result;
	int code = 0;

	if (!r->options.memory)
		return 0;
	code = find_leaks(r, out);
	if (code == 0)
		code = find_churn(r, out);
	return code == 0 ? find_lifetimes(r, out) : code;
}

const struct analysis analysis_memory_steps = {
	.size = sizeof(struct memory_steps),
	.run = run,
	.owned = { OWNS(struct memory_steps, leaks), OWNS(struct memory_steps, churn),
		   OWNS(struct memory_steps, lifetimes) },
	.reads_others = true,
};
