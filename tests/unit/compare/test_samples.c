#include "compare/samples.h"

#include <math.h>

#include "support/cmocka_tests.h"

#define SAMPLE(...)                                                                                \
	((struct sample){ (const double[]){ __VA_ARGS__ },                                         \
			  sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double) })

static struct sample_difference compare(struct sample a, struct sample b)
{
	struct sample_difference d;

	assert_int_equal(sample_compare(a, b, 3, 7, &d), 0);
	return d;
}

static void assert_near(double value, double expected)
{
	if (!(fabs(value - expected) <= 1e-9 * (1 + fabs(expected))))
		fail_msg("%.12g is not %.12g", value, expected);
}

static void test_medians(void **state)
{
	double median;

	(void)state;
	assert_int_equal(sample_median(SAMPLE(3, 1, 2), &median), 0);
	assert_near(median, 2);
	assert_int_equal(sample_median(SAMPLE(3, 1, 2, 10), &median), 0);
	assert_near(median, 2.5);
	assert_int_equal(sample_median((struct sample){ NULL, 0 }, &median), 0);
	assert_near(median, 0);
}

/* The sums of midranks, twice, of all choices of n values, whoever has them. */
static double oracle(const double *values, unsigned n, unsigned count)
{
	unsigned far = 0, all = 0, of_first = 0, twice[16], middle = n * (count + 1);

	for (unsigned i = 0; i < count; i++) {
		twice[i] = 1;
		for (unsigned k = 0; k < count; k++)
			twice[i] += (values[k] < values[i]) + (values[k] <= values[i]);
		of_first += i < n ? twice[i] : 0;
	}
	for (unsigned choice = 0; choice < 1u << count; choice++) {
		unsigned sum = 0;

		if ((unsigned)__builtin_popcount(choice) != n)
			continue;
		for (unsigned i = 0; i < count; i++)
			sum += choice >> i & 1 ? twice[i] : 0;
		all++;
		far += abs((int)sum - (int)middle) >= abs((int)of_first - (int)middle);
	}
	return (double)far / all;
}

static void test_exact_p(void **state)
{
	unsigned seed = 1;

	(void)state;
	assert_near(compare(SAMPLE(6, 7, 8, 9, 10), SAMPLE(1, 2, 3, 4, 5)).p, 2.0 / 252);
	assert_near(compare(SAMPLE(1, 1, 1, 1, 1), SAMPLE(1, 1, 1, 1, 1, 1)).p, 1);
	for (unsigned round = 0; round < 100; round++) {
		double values[13];
		unsigned n = 5 + round % 3, count = n + 5 + round % 2;

		for (unsigned i = 0; i < count; i++)
			values[i] = (seed = seed * 1103515245 + 12345) >> 16 & 7;
		assert_near(compare((struct sample){ values, n },
				    (struct sample){ values + n, count - n })
				    .p,
			    oracle(values, n, count));
	}
}

/* Of 30 and 40 values, by scipy.stats.mannwhitneyu(a, b, method="asymptotic"). */
static void test_normal_p(void **state)
{
	double a[30], b[40];

	(void)state;
	for (unsigned i = 0; i < 30; i++)
		a[i] = i * 7 % 30;
	for (unsigned i = 0; i < 40; i++)
		b[i] = 5 + i * 11 % 29;
	assert_near(compare((struct sample){ a, 30 }, (struct sample){ b, 40 }).p,
		    0.062299144416952355);
	assert_near(compare((struct sample){ b, 40 }, (struct sample){ a, 30 }).p,
		    0.062299144416952355);
	assert_true(isnan(compare((struct sample){ a, 30 }, (struct sample){ b, 40 }).shift));
}

static void test_differences(void **state)
{
	struct sample_difference d =
		compare(SAMPLE(100, 101, 99, 100, 100), SAMPLE(110, 111, 109, 110, 110));

	(void)state;
	assert_near(d.ratio, 0.1);
	assert_near(d.shift, 10);
	assert_true(d.low <= d.ratio && d.ratio <= d.high);
	assert_true(d.low > 0.07 && d.high < 0.13);
	d = compare(SAMPLE(5, 5, 5, 5, 5), SAMPLE(5, 5, 5, 5, 5));
	assert_near(d.ratio, 0);
	assert_near(d.low, 0);
	assert_near(d.high, 0);
	d = compare(SAMPLE(0, 0, 0, 0, 0), SAMPLE(1, 1, 1, 1, 1));
	assert_true(isnan(d.ratio) && isnan(d.low) && isnan(d.high));
	assert_near(d.change_low, 1);
	assert_near(d.change_high, 1);
	/* Some resamples of it have a median of 0, by which nothing can be divided. */
	d = compare(SAMPLE(0, 0, 4, 4, 4), SAMPLE(5, 5, 5, 5, 5));
	assert_near(d.ratio, 0.25);
	assert_true(isnan(d.low) && isnan(d.high));
	assert_near(d.change_low, 1);
	assert_near(d.change_high, 5);
	d = compare((struct sample){ NULL, 0 }, SAMPLE(5));
	assert_near(d.p, 1);
	assert_true(isnan(d.low) && isnan(d.change_low));
}

