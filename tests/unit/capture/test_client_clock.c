/* CUPTI's time as the time of a client's clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "capture/cuda/client/client_clock.h"

#define BEGIN (1700000000 * NS_PER_S)

static uint64_t off(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* A second between readings that are `noise` ticks wrong by turns. */
static void fill(struct client_clock *c, unsigned pairs, double rate, int64_t noise)
{
	for (unsigned i = 0; i < pairs; i++)
		client_clock_add(c, BEGIN + i * NS_PER_S,
				 5000 + (uint64_t)((double)(i * NS_PER_S) * rate) +
					 (uint64_t)(i & 1 ? noise : -noise));
}

static void test_nanoseconds_keep_durations(void **state)
{
	struct client_clock c = { .count = 0 };

	(void)state;
	fill(&c, 5, 1, 300);
	for (uint64_t t = BEGIN; t < BEGIN + 7 * NS_PER_S; t += 123456789) {
		uint64_t start = client_clock_convert(&c, t, t);

		assert_true(off(start, t - BEGIN + 5000) <= 1000);
		assert_int_equal(client_clock_convert(&c, t, t + 1281) - start, 1281);
	}
}

static void test_cycles_are_converted(void **state)
{
	struct client_clock c = { .count = 0 };
	uint64_t start, end;

	(void)state;
	fill(&c, 5, 2.1, 300);
	start = client_clock_convert(&c, BEGIN + NS_PER_S / 2, BEGIN + NS_PER_S / 2);
	end = client_clock_convert(&c, BEGIN + NS_PER_S / 2, BEGIN + NS_PER_S / 2 + 1000000);
	assert_true(off(start, 5000 + (uint64_t)(2.1 * (double)NS_PER_S / 2)) <= 1000);
	assert_true(off(end - start, 2100000) <= 10);
	/* Beyond both ends, too: a session begins before its first flush. */
	assert_true(off(client_clock_convert(&c, BEGIN + 9 * NS_PER_S, BEGIN + 9 * NS_PER_S),
			5000 + (uint64_t)(2.1 * 9 * (double)NS_PER_S)) <= 3000);
}

static void test_more_pairs_than_are_kept(void **state)
{
	struct client_clock c = { .count = 0 };

	(void)state;
	fill(&c, 3 * CLIENT_CLOCK_PAIRS, 3, 0);
	assert_int_equal(c.count, CLIENT_CLOCK_PAIRS);
	assert_int_equal(c.pairs[0].cupti, BEGIN);
	for (unsigned i = 1; i < c.count; i++)
		assert_true(c.pairs[i].cupti > c.pairs[i - 1].cupti);
	assert_int_equal(
		client_clock_convert(&c, BEGIN + 190 * NS_PER_S, BEGIN + 190 * NS_PER_S + 100),
		5000 + 570 * NS_PER_S + 300);
}

/* CUPTI's clock is CLOCK_REALTIME, which somebody sets an hour forward or back: the rate stays. */
static void test_a_clock_that_is_set(void **state)
{
	static const int64_t steps[] = { 3600 * (int64_t)NS_PER_S, -3600 * (int64_t)NS_PER_S };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct client_clock c = { .count = 0 };
		uint64_t later = BEGIN + 5 * NS_PER_S + (uint64_t)steps[i];

		fill(&c, 5, 2.5, 0);
		client_clock_add(&c, later, 5000 + 5 * NS_PER_S * 5 / 2);
		assert_int_equal(c.count, 1);
		assert_int_equal(client_clock_convert(&c, later + 1000, later + 3000),
				 5000 + 5 * NS_PER_S * 5 / 2 + 7500);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nanoseconds_keep_durations),
		cmocka_unit_test(test_cycles_are_converted),
		cmocka_unit_test(test_more_pairs_than_are_kept),
		cmocka_unit_test(test_a_clock_that_is_set),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
