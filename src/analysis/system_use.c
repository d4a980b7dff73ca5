/*
 * system_use.c: one sweep over the GPU work finds how long each GPU had been busy at each reading;
 * one over the readings then evaluates the intervals between them.
 */
#include "analysis/system_use.h"

#include <errno.h>
#include <math.h>

#include "analysis/gpu_walk.h"
#include "analysis/groups.h"
#include "analysis/report.h"
#include "base/clock.h"
#include "base/search.h"
#include "system/metrics.h"

#define NO_GPU UINT32_MAX
#define IDLE_BIT 0u /* of gpu_throttle_reasons */

/* Times of the readings of a GPU, and its busy time until then. */
struct gpu_times {
	VEC(uint64_t) times; /* ascending, distinct */
	uint64_t *busy_ns;
	size_t next; /* first item of busy_ns that is not filled in */
	uint64_t total_ns, until_ns; /* busy so far; end of the work so far */
};

struct series {
	struct system_counter out;
	uint64_t time_ns; /* of the last reading */
	uint64_t gpu_busy_ns; /* at that time */
	int64_t value;
	uint32_t reader; /* process that made it */
	double sum, busy_sum; /* levels: value times nanoseconds; sums: growth */
	double slowest, fastest; /* sums: growth per second */
};

struct tally {
	struct report *report;
	struct gpu_times *gpus;
	bool gpus_were_read;
	GROUPS(struct series) series;
	GROUPS(struct system_throttling) throttled;
	VEC(struct system_error) errors;
};

/* A reading of one of the recorder's metrics. */
struct sample {
	uint64_t time_ns;
	int64_t value;
	uint32_t row, gpu, process;
	uint8_t kind;
};

/* false: the row is not one of the recorder's metrics, or not selected. */
static bool read_sample(const struct report *r, const struct row_walk *w, struct sample *out)
{
	const struct counter_sample_columns *c = counter_sample_columns(r->trace);
	const struct counter_columns *counters = counter_columns(r->trace);
	const struct filter *f = &r->options.filter;
	uint32_t row = c->counter[w->row];
	bool of_gpu = column_has(c->valid.device, w->row);

	if (row == TRACE_NO_ROW || counters->id[row] >= SYSTEM_COUNTERS_END ||
	    !selection_has_time(&r->selection, true, c->time_ns[w->row]) ||
	    (of_gpu && (!r->gpus.count || (f->device >= 0 && f->device != c->device[w->row]))))
		return false;
	*out = (struct sample){
		.time_ns = c->time_ns[w->row],
		.value = c->value[w->row],
		.row = row,
		.process = w->process,
		.gpu = of_gpu ? (uint32_t)gpus_find(&r->gpus, w->process, c->device[w->row])
			      : NO_GPU,
		.kind = column_has(counters->valid.kind, row) ? counters->kind[row]
							      : counter_kind_level,
	};
	return true;
}

/* --- busy time up to each reading --- */

static int collect_times(struct tally *x)
{
	struct sample s;

	for (struct row_walk w = selection_rows(&x->report->selection, TABLE_counter_sample);
	     row_walk_next(&w);) {
		struct gpu_times *g;

		if (!read_sample(x->report, &w, &s) || s.gpu == NO_GPU)
			continue;
		x->gpus_were_read = true;
		g = &x->gpus[s.gpu];
		if ((!g->times.count || g->times.data[g->times.count - 1] != s.time_ns) &&
		    vec_push(&g->times, s.time_ns) < 0)
			return -ENOMEM;
	}
	for (size_t i = 0; i < x->report->gpus.count; i++) {
		struct gpu_times *g = &x->gpus[i];

		vec_sort(&g->times, order_u64);
		g->busy_ns = calloc(g->times.count + 1, sizeof(*g->busy_ns));
		if (!g->busy_ns)
			return -ENOMEM;
	}
	return 0;
}

/* Adds a busy interval, which must start after all earlier ones end. */
static void add_busy(struct gpu_times *g, uint64_t start_ns, uint64_t end_ns)
{
	for (; g->next < g->times.count && g->times.data[g->next] < end_ns; g->next++) {
		uint64_t t = g->times.data[g->next];

		g->busy_ns[g->next] = g->total_ns + (t > start_ns ? t - start_ns : 0);
	}
	g->total_ns += end_ns - start_ns;
	g->until_ns = end_ns;
}

static int sweep_work(struct tally *x)
{
	struct gpu_walk walk;
	struct gpu_operation op;
	int rc;

	if (!x->gpus_were_read)
		return 0;
	rc = gpu_walk_init(&walk, &x->report->gpus, &x->report->selection);

	while (rc >= 0 && gpu_walk_next(&walk, &op)) {
		struct gpu_times *g = &x->gpus[op.gpu];

		if (op.end_ns > g->until_ns)
			add_busy(g, MAX(op.start_ns, g->until_ns), op.end_ns);
	}
	gpu_walk_release(&walk);
	for (size_t i = 0; i < x->report->gpus.count; i++)
		add_busy(&x->gpus[i], UINT64_MAX, UINT64_MAX);
	return rc;
}