/* By a numerical integral of Student's density. */
static void test_few_values(void **state)
{
	struct sample_difference d = compare(SAMPLE(100), SAMPLE(120));

	(void)state;
	assert_near(d.p, 0.009212063787397473);
	assert_near(d.ratio, 0.2);
	assert_near(d.error, 3 * sqrt(2));
	assert_int_equal(d.freedom, 4);
	assert_true(isnan(d.spread));
	assert_near(sample_least_change(&d, d.p), 20);
	assert_near((d.low + d.high) / 2, d.ratio);
	assert_near(d.change_high - 20, sample_least_change(&d, 0.05));
	assert_int_equal(sample_count_needed(&d, 0.01, 64), SAMPLES_FEW);
	d = compare(SAMPLE(100, 101), SAMPLE(104, 106, 108));
	assert_near(d.p, 0.04819825741000905);
	assert_near(d.b - d.a, 5.5);
	assert_near(d.spread, sqrt(8.5 / 3));
	d = compare(SAMPLE(10, 11, 12, 13, 14), SAMPLE(20));
	assert_near(d.p, 0.015928414297471);
	/* Equal values of which few are known may be chance; only where nothing is assumed not. */
	assert_true(compare(SAMPLE(100, 100), SAMPLE(110, 110)).p > 0.01);
	assert_int_equal(sample_compare(SAMPLE(6), SAMPLE(7), 0, 7, &d), 0);
	assert_near(d.p, 0);
	assert_near(d.change_low, 1);
	assert_int_equal(sample_compare(SAMPLE(6), SAMPLE(6), 0, 7, &d), 0);
	assert_near(d.p, 1);
	d = compare(SAMPLE(0, 0), SAMPLE(5, 5));
	assert_true(isnan(d.ratio) && isnan(d.low) && d.change_low < 5);
	assert_true(isnan(compare(SAMPLE(0), SAMPLE(0)).change_low));
}

/* The smaller the change beside the values' own spread, the more of them are needed. */
static void test_count_needed(void **state)
{
	struct sample_difference large = compare(SAMPLE(98, 102), SAMPLE(108, 112));
	struct sample_difference small = compare(SAMPLE(98, 102), SAMPLE(102, 106));
	struct sample_difference none = compare(SAMPLE(98, 102), SAMPLE(98, 102));

	(void)state;
	assert_int_equal(sample_count_needed(&large, 0.01, 64), SAMPLES_FEW);
	assert_int_equal(sample_count_needed(&small, 0.01, 64), 14);
	assert_int_equal(sample_count_needed(&none, 0.01, 64), 64);
}

/* Of two samples of one distribution, about 5 % of the intervals miss 0 and of the tests say so. */
static void test_chance(void **state)
{
	unsigned missed = 0, significant = 0, rounds = 400;
	uint64_t seed = 1;

	(void)state;
	for (unsigned round = 0; round < rounds; round++) {
		double values[20];
		struct sample_difference d;

		for (unsigned i = 0; i < 20; i++) {
			seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
			values[i] = 100 + (double)(seed >> 40) / (1 << 24);
		}
		d = compare((struct sample){ values, 10 }, (struct sample){ values + 10, 10 });
		missed += d.low > 0 || d.high < 0;
		significant += d.p < 0.05;
	}
	assert_in_range(missed, 1, rounds * 8 / 100);
	assert_in_range(significant, rounds * 2 / 100, rounds * 8 / 100);
}

static void test_the_same_again(void **state)
{
	struct sample_difference d = compare(SAMPLE(1, 2, 3, 4, 9), SAMPLE(2, 3, 4, 7, 11));
	struct sample_difference again = compare(SAMPLE(1, 2, 3, 4, 9), SAMPLE(2, 3, 4, 7, 11));

	(void)state;
	assert_memory_equal(&d, &again, sizeof(d));
}

static void test_many(void **state)
{
	const double p[] = { 0.01, 0.04, 0.03, 0.005, 0.9 };
	double adjusted[5];

	(void)state;
	assert_int_equal(sample_adjust(p, 5, adjusted), 0);
	assert_near(adjusted[0], 0.025);
	assert_near(adjusted[1], 0.05);
	assert_near(adjusted[2], 0.05);
	assert_near(adjusted[3], 0.025);
	assert_near(adjusted[4], 0.9);
	assert_int_equal(sample_adjust(p, 0, adjusted), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_medians),    cmocka_unit_test(test_exact_p),
		cmocka_unit_test(test_normal_p),   cmocka_unit_test(test_differences),
		cmocka_unit_test(test_few_values), cmocka_unit_test(test_count_needed),
		cmocka_unit_test(test_chance),     cmocka_unit_test(test_the_same_again),
		cmocka_unit_test(test_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
