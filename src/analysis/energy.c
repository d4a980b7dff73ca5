/*
 * energy.c: the readings of a GPU divide its time into intervals. One walk over the work finds how
 * long each interval had work, a second one divides its energy.
 */
#include "analysis/energy.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/gpu_walk.h"
#include "analysis/groups.h"
#include "analysis/report.h"
#include "analysis/steps.h"
#include "base/clock.h"
#include "base/search.h"

/* From a reading to the next one; the first interval of a GPU, and its last one, have no power. */
struct interval {
	uint64_t start_ns;
	double watts; /* negative: unknown */
	uint64_t work_ns, busy_ns; /* sum and union of the work */
};

struct powered_gpu {
	VEC(struct interval) intervals; /* by start; the last one never ends */
	uint64_t until_ns; /* end of the work so far */
};

struct dividing {
	struct report *r;
	struct energy *out;
	struct powered_gpu *gpus;
	GROUPS(struct energy_part) families, scopes;
	uint8_t *used; /* by loop of steps, then by GPU */
};

ORDER(by_start, struct interval, UP(start_ns))

static int add_interval(struct powered_gpu *g, uint64_t start_ns, double watts)
{
	struct interval interval = { .start_ns = start_ns, .watts = watts };

	return vec_push(&g->intervals, interval);
}

static bool is_power(const struct trace *t, uint32_t row)
{
	const struct counter_columns *c = counter_columns(t);

	return !strcmp(trace_string(t, c->name[row]), "gpu_power") &&
	       !strcmp(trace_string(t, c->unit[row]), "W");
}

/* A reading does not hold for longer, as after the end of a process that read. */
#define READING_NS (60 * NS_PER_S)

static void forget_old_readings(struct powered_gpu *g)
{
	vec_sort(&g->intervals, by_start);
	for (size_t i = 0; i < g->intervals.count; i++)
		if (i + 1 == g->intervals.count ||
		    g->intervals.data[i + 1].start_ns - g->intervals.data[i].start_ns > READING_NS)
			g->intervals.data[i].watts = -1;
}

static int read_power(struct dividing *x)
{
	const struct trace *t = x->r->trace;
	const struct counter_sample_columns *c = counter_sample_columns(t);
	const struct counter_columns *counters = counter_columns(t);

	for (size_t i = 0; i < x->r->gpus.count; i++)
		if (add_interval(&x->gpus[i], 0, -1) < 0)
			return -ENOMEM;
	for (struct row_walk w = all_rows(t, TABLE_counter_sample); row_walk_next(&w);) {
		uint32_t row = c->counter[w.row];
		size_t gpu;

		if (row == TRACE_NO_ROW || !is_power(t, row) ||
		    !column_has(c->valid.device, w.row) || c->value[w.row] < 0)
			continue;
		gpu = gpus_find(&x->r->gpus, w.process, c->device[w.row]);
		if (gpu >= x->r->gpus.count)
			continue;
		x->out->readings++;
		if (add_interval(&x->gpus[gpu], c->time_ns[w.row],
				 (double)c->value[w.row] / pow(10, counters->decimals[row])) < 0)
			return -ENOMEM;
	}
	for (size_t i = 0; i < x->r->gpus.count; i++)
		forget_old_readings(&x->gpus[i]);
	return 0;
}

static size_t interval_at(const struct powered_gpu *g, uint64_t ns)
{
	const struct interval *items = g->intervals.data;

	return sorted_prefix(g->intervals.count, i, items[i].start_ns <= ns) - 1;
}

static uint64_t end_of(const struct powered_gpu *g, size_t i)
{
	return i + 1 < g->intervals.count ? g->intervals.data[i + 1].start_ns : UINT64_MAX;
}

static uint64_t within(const struct powered_gpu *g, size_t i, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t from = MAX(start_ns, g->intervals.data[i].start_ns),
		 to = MIN(end_ns, end_of(g, i));

	return to > from ? to - from : 0;
}