static uint64_t busy_at(const struct tally *x, uint32_t gpu, uint64_t time_ns)
{
	const struct gpu_times *g = gpu == NO_GPU ? NULL : &x->gpus[gpu];
	const uint64_t *found =
		g ? bsearch(&time_ns, g->times.data, g->times.count, sizeof(uint64_t), order_u64)
		  : NULL;

	return found ? g->busy_ns[found - g->times.data] : 0;
}

/* --- the readings --- */

static int add_throttling(struct tally *x, const struct series *s, uint64_t ns, uint64_t busy_ns)
{
	for (unsigned bit = 0; bit < SYSTEM_REASONS; bit++) {
		struct system_throttling *t;

		if (!((uint64_t)s->value >> bit & 1) || bit == IDLE_BIT)
			continue;
		t = groups_at(&x->throttled, (uint64_t)s->out.gpu << 32 | bit, .gpu = s->out.gpu,
			      .reason = bit);
		if (!t)
			return -ENOMEM;
		t->total_ns += ns;
		t->busy_ns += busy_ns;
	}
	return 0;
}

static void add_level(struct series *s, uint64_t ns, uint64_t busy_ns)
{
	s->sum += (double)s->value * (double)ns;
	s->busy_sum += (double)s->value * (double)busy_ns;
}

/* Saturates, because values of a recording may be arbitrary. */
static int64_t to_integer(double v)
{
	return v > -9e18 && v < 9e18 ? (int64_t)v : v < 0 ? INT64_MIN : INT64_MAX;
}

static void add_growth(struct series *s, int64_t value, uint64_t ns)
{
	double growth = (double)value - (double)s->value;
	double per_s = growth * (double)NS_PER_S / (double)ns;

	s->sum += growth;
	s->slowest = s->out.known_ns ? MIN(s->slowest, per_s) : per_s;
	s->fastest = MAX(s->fastest, per_s);
}

/* Adds the interval between the previous reading and this one. */
static int add_interval(struct tally *x, struct series *s, const struct sample *now,
			uint64_t gpu_busy_ns)
{
	uint64_t ns = now->time_ns - s->time_ns, busy_ns = gpu_busy_ns - s->gpu_busy_ns;

	if (!s->out.readings || s->reader != now->process || now->time_ns <= s->time_ns)
		return 0;
	if (now->kind == counter_kind_bits)
		return add_throttling(x, s, ns, busy_ns);
	if (now->kind == counter_kind_sum) {
		if (now->value < s->value) /* the counter was reset: the growth is unknown */
			return 0;
		add_growth(s, now->value, ns);
	} else {
		add_level(s, ns, busy_ns);
	}
	s->out.known_ns += ns;
	s->out.busy_ns += busy_ns;
	return 0;
}

static int add_sample(struct tally *x, const struct sample *now)
{
	const struct counter_columns *counters = counter_columns(x->report->trace);
	uint32_t name = counters->name[now->row];
	uint32_t whose = now->gpu == NO_GPU ? now->process | 1u << 31 : now->gpu;
	struct series *s = groups_at(&x->series, (uint64_t)whose << 32 | name,
				     .out = { .row = now->row,
					      .id = counters->id[now->row],
					      .process = now->process,
					      .gpu = now->gpu,
					      .kind = now->kind });
	uint64_t gpu_busy_ns = busy_at(x, now->gpu, now->time_ns);

	if (!s || add_interval(x, s, now, gpu_busy_ns) < 0)
		return -ENOMEM;
	if (now->kind == counter_kind_level) {
		s->out.min = s->out.readings ? MIN(s->out.min, now->value) : now->value;
		s->out.max = s->out.readings ? MAX(s->out.max, now->value) : now->value;
	}
	s->out.readings++;
	s->time_ns = now->time_ns;
	s->value = now->value;
	s->gpu_busy_ns = gpu_busy_ns;
	s->reader = now->process;
	return 0;
}

