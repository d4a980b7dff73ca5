#include "analysis/stats.h"

#include <stdlib.h>
#include <string.h>

#include "report_fixture.h"

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static void selection_agrees_with_sorting(void **state)
{
	uint32_t values[257], sorted[257], work[257];
	uint64_t seed = 1;

	(void)state;
	for (int round = 0; round < 400; round++) {
		size_t count = 1 + random_u64(&seed) % ARRAY_SIZE(values);
		uint64_t range = 1 + random_u64(&seed) % (round % 2 ? 3 : 100000);

		for (size_t i = 0; i < count; i++)
			values[i] = (uint32_t)(random_u64(&seed) % range);
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

static struct duration_stats stats_of(const uint64_t *values, size_t count)
{
	struct durations d = { 0 };
	struct duration_stats s;

	for (size_t i = 0; i < count; i++)
		assert_int_equal(durations_add(&d, values[i]), 0);
	s = durations_stats(&d);
	durations_release(&d);
	return s;
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

/* Four bytes hold 4.3 s: longer ones are told apart all the same, wherever the quantiles fall. */
static void long_durations_are_exact(void **state)
{
	const uint64_t second = UINT64_C(1000000000), edge = UINT32_MAX;
	const uint64_t mixed[] = { 90 * second, 3, edge + 1, 5 * second, edge };
	const uint64_t many[] = { 3, 7 * second, 6 * second, 8 * second };
	struct duration_stats s = stats_of(mixed, 5);

	(void)state;
	assert_int_equal(s.count, 5);
	assert_int_equal(s.total_ns, 95 * second + 3 + 2 * edge + 1);
	assert_int_equal(s.min_ns, 3);
	assert_int_equal(s.max_ns, 90 * second);
	assert_int_equal(s.median_ns, edge + 1);
	assert_int_equal(s.p99_ns, 90 * second);
	s = stats_of(many, 4);
	assert_int_equal(s.median_ns, 6 * second);
	s = stats_of(many + 1, 3);
	assert_int_equal(s.min_ns, 6 * second);
	assert_int_equal(s.median_ns, 7 * second);
}

static void equal_values_are_no_worst_case(void **state)
{
	const uint64_t values[] = { 5, DURATIONS_COUNTED_NS };

	(void)state;
	for (size_t v = 0; v < ARRAY_SIZE(values); v++) {
		struct durations d = { 0 };

		for (size_t i = 0; i < 1000000; i++)
			assert_int_equal(durations_add(&d, values[v]), 0);
		assert_int_equal(durations_stats(&d).p99_ns, values[v]);
		durations_release(&d);
	}
}

static int compare_wide(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Of so many that short ones are counted: the quantiles are right wherever they fall. */
static void many_durations_are_exact(void **state)
{
	static const uint64_t limits[] = { 300, DURATIONS_COUNTED_NS + 10,
					   2 * (uint64_t)DURATIONS_COUNTED_NS, UINT64_C(100000000),
					   UINT64_C(20000000000) };
	size_t count = 3 * (size_t)DURATIONS_COUNTED_NS + 1;
	uint64_t *values = malloc(count * sizeof(*values)), seed = 7;

	(void)state;
	assert_non_null(values);
	for (size_t limit = 0; limit < ARRAY_SIZE(limits); limit++) {
		uint64_t total = 0;
		struct duration_stats s;

		for (size_t i = 0; i < count; i++)
			total += values[i] = random_u64(&seed) % limits[limit];
		s = stats_of(values, count);
		qsort(values, count, sizeof(*values), compare_wide);
		assert_int_equal(s.count, count);
		assert_int_equal(s.total_ns, total);
		assert_int_equal(s.min_ns, values[0]);
		assert_int_equal(s.max_ns, values[count - 1]);
		assert_int_equal(s.median_ns, values[(count * 50 + 99) / 100 - 1]);
		assert_int_equal(s.p99_ns, values[(count * 99 + 99) / 100 - 1]);
	}
	free(values);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(selection_agrees_with_sorting),
		cmocka_unit_test(quantiles_are_by_nearest_rank),
		cmocka_unit_test(long_durations_are_exact),
		cmocka_unit_test(equal_values_are_no_worst_case),
		cmocka_unit_test(many_durations_are_exact),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