static void count_work(struct powered_gpu *g, const struct gpu_operation *op)
{
	uint64_t fresh_ns = MIN(MAX(op->start_ns, g->until_ns), op->end_ns);

	for (size_t i = interval_at(g, op->start_ns);
	     i < g->intervals.count && g->intervals.data[i].start_ns < op->end_ns; i++) {
		g->intervals.data[i].work_ns += within(g, i, op->start_ns, op->end_ns);
		g->intervals.data[i].busy_ns += within(g, i, fresh_ns, op->end_ns);
	}
	g->until_ns = MAX(g->until_ns, op->end_ns);
}

/* Divides the energy of the intervals in which the work ran. */
static int add_work(struct dividing *x, const struct gpu_operation *op)
{
	struct powered_gpu *g = &x->gpus[op->gpu];
	struct task task = { .row = op->row, .kind = op->work };
	struct path_place place = path_place_of_work(x->r, &task);
	uint32_t call = calls_launch(&x->r->calls, op->work, op->row);
	uint32_t path = nvtx_path_of_call(&x->r->ranges, call);
	struct energy_part *family = groups_at(&x->families, path_place_id(place), .place = place),
			   *scope = groups_at(&x->scopes, path, .path = path);

	if (!family || !scope)
		return -ENOMEM;
	family->count++;
	scope->count++;
	for (size_t i = interval_at(g, op->start_ns);
	     i < g->intervals.count && g->intervals.data[i].start_ns < op->end_ns; i++) {
		const struct interval *at = &g->intervals.data[i];
		double ns = (double)within(g, i, op->start_ns, op->end_ns) * (double)at->busy_ns /
			    (double)MAX(at->work_ns, 1);
		double joules = at->watts < 0 ? 0 : at->watts * ns / 1e9;

		family->ns += ns;
		scope->ns += ns;
		family->joules += joules;
		scope->joules += joules;
		x->out->all_ns += ns;
		x->out->known_ns += at->watts < 0 ? 0 : ns;
	}
	return 0;
}

static int walk_work(struct dividing *x, bool divide)
{
	struct gpu_operation op;
	struct gpu_walk walk;
	int rc = gpu_walk_init(&walk, &x->r->gpus, &x->r->selection);

	while (rc >= 0 && gpu_walk_next(&walk, &op)) {
		if (divide) {
			rc = add_work(x, &op);
			continue;
		}
		count_work(&x->gpus[op.gpu], &op);
		for (size_t i = 0; i < x->r->steps->loop_count; i++)
			if (x->r->steps->loops[i].process == op.process)
				x->used[i * x->r->gpus.count + op.gpu] = 1;
	}
	gpu_walk_release(&walk);
	return rc;
}

/* Of the meter, and of the samples; not by hypot(), which glibc 2.35 has anew. */
static double both_errors(double deviation)
{
	return sqrt(ENERGY_METER_ERROR * ENERGY_METER_ERROR + deviation * deviation);
}

/* Adds up whole intervals within the window, and what the readings differ by. */
static void sum_intervals(struct dividing *x)
{
	double sum = 0, squares = 0, count = 0, mean, deviation;

	for (size_t gpu = 0; gpu < x->r->gpus.count; gpu++) {
		const struct powered_gpu *g = &x->gpus[gpu];

		for (size_t i = 0; i < g->intervals.count; i++) {
			const struct interval *at = &g->intervals.data[i];
			uint64_t ns = within(g, i, x->r->start_ns, x->r->end_ns);

			if (at->watts < 0 || !ns)
				continue;
			x->out->joules += at->watts * (double)ns / 1e9;
			x->out->idle_joules +=
				at->watts * (double)(ns - MIN(ns, at->busy_ns)) / 1e9;
			if (!at->busy_ns)
				continue;
			sum += at->watts;
			squares += at->watts * at->watts;
			count++;
		}
	}
	if (!count)
		return;
	mean = sum / count;
	deviation = mean > 0 ? sqrt(fmax(squares / count - mean * mean, 0)) / mean : 0;
	x->out->uncertainty = both_errors(deviation / sqrt(count));
	x->out->part_uncertainty = both_errors(deviation);
}

