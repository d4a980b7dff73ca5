#include "compare/comparison.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/filter.h"
#include "base/search.h"
#include "compare/renamed.h"

const char *const comparison_verdicts[] = { "same", "slower", "faster", "inconclusive" };

/* --- samples --- */

static const struct measured_run *run_at(const struct comparison *c, size_t i)
{
	return i < c->a.count ? &c->a.runs[i] : &c->b.runs[i - c->a.count];
}

static size_t run_count(const struct comparison *c)
{
	return c->a.count + c->b.count;
}

struct values {
	VEC(double) all;
	double sum; /* of the runs' values */
	double count;
	double variance; /* sum over runs, of the run's value, by the spread of its steps */
	bool any; /* some run has it */
};

/* Rows whose values are added up: those of a kind that a pattern matches, by either name. */
struct row_choice {
	const struct comparison_row *rows;
	size_t count;
	enum quantity_kind kind;
	const char *pattern; /* NULL: all of these rows */
};

static bool is_selected(const struct row_choice *s, const struct comparison_row *row)
{
	return !s->pattern ||
	       (row->kind == s->kind && (text_matches(s->pattern, row->name) ||
					 (row->was && text_matches(s->pattern, row->was))));
}

/* The variance of the mean of steps. */
static double variance_of(const double *steps, size_t count, double mean)
{
	double squares = 0;

	for (size_t i = 0; i < count; i++)
		squares += (steps[i] - mean) * (steps[i] - mean);
	return count > 1 ? squares / ((double)count * (double)(count - 1)) : 0;
}

/* Adds the sum of what is selected, of one run. */
static int add_run(const struct row_choice *s, const struct measured_run *run, bool is_a,
		   struct values *v)
{
	_cleanup_free_ double *steps = NULL; /* sums; none of what the run does not have */
	double value = 0;

	for (size_t i = 0; i < s->count; i++) {
		const struct comparison_row *row = &s->rows[i];
		const char *name = is_a && row->was ? row->was : row->name;
		const struct quantity *q =
			is_selected(s, row) ? measured_run_find(run, s->kind, name) : NULL;

		if (!q)
			continue;
		v->any = true;
		v->count += q->count;
		value += q->value;
		if (!steps)
			steps = calloc(run->step_count + 1, sizeof(*steps));
		if (!steps)
			return -ENOMEM;
		for (size_t k = 0; q->steps && k < run->step_count; k++)
			steps[k] += q->steps[k];
	}
	if (vec_push(&v->all, value) < 0)
		return -ENOMEM;
	v->sum += value;
	if (steps && quantity_types[s->kind].values == QUANTITY_OF_STEP)
		v->variance += variance_of(steps, run->step_count, value);
	return 0;
}

static int add_side(const struct comparison *c, const struct row_choice *s, bool is_a,
		    struct values *v)
{
	struct run_side side = is_a ? c->a : c->b;
	int rc = 0;

	for (size_t i = 0; i < side.count && rc == 0; i++)
		rc = add_run(s, &side.runs[i], is_a, v);
	return rc;
}

/* The standard deviation of values of runs, where too few of them show it. */
static double assumed_spread(const struct comparison *c, enum quantity_kind kind,
			     const struct values *a, const struct values *b)
{
	double runs = (double)MAX(run_count(c), 1);
	double of_runs = quantity_types[kind].unit == QUANTITY_COUNT ? 0 : COMPARISON_SPREAD;

	of_runs *= (a->sum + b->sum) / runs;
	return sqrt(of_runs * of_runs + (a->variance + b->variance) / runs);
}

/* Compares the sums of what is selected; sets the values of *row. */
static int compare(const struct comparison *c, const struct row_choice *s,
		   struct comparison_row *row)
{
	struct values a = { 0 }, b = { 0 };
	int rc = add_side(c, s, true, &a);

	if (rc == 0)
		rc = add_side(c, s, false, &b);
	if (rc == 0)
		rc = sample_compare((struct sample){ a.all.data, a.all.count },
				    (struct sample){ b.all.data, b.all.count },
				    assumed_spread(c, s->kind, &a, &b), c->seed, &row->difference);
	row->in_a = a.any;
	row->in_b = b.any;
	row->mean_a = a.sum / (double)MAX(c->a.count, 1);
	row->mean_b = b.sum / (double)MAX(c->b.count, 1);
	row->count_a = a.count / (double)MAX(c->a.count, 1);
	row->count_b = b.count / (double)MAX(c->b.count, 1);
	vec_release(&a.all);
	vec_release(&b.all);
	return rc;
}

