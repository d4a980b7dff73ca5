#include "analysis/rank_measures.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "analysis/stats.h"
#include "analysis/steps.h"
#include "analysis/system_use.h"
#include "system/metrics.h"

#define STEPS_MIN 3
/* Of the time that is compared, of memory, clocks and so on: less is no difference. */
#define LEAST_PERCENT 5

/* Ranges with one name. */
struct named_steps {
	uint64_t total_ns, count;
	uint32_t text; /* item of the interner */
	uint32_t thread; /* of the first one; those of other threads do not count */
};

/* Whether a range is a step of the rank after its start-up; then *text is its name. */
static int step_name(struct rank_pieces *p, const struct nvtx_range *range, uint32_t process,
		     uint64_t since_ns, uint32_t *text)
{
	struct rank_place place = { 0 };
	char name[STEP_NAME_MAX];

	if (range->process != process || !range->pushed || range->open || !range->message ||
	    range->start_ns < since_ns ||
	    !step_name_read(trace_string(p->report->trace, range->message), name))
		return 0;
	if (rank_pieces_place(p, &place, PLACE_RANGE, range->message) < 0)
		return -ENOMEM;
	*text = place.text;
	return 1;
}

ORDER(compare_steps, struct named_steps, DOWN(total_ns) ?: UP(text))

/* Finds the name of the steps: the ranges that take most of the time. */
static int find_steps(struct rank_pieces *p, uint32_t process, uint64_t since_ns,
		      struct named_steps *out)
{
	GROUPS(struct named_steps) all = GROUPS_INIT;
	int rc = 0;

	for (size_t i = 0; i < p->ranges.count && rc >= 0; i++) {
		const struct nvtx_range *range = &p->ranges.items[i];
		struct named_steps *s;
		uint32_t text;

		rc = step_name(p, range, process, since_ns, &text);
		if (rc <= 0)
			continue;
		s = groups_at(&all, text, .text = text, .thread = range->thread);
		if (!s) {
			rc = -ENOMEM;
		} else if (s->thread == range->thread) {
			s->total_ns += range->end_ns - range->start_ns;
			s->count++;
		}
	}
	vec_sort(&all.items, compare_steps);
	for (size_t i = 0; i < all.items.count && !out->count; i++)
		if (all.items.data[i].count >= STEPS_MIN)
			*out = all.items.data[i];
	groups_release(&all);
	return rc;
}

static int measure_steps(struct rank_pieces *p, uint32_t process, uint64_t since_ns,
			 struct rank_measures *out)
{
	struct named_steps steps = { 0 };
	_cleanup_(durations_release) struct durations times = { 0 };
	uint64_t last_ns = 0;
	int rc = find_steps(p, process, since_ns, &steps);

	for (size_t i = 0; i < p->ranges.count && rc >= 0 && steps.count; i++) {
		const struct nvtx_range *range = &p->ranges.items[i];
		uint32_t text;

		rc = step_name(p, range, process, since_ns, &text);
		if (rc <= 0 || text != steps.text || range->thread != steps.thread)
			continue;
		if (last_ns)
			rc = durations_add(&times, range->start_ns - last_ns);
		last_ns = range->start_ns;
	}
	if (rc >= 0 && steps.count) {
		out->steps_of = steps.text;
		out->values[MEASURE_STEP] = (double)durations_stats(&times).median_ns;
	}
	return rc;
}

static void read_counters(const struct report *r, uint32_t gpu, double *values)
{
	const struct system_use *s = r->system_use;

	for (size_t i = 0; i < s->counter_count; i++) {
		const struct system_counter *c = &s->counters[i];

		if (c->gpu != gpu || !c->readings)
			continue;
		if (c->id == METRIC_gpu_memory_used)
			values[MEASURE_MEMORY] = (double)c->max;
		else if (c->id == METRIC_gpu_temperature)
			values[MEASURE_TEMPERATURE] = (double)c->max;
		else if (c->id == METRIC_gpu_sm_clock && c->busy_ns)
			values[MEASURE_CLOCK] = (double)c->busy_mean / 1000;
	}
}

