#include "ranks/late_evidence.h"

#include <math.h>
#include <stdbool.h>

#include "support/cmocka_tests.h"

#define MANY 2000

static void find(const struct late_round *rounds, size_t count, struct late_evidence *out)
{
	struct late_evidence again;

	assert_int_equal(late_evidence_find(rounds, count, out), 0);
	assert_int_equal(late_evidence_find(rounds, count, &again), 0);
	assert_true(count < LATE_ROUNDS_LEAST || again.own.low == out->own.low);
	assert_true(count < LATE_ROUNDS_LEAST || again.own.high == out->own.high);
}

static bool is_near(double value, double expected, double by)
{
	return fabs(value - expected) <= by;
}

static void equal_delays_have_no_spread(void **state)
{
	struct late_round rounds[20];
	struct late_evidence e;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rounds); i++)
		rounds[i] = (struct late_round){ 1000, 200, 50 };
	find(rounds, ARRAY_SIZE(rounds), &e);
	assert_true(is_near(e.all.value, 0.2, 1e-9) && is_near(e.all.low, 0.2, 1e-9));
	assert_true(is_near(e.own.low, 0.05, 1e-9) && is_near(e.own.high, 0.05, 1e-9));
	assert_true(is_near(e.part.value, 0.25, 1e-9) && is_near(e.part.low, 0.25, 1e-9));
	assert_true(is_near(e.part.high, 0.25, 1e-9));
}

/* Of k delays among many rounds a draw has as many as a Poisson variable of mean k. */
static void few_long_delays_prove_little(void **state)
{
	static const struct {
		unsigned delays, low, high;
	} cases[] = { { 1, 0, 3 }, { 3, 0, 7 }, { 4, 1, 8 }, { 20, 12, 29 } };
	static struct late_round rounds[400];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct late_evidence e;

		for (size_t k = 0; k < ARRAY_SIZE(rounds); k++)
			rounds[k] = (struct late_round){ 10, k < cases[i].delays ? 100 : 0,
							 k < cases[i].delays ? 100 : 0 };
		find(rounds, ARRAY_SIZE(rounds), &e);
		assert_true(is_near(e.own.value, cases[i].delays / 40.0, 1e-9));
		assert_true(is_near(e.own.low, cases[i].low / 40.0, 0.026));
		assert_true(is_near(e.own.high, cases[i].high / 40.0, 0.051));
		assert_true(e.part.high == 1);
	}
}

/* The normal approximation: 1.96 standard errors of the sum. */
static void delays_in_half_of_the_rounds(void **state)
{
	static struct late_round rounds[MANY / 5];
	size_t count = ARRAY_SIZE(rounds);
	double error = 1.96 * sqrt(0.25 / (double)count);
	struct late_evidence e;

	(void)state;
	for (size_t i = 0; i < count; i++)
		rounds[i] = (struct late_round){ 100, i % 2 ? 100 : 0, i % 2 ? 30 : 0 };
	find(rounds, count, &e);
	assert_true(is_near(e.all.low, 0.5 - error, error / 5));
	assert_true(is_near(e.all.high, 0.5 + error, error / 5));
	assert_true(is_near(e.own.low, 0.3 * (0.5 - error), error / 10));
	assert_true(is_near(e.part.low, 0.3, 1e-9));
}

/* A pause in a round is a part of the time, and moves no interval. */
static void a_round_that_is_longer(void **state)
{
	struct late_round rounds[20];
	struct late_evidence e;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rounds); i++)
		rounds[i] = (struct late_round){ i ? 100 : 8100, 50, 50 };
	find(rounds, ARRAY_SIZE(rounds), &e);
	assert_true(is_near(e.own.value, 0.1, 1e-9) && is_near(e.own.low, 0.1, 1e-9));
	assert_true(is_near(e.own.high, 0.1, 1e-9));
}

static void too_few_rounds(void **state)
{
	struct late_round rounds[LATE_ROUNDS_LEAST];
	struct late_evidence e;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(rounds); i++)
		rounds[i] = (struct late_round){ 100, 10, i ? 0 : 10 };
	find(rounds, LATE_ROUNDS_LEAST - 1, &e);
	assert_true(is_near(e.own.value, 0.025, 1e-9) && is_near(e.part.value, 0.25, 1e-9));
	assert_true(isnan(e.own.low) && isnan(e.all.high) && isnan(e.part.low));
	find(rounds, LATE_ROUNDS_LEAST, &e);
	assert_true(e.own.low == 0 && e.own.high > 0.02);
	find(rounds, 0, &e);
	assert_true(e.own.value == 0 && e.part.value == 0 && isnan(e.all.low));
	rounds[0].span_ns = 0;
	find(rounds, 1, &e);
	assert_true(e.own.value == 0 && e.all.value == 0 && e.part.value == 1);
}

/* Neighbours are drawn together: the same sums, and nearly the same intervals. */
static void more_rounds_than_are_drawn(void **state)
{
	static struct late_round rounds[MANY];
	struct late_evidence e;

	(void)state;
	for (size_t i = 0; i < MANY; i++)
		rounds[i] =
			(struct late_round){ 100, 10, i < 4 * MANY / LATE_ROUNDS_MOST ? 10 : 0 };
	find(rounds, MANY, &e);
	assert_true(is_near(e.all.value, 0.1, 1e-9) && is_near(e.all.low, 0.1, 0.001));
	assert_true(e.part.low > 0 && e.part.high < 0.02);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_delays_have_no_spread),
		cmocka_unit_test(few_long_delays_prove_little),
		cmocka_unit_test(delays_in_half_of_the_rounds),
		cmocka_unit_test(a_round_that_is_longer),
		cmocka_unit_test(too_few_rounds),
		cmocka_unit_test(more_rounds_than_are_drawn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
