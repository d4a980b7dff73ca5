#include "capture/amd/amd_boottime.h"

#include "base/clock.h"
#include "support/cmocka_tests.h"

#define HOUR (3600 * NS_PER_S)
#define SUSPENDS 20u

/* Each hour awake is followed by one asleep. Records of the last hours may come late. */
static void times_between_suspends(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < SUSPENDS; i++) {
		uint64_t awake = (i + 1) * HOUR, asleep = i * HOUR;

		amd_boottime_add(awake, awake + asleep);
		amd_boottime_add(awake + HOUR / 2, awake + asleep + HOUR / 2 + 1);
		for (uint64_t back = 0; back <= i && back < 8; back++) {
			uint64_t then = awake - back * HOUR + HOUR / 4;

			assert_int_equal(amd_boottime_convert(then + asleep - back * HOUR), then);
		}
	}
	assert_int_equal(amd_boottime_convert(1), 0); /* of another clock */
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(times_between_suspends) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
