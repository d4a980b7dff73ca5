#include "compare/comparison_print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "support/cmocka_tests.h"
#include "unit/compare/made_runs.h"

#define RUNS 10

struct fixture {
	struct measured_run runs[2 * RUNS];
	size_t a, b;
	struct comparison comparison;
};

static void make_sides(struct fixture *f, size_t a, size_t b, double factor)
{
	*f = (struct fixture){ .a = a, .b = b };
	for (size_t i = 0; i < a + b; i++)
		make_run(&f->runs[i], i < a ? 1 : factor);
}

static const struct comparison *compare(struct fixture *f)
{
	assert_int_equal(comparison_init(&f->comparison, (struct run_side){ f->runs, f->a },
					 (struct run_side){ f->runs + f->a, f->b }, NULL),
			 0);
	return &f->comparison;
}

static void release(struct fixture *f)
{
	comparison_release(&f->comparison);
	for (size_t i = 0; i < f->a + f->b; i++)
		measured_run_release(&f->runs[i]);
}

static enum verdict_kind verdict_of(size_t a, size_t b, double factor)
{
	struct fixture f;
	enum verdict_kind verdict;

	make_sides(&f, a, b, factor);
	verdict = compare(&f)->verdict;
	release(&f);
	return verdict;
}

/* Equal builds differ in at most 5 of 100; 3 % of what is 40 % of a step is found. */
static void test_chance_and_change(void **state)
{
	unsigned wrong = 0, found = 0;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		wrong += verdict_of(RUNS, RUNS, 1) != VERDICT_SAME;
		found += verdict_of(RUNS, RUNS, 1.03) == VERDICT_SLOWER;
	}
	assert_in_range(wrong, 0, 5);
	assert_in_range(found, 95, 100);
	assert_int_equal(verdict_of(RUNS, RUNS, 1 / 1.1), VERDICT_FASTER);
}

static const struct comparison_row *row_of(const struct comparison *c, enum quantity_kind kind,
					   const char *name)
{
	for (size_t i = 0; i < c->rows.count; i++)
		if (c->rows.data[i].kind == kind && !strcmp(c->rows.data[i].name, name))
			return &c->rows.data[i];
	fail_msg("no row %s", name);
	return NULL;
}

static void test_rows(void **state)
{
	double parts = 0;
	const struct comparison *c;
	struct fixture f;

	(void)state;
	make_sides(&f, 6, 7, 1.2);
	put(&f.runs[8], QUANTITY_kernel, "added", 0, 1);
	f.runs[8].quantities.data[f.runs[8].quantities.count - 1].value = 1;
	c = compare(&f);
	assert_false(c->is_few);
	assert_int_equal(c->rows.data[0].kind, QUANTITY_step);
	assert_true(row_of(c, QUANTITY_kernel, "gemm")->is_significant);
	assert_false(row_of(c, QUANTITY_kernel, "relu")->is_significant);
	assert_false(row_of(c, QUANTITY_launches, "")->is_significant);
	assert_false(row_of(c, QUANTITY_kernel, "added")->in_a);
	assert_true(row_of(c, QUANTITY_kernel, "added")->in_b);
	assert_true(fabs(row_of(c, QUANTITY_kernel, "gemm")->difference.ratio - 0.2) < 0.02);
	/* What a step spends on its path adds up, before and after. */
	for (size_t i = 0; i < c->rows.count; i++)
		if (c->rows.data[i].kind == QUANTITY_path)
			parts += c->rows.data[i].mean_b - c->rows.data[i].mean_a;
	assert_true(fabs(parts - 0.8e6) < 0.1e6);
	release(&f);
}

/* Normally distributed enough: Irwin and Hall's sum of twelve. */
static double random_normal(void)
{
	double sum = -6;

	for (unsigned i = 0; i < 12; i++)
		sum += random_share();
	return sum;
}

/*
 * Runs of one program that differ as a whole, by up to 5 % (standard deviation), are not called
 * different, however few or many there are. bench/bench_diff.c has the whole table.
 */
static void test_run_effects(void **state)
{
	static const size_t counts[] = { 1, 2, 3, 4, 5, RUNS };
	static const double deviations[] = { 0, 0.01, 0.03, 0.05 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(counts) * ARRAY_SIZE(deviations); i++) {
		size_t runs = counts[i / ARRAY_SIZE(deviations)];
		double deviation = deviations[i % ARRAY_SIZE(deviations)];
		unsigned different = 0, pairs = runs < SAMPLES_FEW ? 100 : 20;

		if (runs >= SAMPLES_FEW && i % ARRAY_SIZE(deviations) + 1 < ARRAY_SIZE(deviations))
			continue; /* ranks do not depend on how large effects are */
		for (unsigned pair = 0; pair < pairs; pair++) {
			struct fixture f = { .a = runs, .b = runs };
			enum verdict_kind verdict;

			for (size_t k = 0; k < 2 * runs; k++)
				make_run_with(&f.runs[k], 1 + deviation * random_normal(), 1);
			verdict = compare(&f)->verdict;
			different += verdict == VERDICT_SLOWER || verdict == VERDICT_FASTER;
			release(&f);
		}
		if (different > pairs / 20)
			fail_msg("%zu runs with effects of %g: %u of %u are called different", runs,
				 deviation, different, pairs);
	}
}

