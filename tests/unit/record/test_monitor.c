/* What a sum grew in a second, of the last two readings. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "record/monitor.h"

static void rates(void **state)
{
	struct monitor_reading r = { .time_ns = 3 * NS_PER_S, .value = 700 };
	int64_t per_s = -1;

	(void)state;
	assert_false(monitor_rate(&r, &per_s)); /* the first */
	r.before_ns = NS_PER_S;
	r.before = 100;
	assert_true(monitor_rate(&r, &per_s));
	assert_int_equal(per_s, 300);
	r.before = 701; /* it began again */
	assert_false(monitor_rate(&r, &per_s));
	r.before = 700;
	assert_true(monitor_rate(&r, &per_s));
	assert_int_equal(per_s, 0);
	r.before_ns = r.time_ns;
	assert_false(monitor_rate(&r, &per_s));
	r = (struct monitor_reading){ 2 * NS_PER_S, NS_PER_S, INT64_MAX, 0 };
	assert_true(monitor_rate(&r, &per_s));
	assert_int_equal(per_s, INT64_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(rates) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