/* --- steps --- */

/* Energy of the GPUs that a loop's process used; negative: the power is not known all the time. */
static double joules_of(const struct dividing *x, size_t loop, const struct step *step)
{
	double joules = 0;

	for (size_t gpu = 0; gpu < x->r->gpus.count; gpu++) {
		const struct powered_gpu *g = &x->gpus[gpu];

		if (!x->used[loop * x->r->gpus.count + gpu])
			continue;
		for (size_t i = interval_at(g, step->start_ns);
		     i < g->intervals.count && g->intervals.data[i].start_ns < step->end_ns; i++) {
			if (g->intervals.data[i].watts < 0)
				return -1;
			joules += g->intervals.data[i].watts *
				  (double)within(g, i, step->start_ns, step->end_ns) / 1e9;
		}
	}
	return joules;
}

/* Of two in the middle the smaller one, as of the durations of steps. */
static double median_of(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), order_double);
	return values[(count - 1) / 2];
}

static int add_loops(struct dividing *x)
{
	const struct steps *s = x->r->steps;
	_cleanup_free_ double *joules = calloc(s->count + 1, sizeof(*joules)),
			      *ns = calloc(s->count + 1, sizeof(*ns));

	x->out->loops = calloc(s->loop_count + 1, sizeof(*x->out->loops));
	if (!joules || !ns || !x->out->loops)
		return -ENOMEM;
	for (size_t l = 0; l < s->loop_count; l++) {
		struct energy_loop loop = { .process = s->loops[l].process };

		for (size_t i = 0; i < s->loops[l].count; i++) {
			const struct step *step = &s->items[s->loops[l].first + i];
			double of_step = joules_of(x, l, step);

			if (of_step < 0)
				continue;
			joules[loop.steps] = of_step;
			ns[loop.steps++] = (double)(step->end_ns - step->start_ns);
		}
		if (!loop.steps)
			continue;
		for (size_t gpu = 0; gpu < x->r->gpus.count; gpu++)
			loop.gpus += x->used[l * x->r->gpus.count + gpu];
		loop.joules = median_of(joules, loop.steps);
		loop.ns = median_of(ns, loop.steps);
		x->out->loops[x->out->loop_count++] = loop;
	}
	return 0;
}

/* --- the analysis --- */

ORDER(by_energy, struct energy_part, DOWN(joules) ?: UP(place.class) ?: UP(place.key) ?: UP(path))

static int run(struct report *r, void *result)
{
	struct dividing x = { .r = r, .out = result };
	int rc = -ENOMEM;

	if (!r->options.steps || !r->gpus.count)
		return 0;
	x.gpus = calloc(r->gpus.count, sizeof(*x.gpus));
	x.used = calloc(r->steps->loop_count * r->gpus.count + 1, 1);
	if (x.gpus && x.used)
		rc = read_power(&x);
	if (rc >= 0 && x.out->readings) {
		rc = walk_work(&x, false);
		if (rc >= 0)
			rc = walk_work(&x, true);
		sum_intervals(&x);
		if (rc >= 0)
			rc = add_loops(&x);
	}
	groups_take(&x.families, by_energy, &x.out->families, &x.out->family_count);
	groups_take(&x.scopes, by_energy, &x.out->scopes, &x.out->scope_count);
	for (size_t i = 0; x.gpus && i < r->gpus.count; i++)
		vec_release(&x.gpus[i].intervals);
	free(x.gpus);
	free(x.used);
	return rc < 0 ? rc : 0;
}

const struct analysis analysis_energy = {
	.size = sizeof(struct energy),
	.needs = { { TABLE_counter, 0 }, { TABLE_counter_sample, 0 } },
	.run = run,
	.owned = { OWNS(struct energy, families), OWNS(struct energy, scopes),
		   OWNS(struct energy, loops) },
	.reads_others = true,
};