/* Only a large change is one; else more runs are needed, or nothing is shown. */
static void test_few_runs(void **state)
{
	static const struct {
		size_t a, b;
		double factor; /* of 40 % of the step */
		enum verdict_kind verdict;
	} cases[] = {
		{ 1, 1, 2, VERDICT_SLOWER },      { 1, 1, 1.3, VERDICT_INCONCLUSIVE },
		{ 1, 1, 1.02, VERDICT_SAME },     { 1, 1, 0.3, VERDICT_FASTER },
		{ 3, 3, 1.3, VERDICT_SLOWER },    { 3, 3, 1.1, VERDICT_INCONCLUSIVE },
		{ RUNS, 1, 1.3, VERDICT_SLOWER }, { RUNS, 1, 1.2, VERDICT_SLOWER },
		{ 4, RUNS, 1.02, VERDICT_SAME },
	};
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const struct comparison *c;
	struct fixture f;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		make_sides(&f, cases[i].a, cases[i].b, cases[i].factor);
		c = compare(&f);
		assert_true(c->is_few);
		if (c->verdict != cases[i].verdict)
			fail_msg("case %zu: %s", i, comparison_verdicts[c->verdict]);
		assert_int_equal(c->runs_needed != 0, c->verdict == VERDICT_INCONCLUSIVE);
		assert_false(row_of(c, QUANTITY_kernel, "relu")->is_significant);
		assert_false(row_of(c, QUANTITY_memory, "")->is_significant);
		release(&f);
	}
	make_sides(&f, 1, 1, 1.3);
	comparison_verdict_text(compare(&f), &text);
	assert_non_null(strstr(strbuf_text(&text), "so few runs: record 5 of each side"));
	release(&f);
}

/* Conditions of few runs: what the interval holds is failed, and what it only touches unknown. */
static void test_conditions_of_few_runs(void **state)
{
	static const struct {
		const char *text;
		enum condition_state state, on_point;
	} cases[] = {
		{ "step > 2%", CONDITION_UNKNOWN, CONDITION_FAILED },
		{ "step > 30%", CONDITION_PASSED, CONDITION_PASSED },
		{ "step < -2%", CONDITION_PASSED, CONDITION_PASSED },
		{ "kernel:gemm > 10%", CONDITION_FAILED, CONDITION_FAILED },
		{ "launches > 0", CONDITION_PASSED, CONDITION_PASSED },
		{ "launches > -1", CONDITION_FAILED, CONDITION_FAILED },
		{ "memory > 0B", CONDITION_PASSED, CONDITION_PASSED },
		/* one value of a run has no interval of its own: the estimate counts */
		{ "memory > -1B", CONDITION_FAILED, CONDITION_FAILED },
	};
	const struct comparison *c;
	struct fixture f;

	(void)state;
	make_sides(&f, 1, 1, 1.25);
	c = compare(&f);
	assert_int_equal(c->verdict, VERDICT_INCONCLUSIVE);
	for (size_t i = 0; i < 2 * ARRAY_SIZE(cases); i++) {
		bool on_point = i % 2;
		struct condition condition;

		assert_int_equal(condition_parse(cases[i / 2].text, &condition, NULL), 0);
		assert_int_equal(condition_check(&condition, c, on_point), 0);
		if (condition.state != (on_point ? cases[i / 2].on_point : cases[i / 2].state))
			fail_msg("%s: %s", cases[i / 2].text, condition_states[condition.state]);
		condition_release(&condition);
	}
	release(&f);
}

