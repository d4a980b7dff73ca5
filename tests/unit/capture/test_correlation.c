/*
 * 64-bit correlation ids of 32-bit ones: by the time at which the halves of all ids were entered.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/clock.h"
#include "capture/cuda/correlation.h"

#define HOUR (3600 * NS_PER_S)
#define HALF (UINT64_C(1) << 31)

/* The call with that 64-bit id begins. */
static void enter(uint64_t id, uint64_t now)
{
	correlation_enter((uint32_t)id, now);
}

static void expect(uint64_t id, uint64_t time)
{
	assert_int_equal(correlation_widen((uint32_t)id, time), id);
}

static int start(void **state)
{
	(void)state;
	correlation_reset();
	return 0;
}

static void test_none(void **state)
{
	(void)state;
	expect(0, HOUR);
	expect(77, HOUR);
	enter(1, HOUR);
	expect(0, HOUR);
}

static void test_first_one_may_be_anything(void **state)
{
	(void)state;
	enter(2 * HALF - 5, HOUR);
	expect(2 * HALF - 5, HOUR);
	expect(2 * HALF - 7, HOUR - 1);
	enter(2 * HALF + 1, HOUR + 10);
	expect(2 * HALF - 1, HOUR + 5);
	expect(2 * HALF + 1, HOUR + 10);
}

/* 400 million ids an hour for a week; each call's work begins at once, and a minute later. */
static void test_a_week(void **state)
{
	const uint64_t an_hour = 400000000;

	(void)state;
	for (uint64_t hour = 1; hour < 24 * 7; hour++)
		enter(hour * an_hour + 1, hour * HOUR);
	for (uint64_t hour = 1; hour < 24 * 7; hour++) {
		expect(hour * an_hour + 1, hour * HOUR);
		expect(hour * an_hour + 1, hour * HOUR + 60 * NS_PER_S);
	}
}

/*
 * The same 32 bits: a kernel that still runs while the other call begins, and one of long before.
 */
static void test_ids_that_collide(void **state)
{
	(void)state;
	enter(5, HOUR);
	enter(HALF + 5, 8 * HOUR);
	enter(2 * HALF + 5, 14 * HOUR);
	expect(5, HOUR + 10);
	expect(5, 14 * HOUR - 2 * NS_PER_S);
	expect(2 * HALF + 5, 14 * HOUR);
	expect(2 * HALF + 5, CORRELATION_NOW);
}

/* What was queued when the next half was entered. */
static void test_work_that_begins_in_the_next_half(void **state)
{
	(void)state;
	enter(HALF - 10, HOUR);
	enter(HALF + 1, HOUR + 100);
	expect(HALF - 10, HOUR + 200);
	expect(HALF - 10, 2 * HOUR);
	expect(HALF + 1, HOUR + 100);
}

/* The GPU's clock is a little behind: work seems to begin before its call. */
static void test_work_that_seems_to_begin_before_its_call(void **state)
{
	(void)state;
	enter(HALF - 10, HOUR);
	enter(HALF + 1, 8 * HOUR);
	enter(2 * HALF + 1, 14 * HOUR);
	expect(HALF + 1, 8 * HOUR - 5000);
	expect(2 * HALF + 1, 14 * HOUR - 5000);
	expect(HALF - 1, 8 * HOUR + 5000);
}

/* A thread that got its id before the half ended, and says so after another one. */
static void test_a_thread_that_is_late(void **state)
{
	(void)state;
	enter(HALF - 10, HOUR);
	enter(HALF + 1, HOUR + 100);
	enter(HALF - 1, HOUR + 150);
	enter(HALF + 2, HOUR + 200);
	expect(HALF - 1, HOUR + 150);
	expect(HALF + 2, HOUR + 200);
	expect(HALF + 2, CORRELATION_NOW);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_none, start),
		cmocka_unit_test_setup(test_first_one_may_be_anything, start),
		cmocka_unit_test_setup(test_a_week, start),
		cmocka_unit_test_setup(test_ids_that_collide, start),
		cmocka_unit_test_setup(test_work_that_begins_in_the_next_half, start),
		cmocka_unit_test_setup(test_work_that_seems_to_begin_before_its_call, start),
		cmocka_unit_test_setup(test_a_thread_that_is_late, start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
