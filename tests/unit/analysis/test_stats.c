#include "analysis/stats.h"

#include <stdlib.h>
#include <string.h>

#include "report_fixture.h"

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void selection_agrees_with_sorting(void **state)
{
	uint64_t seed = 1, values[257], sorted[257], work[257];

	(void)state;
	for (int round = 0; round < 400; round++) {
		size_t count = 1 + random_u64(&seed) % ARRAY_SIZE(values);
		uint64_t range = 1 + random_u64(&seed) % (round % 2 ? 3 : 100000);

		for (size_t i = 0; i < count; i++)
			values[i] = random_u64(&seed) % range;
		if (round % 7 == 0)
			qsort(values, count, sizeof(*values), compare);
		memcpy(sorted, values, sizeof(values));
		qsort(sorted, count, sizeof(*sorted), compare);
		for (size_t k = 0; k < count; k += 1 + count / 9) {
			memcpy(work, values, sizeof(values));
			assert_int_equal(stats_select(work, count, k), sorted[k]);
		}
	}
}

static void quantiles_are_by_nearest_rank(void **state)
{
	uint64_t hundred[200], one[] = { 7 }, four[] = { 40, 10, 30, 20 };
	struct duration_stats s;

	(void)state;
	for (size_t i = 0; i < 200; i++)
		hundred[i] = 200 - i;
	s = stats_of(hundred, 200);
	assert_int_equal(s.median_ns, 100);
	assert_int_equal(s.p99_ns, 198);
	assert_int_equal(s.total_ns, 20100);
	assert_int_equal(stats_mean_ns(&s), 100);
	s = stats_of(four, 4);
	assert_int_equal(s.median_ns, 20);
	assert_int_equal(s.p99_ns, 40);
	assert_int_equal(s.min_ns, 10);
	assert_int_equal(s.max_ns, 40);
	s = stats_of(one, 1);
	assert_int_equal(s.median_ns, 7);
	assert_int_equal(s.p99_ns, 7);
	s = stats_of(NULL, 0);
	assert_int_equal(s.count + s.total_ns + s.min_ns + stats_mean_ns(&s), 0);
}

static void equal_values_are_no_worst_case(void **state)
{
	size_t count = 1000000;
	uint64_t *values = malloc(count * sizeof(*values));

	(void)state;
	assert_non_null(values);
	for (size_t i = 0; i < count; i++)
		values[i] = 5;
	assert_int_equal(stats_of(values, count).p99_ns, 5);
	free(values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selection_agrees_with_sorting),
		cmocka_unit_test(quantiles_are_by_nearest_rank),
		cmocka_unit_test(equal_values_are_no_worst_case),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
