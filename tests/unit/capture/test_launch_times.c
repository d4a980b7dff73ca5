/* test_launch_times.c: times of launches until their records arrive, if ever (launch_times.h). */
#include "capture/engines/launch_times.h"

#include "capture/cuda/correlation.h"
#include "support/cmocka_tests.h"

#define MANY 20000u /* more than there is room for */

static bool take(enum launch_time kind, uint32_t correlation, uint64_t expected)
{
	uint64_t time_ns;

	if (!launch_times_take(kind, correlation, CORRELATION_NOW, &time_ns))
		return false;
	assert_int_equal(time_ns, expected);
	return true;
}

static void test_each_is_taken_once(void **state)
{
	(void)state;
	assert_true(launch_times_add(LAUNCH_START, 1, 100));
	assert_true(launch_times_add(LAUNCH_END, 1, 200));
	assert_false(take(LAUNCH_PATCHED, 1, 0));
	assert_true(take(LAUNCH_START, 1, 100));
	assert_true(take(LAUNCH_END, 1, 200));
	assert_false(take(LAUNCH_START, 1, 0));
	for (enum launch_time kind = 0; kind < LAUNCH_TIMES; kind++)
		assert_true(launch_times_add(kind, 1, 300));
	launch_times_clear();
	for (enum launch_time kind = 0; kind < LAUNCH_TIMES; kind++)
		assert_false(take(kind, 1, 0));
}

/* Records of some launches were lost: their marks make room for new ones, of each kind apart. */
static void test_those_whose_records_are_lost(void **state)
{
	(void)state;
	assert_true(launch_times_add(LAUNCH_END, 1, 1));
	for (uint32_t i = 1; i <= MANY; i++) {
		assert_true(launch_times_add(LAUNCH_PATCHED, i, i));
		if (i > MANY / 2)
			assert_true(take(LAUNCH_PATCHED, i, i));
	}
	assert_false(take(LAUNCH_PATCHED, 1, 0));
	assert_true(launch_times_add(LAUNCH_PATCHED, 1, 7));
	assert_true(take(LAUNCH_PATCHED, 1, 7));
	assert_true(take(LAUNCH_END, 1, 1));
	for (uint32_t i = 1; i <= 1000; i++)
		assert_true(launch_times_add(LAUNCH_PATCHED, i, i));
	for (uint32_t i = 1; i <= 1000; i++)
		assert_true(take(LAUNCH_PATCHED, i, i));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_is_taken_once),
		cmocka_unit_test(test_those_whose_records_are_lost),
	};

	correlation_enter(1, 1);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