int rank_measures_find(struct rank_pieces *p, const struct job_rank *rank, const uint64_t *state_ns,
		       uint64_t steady_ns, struct rank_measures *out)
{
	out->steps_of = UINT32_MAX;
	for (unsigned i = 0; i < MEASURES; i++)
		out->values[i] = NAN;
	read_counters(p->report, rank->gpu, out->values);
	out->values[MEASURE_BUSY] = (double)(state_ns[RANK_COMPUTE] + state_ns[RANK_COPY]);
	out->values[MEASURE_WAIT] = (double)state_ns[RANK_WAIT];
	out->values[MEASURE_EXPOSED] = (double)(state_ns[RANK_TRANSFER] + state_ns[RANK_WAIT]);
	return measure_steps(p, rank->process, steady_ns, out);
}

/* Steps with different names are not compared. */
static void drop_unequal(struct measured_ranks *m)
{
	bool unequal = false;

	for (size_t i = 1; i < m->count; i++)
		unequal |= m->items[i].steps_of != m->items[0].steps_of;
	for (size_t i = 0; i < m->count && unequal; i++)
		m->items[i].values[MEASURE_STEP] = NAN;
}

uint64_t rank_measures_step_ns(const struct measured_ranks *m)
{
	double sum = 0;

	for (size_t i = 0; i < m->count; i++) {
		if (m->items[i].steps_of == UINT32_MAX ||
		    m->items[i].steps_of != m->items[0].steps_of)
			return 0;
		sum += m->items[i].values[MEASURE_STEP];
	}
	/* Times of a damaged recording are arbitrary. */
	return m->count ? (uint64_t)fmin(sum / (double)m->count, 1e18) : 0;
}

/* The smallest difference that counts. */
static double least_of(unsigned measure, double median, uint64_t span_ns, uint64_t wait_ns)
{
	double least = (double)span_ns * LEAST_PERCENT / 100;

	if (measure == MEASURE_WAIT)
		return least + (double)wait_ns;
	return measure == MEASURE_BUSY || measure == MEASURE_EXPOSED ? least
								     : median * LEAST_PERCENT / 100;
}

ORDER(compare_outliers, struct rank_outlier,
      ORDER_OF(fabs(b->score), fabs(a->score)) ?: UP(rank) ?: UP(measure))

/* Compares one measure of all ranks; `values` has room for each. */
static int compare_measure(struct measured_ranks *m, unsigned measure, uint64_t span_ns,
			   uint64_t wait_ns, double *values)
{
	VEC(struct rank_outlier) found = { m->outliers, m->outlier_count, m->outlier_count };
	struct spread s;
	double least;
	int rc = 0;

	for (size_t i = 0; i < m->count; i++)
		values[i] = m->items[i].values[measure];
	if (spread_find(values, m->count, &s) < 0)
		return -ENOMEM;
	least = least_of(measure, s.median, span_ns, wait_ns);
	spread_limit(&s, least);
	for (uint32_t i = 0; i < m->count && rc >= 0; i++) {
		double heat = (values[i] - s.median) / (2 * least);

		m->items[i].heat[measure] = isnan(heat) ? NAN : fmax(-1, fmin(1, heat));
		if (spread_is_outlier(&s, values[i]))
			rc = vec_push(&found, ((struct rank_outlier){
						      i, (uint8_t)measure, values[i], s.median,
						      spread_score(&s, values[i]) }));
	}
	m->outliers = found.data;
	m->outlier_count = found.count;
	return rc;
}

int rank_measures_compare(struct measured_ranks *m, uint64_t span_ns, uint64_t uncertainty_ns,
			  uint64_t waits)
{
	uint64_t wait_ns = uncertainty_ns * waits;
	_cleanup_free_ double *values = calloc(m->count + 1, sizeof(*values));
	int rc = values ? 0 : -ENOMEM;

	drop_unequal(m);
	for (unsigned i = 0; i < MEASURES && rc >= 0; i++)
		rc = compare_measure(m, i, span_ns, wait_ns, values);
	if (m->outlier_count)
		qsort(m->outliers, m->outlier_count, sizeof(*m->outliers), compare_outliers);
	return rc;
}