int comparison_sum(const struct comparison *c, enum quantity_kind kind, const char *pattern,
		   struct sample_difference *out, size_t *parts)
{
	const struct row_choice s = { c->rows.data, c->rows.count, kind, pattern };
	struct comparison_row row = { .kind = kind };
	int rc = compare(c, &s, &row);

	*parts = 0;
	for (size_t i = 0; i < c->rows.count; i++)
		*parts += is_selected(&s, &c->rows.data[i]);
	*out = row.difference;
	return rc;
}

const struct comparison_row *comparison_row_of(const struct comparison *c, enum quantity_kind kind)
{
	for (size_t i = 0; i < c->rows.count; i++)
		if (c->rows.data[i].kind == kind)
			return &c->rows.data[i];
	return NULL;
}

/* --- comparability --- */

static PRINTF_LIKE(2, 3) int say(struct comparison_texts *all, const char *format, ...)
{
	va_list args;
	char *text;
	int rc;

	va_start(args, format);
	rc = vasprintf(&text, format, args);
	va_end(args);
	if (rc < 0)
		return -ENOMEM;
	rc = vec_push(all, text);
	if (rc < 0)
		free(text);
	return rc;
}

/* Steps are found by names that are equal but for digits: a run need not begin with step 0. */
static bool is_same_fact(enum run_fact fact, const char *a, const char *b)
{
	static const char digits[] = "0123456789";

	if (fact != RUN_FACT_steps_by)
		return !strcmp(a, b);
	for (;; a++, b++) {
		a += strspn(a, digits);
		b += strspn(b, digits);
		if (*a != *b || !*a)
			return *a == *b;
	}
}

/* One reason for each fact that is not the same in all runs that know it. */
static int check_facts(struct comparison *c)
{
	for (unsigned fact = 0; fact < RUN_FACT_COUNT; fact++) {
		const struct measured_run *first = NULL;

		for (size_t i = 0; i < run_count(c); i++) {
			const struct measured_run *run = run_at(c, i);

			if (!*run->facts[fact] || *run->no_steps)
				continue;
			if (!first)
				first = run;
			if (is_same_fact(fact, first->facts[fact], run->facts[fact]))
				continue;
			if (say(&c->reasons, "%s differs: %s in %s, %s in %s", run_fact_texts[fact],
				first->facts[fact], first->path, run->facts[fact], run->path) < 0)
				return -ENOMEM;
			break;
		}
	}
	return 0;
}

static int check_runs(struct comparison *c)
{
	int rc = 0;

	for (size_t i = 0; i < run_count(c) && rc == 0; i++) {
		const struct measured_run *run = run_at(c, i);

		if (*run->no_steps)
			rc = say(&c->reasons, "%s has no steps: %s", run->path, run->no_steps);
		else if (run->step_count < COMPARISON_STEPS_MIN)
			rc = say(&c->reasons, "%s has %zu step%s, fewer than %u", run->path,
				 run->step_count, run->step_count == 1 ? "" : "s",
				 COMPARISON_STEPS_MIN);
		if (rc == 0 && *run->loss)
			rc = say(&c->reasons, "%s is not complete: %s", run->path, run->loss);
		if (rc == 0 && run->slow_steps)
			rc = say(&c->notes, "%s: %zu slow step%s left out", run->path,
				 run->slow_steps, run->slow_steps == 1 ? " is" : "s are");
	}
	return rc;
}

static double mean_clock(struct run_side side)
{
	double sum = 0;
	size_t count = 0;

	for (size_t i = 0; i < side.count; i++) {
		sum += side.runs[i].clock_mhz;
		count += side.runs[i].clock_mhz > 0;
	}
	return count ? sum / (double)count : 0;
}

/* Adds the shares of slow steps: those of runs, or 0 and 1 of their steps. */
static int add_slow_steps(struct run_side side, bool by_steps, struct values *v)
{
	for (size_t i = 0; i < side.count; i++) {
		const struct measured_run *run = &side.runs[i];
		size_t steps = run->step_count + run->slow_steps;

		v->sum += (double)run->slow_steps;
		v->count += (double)steps;
		for (size_t k = 0; k < (by_steps ? steps : 1); k++)
			if (vec_push(&v->all, by_steps ? (double)(k < run->slow_steps)
						       : (double)run->slow_steps /
								 (double)MAX(steps, 1)) < 0)
				return -ENOMEM;
	}
	return 0;
}

