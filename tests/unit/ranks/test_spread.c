#include "ranks/spread.h"

#include <math.h>

#include "base/compiler.h"
#include "support/cmocka_tests.h"

#define RANKS 8

/* Values of ranks, the smallest difference that counts, and which value is an outlier; -1: none */
static const struct sample {
	double values[RANKS];
	size_t count;
	double least;
	double median, score; /* of the last value */
	int outlier;
} samples[] = {
	/* deviations 2 1 0 1 2 60: their median is 1.5 */
	{ { 98, 99, 100, 101, 102, 160 }, 6, 0, 100.5, 59.5 * 0.6745 / 1.5, 5 },
	{ { 40, 98, 99, 100, 101, 102 }, 6, 0, 99.5, 2.5 * 0.6745 / 1.5, 0 },
	{ { 98, 99, 100, 101, 102, 160 }, 6, 60, 100.5, 59.5 / 60 * 3.5, -1 },
	{ { 98, 99, 100, 101, 102, 106 }, 6, 0, 100.5, 5.5 * 0.6745 / 1.5, -1 },
	/* Equal values: whatever differs is infinitely far away, unless it is less than counts. */
	{ { 50, 50, 50, 50, 51 }, 5, 0, 50, INFINITY, 4 },
	{ { 50, 50, 50, 50, 51 }, 5, 2.5, 50, 3.5 / 2.5, -1 },
	{ { 50, 50, 50, 50, 53 }, 5, 2.5, 50, 3 * 3.5 / 2.5, 4 },
	{ { 0, 0, 0, 0 }, 4, 0, 0, 0, -1 },
	/* Three ranks do not tell who of them is right. */
	{ { 10, 10, 90 }, 3, 1, 10, 80 * 3.5, -1 },
	{ { 10, NAN, 10, INFINITY, 90 }, 5, 1, 10, 80 * 3.5, -1 },
	{ { 10, NAN, 10, 11, 90 }, 5, 1, 10.5, 79.5 * 0.6745 / 0.5, 4 },
};

static void outliers_by_robust_scores(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		const struct sample *s = &samples[i];
		double score;
		struct spread spread;

		assert_int_equal(spread_find(s->values, s->count, &spread), 0);
		spread_limit(&spread, s->least);
		score = spread_score(&spread, s->values[s->count - 1]);
		if (spread.median != s->median ||
		    !(score == s->score || fabs(score - s->score) < 0.01 * s->score))
			fail_msg("%zu: median %g, score %g", i, spread.median, score);
		for (size_t k = 0; k < s->count; k++)
			assert_int_equal(spread_is_outlier(&spread, s->values[k]),
					 (int)k == s->outlier);
	}
}

static void unknown_values_have_no_median(void **state)
{
	static const double values[] = { NAN, NAN, NAN, NAN, NAN };
	struct spread s;

	(void)state;
	assert_int_equal(spread_find(values, ARRAY_SIZE(values), &s), 0);
	assert_true(isnan(s.median) && s.known == 0);
	assert_true(isnan(spread_score(&s, 1)));
	assert_false(spread_is_outlier(&s, 1));
	assert_int_equal(spread_find(values, 0, &s), 0);
	assert_true(isnan(s.median));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(outliers_by_robust_scores),
		cmocka_unit_test(unknown_values_have_no_median),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