/* Slow steps are left out, which must not hide that one side has many of them. */
static void test_slow_steps(void **state)
{
	static const struct {
		size_t a, b, runs; /* slow steps of a run, beside STEPS others */
		const char *reason;
	} cases[] = {
		{ 0, 20, 1, "0% of the steps of A and 50% of those of B are slow" },
		{ 10, 0, 1, "33% of the steps of A and 0% of those of B are slow" },
		{ 0, 5, 5, "0% of the steps of A and 20% of those of B are slow" },
		{ 0, 2, 1, NULL },
		{ 0, 1, 5, NULL },
		{ 20, 20, 1, NULL },
		{ 5, 5, 5, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct comparison *c;
		struct fixture f;

		make_sides(&f, cases[i].runs, cases[i].runs, 1);
		for (size_t k = 0; k < f.a + f.b; k++)
			f.runs[k].slow_steps = k < f.a ? cases[i].a : cases[i].b;
		c = compare(&f);
		assert_int_equal(c->verdict, cases[i].reason ? VERDICT_INCONCLUSIVE : VERDICT_SAME);
		if (cases[i].reason)
			assert_non_null(strstr(c->reasons.data[0], cases[i].reason));
		release(&f);
	}
}

static void test_incomparable(void **state)
{
	static const struct {
		const char *fact, *no_steps, *loss;
		size_t steps;
		double clock;
		const char *reason;
	} cases[] = {
		{ "H100", "", "", STEPS, 0, "the GPU differs: H200 in x.pitot, H100 in x.pitot" },
		{ "H200", "launches do not repeat", "", STEPS, 0, "x.pitot has no steps" },
		{ "H200", "", "7 records dropped", STEPS, 0, "not complete: 7 records dropped" },
		{ "H200", "", "", 4, 0, "x.pitot has 4 steps, fewer than 5" },
		{ "H200", "", "", 1, 0, "x.pitot has 1 step, fewer than 5" },
		{ "H200", "", "", STEPS, 1500, "1980 MHz in A, 1500 MHz in B" },
		{ "", "", "", STEPS, 1970, NULL },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct comparison *c;
		struct fixture f;

		make_sides(&f, 1, 1, 1);
		f.runs[0].clock_mhz = 1980;
		f.runs[1].facts[RUN_FACT_gpu] = cases[i].fact;
		f.runs[1].no_steps = cases[i].no_steps;
		f.runs[1].loss = cases[i].loss;
		f.runs[1].step_count = cases[i].steps;
		f.runs[1].clock_mhz = cases[i].clock;
		c = compare(&f);
		assert_int_equal(c->verdict == VERDICT_INCONCLUSIVE, cases[i].reason != NULL);
		assert_int_equal(c->reasons.count, cases[i].reason != NULL);
		if (cases[i].reason)
			assert_non_null(strstr(c->reasons.data[0], cases[i].reason));
		release(&f);
	}
}

/* Steps have the same name but for their numbers. */
static void test_names_of_steps(void **state)
{
	static const struct {
		const char *a, *b;
		bool same;
	} cases[] = {
		{ "ranges like step 0", "ranges like step 17", true },
		{ "ranges like step 9", "ranges like step", false },
		{ "ranges like 3 step", "ranges like 12 step", true },
		{ "ranges like step 0", "ranges like epoch 0", false },
		{ "ranges like step 0", "ranges like step 0 b", false },
		{ "ranges like step 0", "", true }, /* not known */
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		const struct comparison *c;
		struct fixture f;

		make_sides(&f, 1, 1, 1);
		f.runs[0].facts[RUN_FACT_steps_by] = cases[i].a;
		f.runs[1].facts[RUN_FACT_steps_by] = cases[i].b;
		c = compare(&f);
		if (cases[i].same != (c->verdict == VERDICT_SAME))
			fail_msg("%s, %s: %s", cases[i].a, cases[i].b,
				 comparison_verdicts[c->verdict]);
		release(&f);
	}
}

static void test_conditions(void **state)
{
	static const struct {
		const char *text;
		enum condition_state state, on_point;
	} cases[] = {
		{ "step > 2%", CONDITION_FAILED, CONDITION_FAILED },
		{ "step>20%", CONDITION_PASSED, CONDITION_PASSED },
		{ "step > 700us", CONDITION_FAILED, CONDITION_FAILED },
		{ "step > 0.9 ms", CONDITION_PASSED, CONDITION_PASSED },
		{ "step < -1%", CONDITION_PASSED, CONDITION_PASSED },
		{ "step < 9%", CONDITION_FAILED, CONDITION_FAILED },
		{ "launches > 0", CONDITION_PASSED, CONDITION_PASSED },
		{ "kernel:gem* > 5%", CONDITION_FAILED, CONDITION_FAILED },
		{ "kernel:* > 10%", CONDITION_FAILED, CONDITION_FAILED },
		{ "kernel:relu > 5%", CONDITION_PASSED, CONDITION_PASSED },
		{ "kernel:nothing > 5%", CONDITION_UNKNOWN, CONDITION_UNKNOWN },
		{ "path:host > 1ms", CONDITION_PASSED, CONDITION_PASSED },
		{ "memory > 1KiB", CONDITION_PASSED, CONDITION_PASSED },
	};
	const struct comparison *c;
	struct condition between;
	struct fixture f;
	char text[64];

	(void)state;
	make_sides(&f, RUNS, RUNS, 1.2);
	c = compare(&f);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct condition condition;

		assert_int_equal(condition_parse(cases[i].text, &condition, NULL), 0);
		assert_int_equal(condition_check(&condition, c, false), 0);
		if (condition.state != cases[i].state)
			fail_msg("%s: %s", cases[i].text, condition_states[condition.state]);
		condition.state = CONDITION_UNKNOWN;
		assert_int_equal(condition_check(&condition, c, true), 0);
		if (condition.state != cases[i].on_point)
			fail_msg("%s on point: %s", cases[i].text,
				 condition_states[condition.state]);
		condition_release(&condition);
	}
	/* Between the interval's end and the estimate. */
	snprintf(text, sizeof(text), "step > %.9f%%",
		 50 * (c->rows.data[0].difference.low + c->rows.data[0].difference.ratio));
	assert_int_equal(condition_parse(text, &between, NULL), 0);
	assert_int_equal(condition_check(&between, c, false), 0);
	assert_int_equal(between.state, CONDITION_PASSED);
	assert_int_equal(condition_check(&between, c, true), 0);
	assert_int_equal(between.state, CONDITION_FAILED);
	condition_release(&between);
	release(&f);
}