/* Slow steps are left out, so a side that has more of them is not like the other one. */
static int check_slow_steps(struct comparison *c)
{
	struct values a = { 0 }, b = { 0 };
	struct sample_difference d = { .p = 1 };
	int rc = add_slow_steps(c->a, c->is_few, &a);
	double of_a, of_b;

	if (rc == 0)
		rc = add_slow_steps(c->b, c->is_few, &b);
	if (rc == 0)
		rc = sample_compare((struct sample){ a.all.data, a.all.count },
				    (struct sample){ b.all.data, b.all.count }, 0, c->seed, &d);
	of_a = a.sum / MAX(a.count, 1);
	of_b = b.sum / MAX(b.count, 1);
	if (rc == 0 && d.p < COMPARISON_P && fabs(of_b - of_a) > COMPARISON_SLOW_MAX)
		rc = say(&c->reasons,
			 "%.0f%% of the steps of A and %.0f%% of those of B are slow and left out; "
			 "`pitot report --steps` shows what was different in them",
			 100 * of_a, 100 * of_b);
	vec_release(&a.all);
	vec_release(&b.all);
	return rc;
}

static int check_sides(struct comparison *c)
{
	const struct comparison_row *launches = comparison_row_of(c, QUANTITY_launches);
	double a = mean_clock(c->a), b = mean_clock(c->b);
	int rc = 0;

	if (a > 0 && b > 0 && fabs(b / a - 1) > COMPARISON_CLOCK_MAX)
		rc = say(&c->reasons, "the GPU's clock differs: %.0f MHz in A, %.0f MHz in B", a,
			 b);
	if (rc == 0 && launches && fabs(launches->difference.ratio) > COMPARISON_LAUNCHES_MAX)
		rc = say(&c->notes,
			 "the work itself changed: %.0f pieces of GPU work in a step of A, %.0f in "
			 "one of B",
			 launches->difference.a, launches->difference.b);
	return rc;
}

/* --- rows --- */

static int add_names(struct comparison *c, struct run_side side, struct map *seen)
{
	for (size_t i = 0; i < side.count; i++) {
		for (size_t k = 0; k < side.runs[i].quantities.count; k++) {
			const struct quantity *q = &side.runs[i].quantities.data[k];
			uint64_t *known = map_at(seen, quantity_key(q->kind, q->name), 0);

			if (!known)
				return -ENOMEM;
			if (!(*known)++ &&
			    vec_push(&c->rows, ((struct comparison_row){ .kind = q->kind,
									 .name = q->name })) < 0)
				return -ENOMEM;
		}
	}
	return 0;
}

static struct comparison_row *row_at(struct comparison *c, enum quantity_kind kind,
				     const char *name)
{
	for (size_t i = 0; i < c->rows.count; i++)
		if (c->rows.data[i].kind == kind && !strcmp(c->rows.data[i].name, name))
			return &c->rows.data[i];
	return NULL;
}

/* One row has both names; the other is removed. */
static bool join_rows(struct comparison *c, enum quantity_kind kind, struct renamed_kernel k)
{
	struct comparison_row *row = row_at(c, kind, k.name), *old = row_at(c, kind, k.was);

	if (!row || !old)
		return false;
	row->was = old->name;
	*old = c->rows.data[--c->rows.count];
	return true;
}

static int join_renamed(struct comparison *c)
{
	static const char *const hows[] = {
		"at the same place of a step with the same grid and block",
		"as the only one of their scope that the other side lacks",
	};
	struct renamed_kernels renamed;
	size_t joined[ARRAY_SIZE(hows)] = { 0 };
	int rc = renamed_init(&renamed, c->a, c->b);

	for (size_t i = 0; i < renamed.items.count && rc == 0; i++) {
		joined[renamed.items.data[i].by_scope] +=
			join_rows(c, QUANTITY_kernel, renamed.items.data[i]);
		(void)join_rows(c, QUANTITY_path, renamed.items.data[i]);
	}
	for (size_t i = 0; i < ARRAY_SIZE(hows) && rc == 0; i++)
		if (joined[i])
			rc = say(&c->notes, "%zu kernel%s another name in B, %s", joined[i],
				 joined[i] == 1 ? " has" : "s have", hows[i]);
	renamed_release(&renamed);
	return rc;
}

static uint64_t seed_of(const struct comparison *c)
{
	uint64_t seed = 0;

	for (size_t i = 0; i < run_count(c); i++) {
		const struct measured_run *run = run_at(c, i);

		for (size_t k = 0; k < run->quantities.count; k++) {
			double value = run->quantities.data[k].value;

			seed = seed * UINT64_C(0x9e3779b97f4a7c15) +
			       hash_bytes(&value, sizeof(value));
		}
	}
	return seed;
}