static int add_samples(struct tally *x)
{
	struct sample s;

	for (struct row_walk w = selection_rows(&x->report->selection, TABLE_counter_sample);
	     row_walk_next(&w);) {
		int rc = 0;

		if (!read_sample(x->report, &w, &s))
			continue;
		if (s.kind != counter_kind_event)
			rc = add_sample(x, &s);
		else if (s.gpu != NO_GPU)
			rc = vec_push(&x->errors, ((struct system_error){ s.gpu, s.time_ns,
									  (uint64_t)s.value }));
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* --- results --- */

/* sum / ns in thousandths of 10^decimals; 0 if ns is 0. */
static int64_t mean_of(double sum, uint64_t ns, uint32_t decimals)
{
	double mean = ns ? sum * 1000 / (double)ns : 0;

	for (uint32_t i = 0; i < MIN(decimals, 18u); i++)
		mean /= 10;
	return to_integer(mean < 0 ? mean - 0.5 : mean + 0.5);
}

ORDER(compare_counters, struct series, UP(out.gpu) ?: UP(out.id) ?: UP(out.process) ?: UP(out.row))

ORDER(compare_throttling, struct system_throttling, UP(gpu) ?: DOWN(total_ns) ?: UP(reason))

ORDER(compare_errors, struct system_error, UP(time_ns) ?: UP(gpu))

/*
 * The operating system counts in ticks: between readings that are close to each other a processor
 * can seem to have worked for longer than the time. No processor did.
 */
static void limit_to_processors(struct tally *x)
{
	const struct series *all = x->series.items.data;
	double processors = 0;

	for (size_t i = 0; i < x->series.items.count; i++)
		processors += all[i].out.id >= METRIC_CORE_FIRST && all[i].out.id < METRIC_END;
	for (size_t i = 0; i < x->series.items.count; i++) {
		struct series *s = &x->series.items.data[i];
		const uint32_t *decimals = counter_columns(x->report->trace)->decimals;
		double second = pow(10, MIN(decimals[s->out.row], 18u)), limit = 0;

		if (s->out.id >= METRIC_CORE_FIRST || (s->out.id >= METRIC_host_cpu_pressure &&
						       s->out.id <= METRIC_host_io_pressure_full))
			limit = second;
		else if (s->out.id == METRIC_host_cpu_busy || s->out.id == METRIC_host_cpu_io_wait)
			limit = processors * second;
		if (limit > 0 && s->out.kind == counter_kind_sum) {
			s->fastest = MIN(s->fastest, limit);
			s->slowest = MIN(s->slowest, limit);
		}
	}
}

/* Stores all series but those of bits, which are in `throttled`. */
static int store_counters(struct tally *x, struct system_use *out)
{
	const uint32_t *decimals = counter_columns(x->report->trace)->decimals;
	size_t count = x->series.items.count;

	vec_sort(&x->series.items, compare_counters);
	out->counters = calloc(count + 1, sizeof(*out->counters));
	for (size_t i = 0; out->counters && i < count; i++) {
		struct series *s = &x->series.items.data[i];
		struct system_counter *c = &s->out;
		bool sum = c->kind == counter_kind_sum;

		if (c->kind == counter_kind_bits)
			continue;
		if (sum) {
			c->total = to_integer(s->sum);
			c->min = mean_of(s->slowest, 1, decimals[c->row]);
			c->max = mean_of(s->fastest, 1, decimals[c->row]);
		}
		c->mean = mean_of(sum ? s->sum * (double)NS_PER_S : s->sum, c->known_ns,
				  decimals[c->row]);
		c->busy_mean = mean_of(s->busy_sum, c->busy_ns, decimals[c->row]);
		c->idle_mean =
			mean_of(s->sum - s->busy_sum, c->known_ns - c->busy_ns, decimals[c->row]);
		out->counters[out->counter_count++] = *c;
	}
	return out->counters ? 0 : -ENOMEM;
}

static int run(struct report *r, void *result)
{
	struct system_use *out = result;
	struct tally x = { .report = r, .gpus = calloc(r->gpus.count + 1, sizeof(*x.gpus)) };
	int code = x.gpus ? collect_times(&x) : -ENOMEM;

	if (code >= 0)
		code = sweep_work(&x);
	if (code >= 0)
		code = add_samples(&x);
	if (code >= 0)
		limit_to_processors(&x);
	if (code >= 0)
		code = store_counters(&x, out);
	groups_take(&x.throttled, compare_throttling, &out->throttled, &out->throttled_count);
	vec_sort(&x.errors, compare_errors);
	out->errors = x.errors.data;
	out->error_count = x.errors.count;
	groups_release(&x.series);
	for (size_t i = 0; x.gpus && i < r->gpus.count; i++) {
		vec_release(&x.gpus[i].times);
		free(x.gpus[i].busy_ns);
	}
	free(x.gpus);
	return code;
}

const struct analysis analysis_system_use = {
	.size = sizeof(struct system_use),
	.needs = { { TABLE_counter, 0 }, { TABLE_counter_sample, 0 } },
	.run = run,
	.owned = { OWNS(struct system_use, counters), OWNS(struct system_use, throttled),
		   OWNS(struct system_use, errors) },
};