/* Changes that are exactly at a limit, and of parts that one side does not have. */
static void test_exact_conditions(void **state)
{
	static const struct {
		const char *text;
		enum condition_state state;
	} cases[] = {
		{ "launches > 0", CONDITION_FAILED },
		{ "launches > 1", CONDITION_PASSED },
		{ "step > 2%", CONDITION_PASSED },
		{ "step > 1.9%", CONDITION_FAILED },
		{ "step > 20us", CONDITION_PASSED },
		{ "kernel:new > 4us", CONDITION_FAILED },
		{ "kernel:new > 5us", CONDITION_PASSED },
		{ "kernel:new > 5%", CONDITION_UNKNOWN },
		{ "kernel:gone < -4us", CONDITION_FAILED },
	};
	struct fixture f = { .a = RUNS, .b = RUNS };
	const struct comparison *c;

	(void)state;
	for (size_t i = 0; i < 2 * RUNS; i++) {
		bool is_b = i >= RUNS;

		f.runs[i] = (struct measured_run){ .path = "x.pitot",
						   .no_steps = "",
						   .loss = "",
						   .step_count = STEPS,
						   .facts = { "", "", "", "", "", "" } };
		for (size_t k = 0; k < STEPS; k++) {
			put(&f.runs[i], QUANTITY_step, "", k, is_b ? 1020000 : 1000000);
			put(&f.runs[i], QUANTITY_launches, "", k, is_b ? 7 : 6);
			put(&f.runs[i], QUANTITY_kernel, is_b ? "new" : "gone", k, 5000);
		}
		assert_int_equal(measured_run_finish(&f.runs[i]), 0);
	}
	c = compare(&f);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct condition condition;

		assert_int_equal(condition_parse(cases[i].text, &condition, NULL), 0);
		assert_int_equal(condition_check(&condition, c, false), 0);
		if (condition.state != cases[i].state)
			fail_msg("%s: %s", cases[i].text, condition_states[condition.state]);
		condition_release(&condition);
	}
	release(&f);
}

static void test_bad_conditions(void **state)
{
	static const char *const texts[] = { "",
					     ">",
					     "step",
					     "step > ",
					     "step > x",
					     "step > 5 apples",
					     "steps > 2%",
					     "step:x > 2%",
					     "kernel > 2%",
					     "launches > 2ms",
					     "memory > 2us",
					     "step > nan",
					     "step > inf%" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct condition condition;
		struct error e = { 0 };

		if (condition_parse(texts[i], &condition, &e) == 0)
			fail_msg("'%s' is no condition", texts[i]);
		assert_int_equal(e.code, E_USAGE);
		assert_non_null(strstr(e.text, "write it like"));
		condition_release(&condition);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chance_and_change),
		cmocka_unit_test(test_rows),
		cmocka_unit_test(test_run_effects),
		cmocka_unit_test(test_few_runs),
		cmocka_unit_test(test_conditions_of_few_runs),
		cmocka_unit_test(test_incomparable),
		cmocka_unit_test(test_slow_steps),
		cmocka_unit_test(test_names_of_steps),
		cmocka_unit_test(test_conditions),
		cmocka_unit_test(test_exact_conditions),
		cmocka_unit_test(test_bad_conditions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