ORDER(in_order, struct comparison_row,
      UP(kind)
	      ?: ORDER_OF(fabs(b->mean_b - b->mean_a), fabs(a->mean_b - a->mean_a))
	      ?: DOWN(mean_a)
	      ?: strcmp(a->name, b->name))

static int adjust(struct comparison *c)
{
	double *p = calloc(2 * c->rows.count + 1, sizeof(*p)), *rates = p + c->rows.count;
	int rc = p ? 0 : -ENOMEM;

	for (size_t i = 0; i < c->rows.count && p; i++)
		p[i] = c->rows.data[i].difference.p;
	if (rc == 0)
		rc = sample_adjust(p, c->rows.count, rates);
	for (size_t i = 0; i < c->rows.count && rc == 0; i++)
		c->rows.data[i].rate = rates[i];
	free(p);
	return rc;
}

static bool is_significant(const struct comparison_row *row, bool is_few, double step)
{
	const struct sample_difference *d = &row->difference;
	double change = fabs(d->b - d->a);

	bool is_chance = row->kind == QUANTITY_step
				 ? d->p >= COMPARISON_P
				 : row->rate >= (is_few ? COMPARISON_P : COMPARISON_RATE);

	if (is_chance || change <= 0)
		return false;
	return quantity_types[row->kind].unit != QUANTITY_NS ||
	       change >= MAX(COMPARISON_FLOOR * step, COMPARISON_FLOOR_NS);
}

static int compare_rows(struct comparison *c)
{
	const struct comparison_row *step;
	int rc = 0;

	for (size_t i = 0; i < c->rows.count && rc == 0; i++) {
		struct comparison_row *row = &c->rows.data[i];

		rc = compare(c, &(struct row_choice){ row, 1, row->kind, NULL }, row);
	}
	if (rc == 0)
		rc = adjust(c);
	vec_sort(&c->rows, in_order);
	step = comparison_row_of(c, QUANTITY_step);
	for (size_t i = 0; i < c->rows.count && rc == 0 && step; i++) {
		struct comparison_row *row = &c->rows.data[i];

		row->is_significant = is_significant(row, c->is_few, step->difference.a);
	}
	return rc;
}

/* Too few runs for a change that is not small. */
static void find_unsettled(struct comparison *c)
{
	const struct comparison_row *step = comparison_row_of(c, QUANTITY_step);

	if (c->is_few && !c->reasons.count && step && !step->is_significant &&
	    fabs(step->difference.ratio) >= COMPARISON_UNSETTLED)
		c->runs_needed =
			sample_count_needed(&step->difference, COMPARISON_P, COMPARISON_RUNS_MAX);
}

static enum verdict_kind judge(const struct comparison *c)
{
	const struct comparison_row *step = comparison_row_of(c, QUANTITY_step);

	if (c->reasons.count || !step)
		return VERDICT_INCONCLUSIVE;
	if (!step->is_significant)
		return c->runs_needed ? VERDICT_INCONCLUSIVE : VERDICT_SAME;
	return step->difference.ratio > 0 ? VERDICT_SLOWER : VERDICT_FASTER;
}

int comparison_init(struct comparison *c, struct run_side a, struct run_side b, struct error *e)
{
	struct map seen = MAP_INIT;
	int rc;

	*c = (struct comparison){ .a = a, .b = b, .is_few = MIN(a.count, b.count) < SAMPLES_FEW };
	c->seed = seed_of(c);
	rc = add_names(c, a, &seen);
	if (rc == 0)
		rc = add_names(c, b, &seen);
	map_release(&seen);
	if (rc == 0)
		rc = join_renamed(c);
	if (rc == 0)
		rc = compare_rows(c);
	if (rc == 0)
		rc = check_runs(c);
	if (rc == 0)
		rc = check_facts(c);
	if (rc == 0)
		rc = check_slow_steps(c);
	if (rc == 0)
		rc = check_sides(c);
	if (rc == 0)
		find_unsettled(c);
	c->verdict = judge(c);
	return rc < 0 ? error_set(e, rc, "out of memory") : 0;
}

static void release_texts(struct comparison_texts *t)
{
	for (size_t i = 0; i < t->count; i++)
		free(t->data[i]);
	free(t->data);
}

void comparison_release(struct comparison *c)
{
	release_texts(&c->reasons);
	release_texts(&c->notes);
	vec_release(&c->rows);
}
