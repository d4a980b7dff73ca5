/* test_call_polls.c: which queries of a thread are the ends of waits, and since when they waited */
#include "capture/cuda/call_polls.h"
#include "support/cmocka_tests.h"

#define US UINT64_C(1000)

/* A query of 1 us; ring_count_call counts it, as the recorder does after it. */
static uint64_t query(struct ring *r, uint64_t handle, bool done, uint64_t us)
{
	uint64_t since = call_poll(r, handle, done, us * US, (us + 1) * US);

	ring_count_call(r, (us + 1) * US);
	assert_int_equal(since % US, 0);
	return since / US;
}

static void a_run_of_queries_is_one_wait(void **state)
{
	struct ring r = { .head = 0 };

	(void)state;
	for (uint64_t us = 10; us < 400; us += 3)
		assert_int_equal(query(&r, 0xe, false, us), 0);
	assert_int_equal(query(&r, 0xe, true, 402), 10);
	assert_int_equal(query(&r, 0xe, true, 404), 0); /* it is done already */
	assert_int_equal(query(&r, 0, false, 410), 0); /* the default stream */
	assert_int_equal(query(&r, 0, true, 511), 410); /* 100 us later */
	assert_int_equal(query(&r, 0, false, 600), 0);
	assert_int_equal(query(&r, 0, true, 702), 0); /* 101 us later: it did something else */
}

static void another_call_begins_another_wait(void **state)
{
	struct ring r = { .head = 0 };

	(void)state;
	assert_int_equal(query(&r, 0xe, false, 10), 0);
	ring_count_call(&r, 12 * US);
	assert_int_equal(query(&r, 0xe, true, 13), 0);
	assert_int_equal(query(&r, 0xe, false, 20), 0);
	ring_count_call(&r, 22 * US);
	assert_int_equal(query(&r, 0xe, false, 23), 0);
	assert_int_equal(query(&r, 0xe, true, 25), 23);
}

/* Of several events in turns, each that becomes done ends a wait; a done one ends none. */
static void several_at_a_time(void **state)
{
	struct ring r = { .head = 0 };

	(void)state;
	for (uint64_t us = 10; us < 50; us += 4) {
		assert_int_equal(query(&r, 0xa, false, us), 0);
		assert_int_equal(query(&r, 0xb, false, us + 2), 0);
	}
	assert_int_equal(query(&r, 0xa, false, 50), 0);
	assert_int_equal(query(&r, 0xb, true, 52), 10);
	assert_int_equal(query(&r, 0xa, false, 54), 0);
	assert_int_equal(query(&r, 0xb, true, 56), 0);
	assert_int_equal(query(&r, 0xa, false, 58), 0);
	assert_int_equal(query(&r, 0xa, true, 60), 58);
	/* The first of more than four is forgotten. */
	for (uint64_t handle = 1; handle <= 5; handle++)
		assert_int_equal(query(&r, handle, false, 60 + handle), 0);
	assert_int_equal(query(&r, 5, true, 67), 61);
	assert_int_equal(query(&r, 2, false, 68), 0);
	assert_int_equal(query(&r, 1, true, 69), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_of_queries_is_one_wait),
		cmocka_unit_test(another_call_begins_another_wait),
		cmocka_unit_test(several_at_a_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
