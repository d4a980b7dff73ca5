/* test_counters.c: of which kernels a roofline can be said anything (counters.h, roofline.h). */
#include "analysis/counters.h"

#include "counter_rows.h"

static size_t points(const char *folder, const struct counters **counters, struct analyzed *a)
{
	analyze(a, folder, EVERYTHING);
	*counters = a->report.counters;
	return a->report.counters->roofline.count;
}

/* Operations per second need the time of all launches that have the operations. */
static void a_launch_without_a_time(void **state)
{
	const double values[METRICS] = { 0, NAN, 100, 10, 10, 10, NAN };
	struct maker *m = begin_measured(*state);
	const struct counters *c;
	struct analyzed a;

	measured(m, maker_config(m, "timed", 1, 32), 1, true, values);
	measured(m, maker_config(m, "half", 1, 32), 2, true, values);
	measured(m, maker_config(m, "half", 1, 32), 3, false, values);
	maker_close(m, 9000);
	assert_int_equal(points(*state, &c, &a), 1);
	assert_int_equal(c->kernel_count, 2);
	assert_string_equal(trace_string(a.trace, c->roofline.items[0].kernel), "timed");
	assert_true(c->roofline.items[0].flops == 40 / 100e-9);
	analyzed_release(&a);
}

/* A time of 0 is none: the record's counts. */
static void a_measured_time_of_nothing(void **state)
{
	const double values[METRICS] = { 0, 0, 100, 10, 10, 10, NAN };
	struct maker *m = begin_measured(*state);
	const struct counters *c;
	struct analyzed a;

	measured(m, maker_config(m, "timed", 1, 32), 1, true, values);
	maker_close(m, 9000);
	assert_int_equal(points(*state, &c, &a), 1);
	assert_true(c->kernels[0].total_ns == 100);
	analyzed_release(&a);
}

/* A kernel without operations of tensor cores may have others; one without any has a bandwidth. */
static void kernels_that_do_not_compute(void **state)
{
	const double tensor[METRICS] = { 0, 50, 100, NAN, NAN, NAN, 0 },
		     nothing[METRICS] = { 0, 50, 100, 0, 0, 0, 0 };
	struct maker *m = begin_measured(*state);
	const struct counters *c;
	struct analyzed a;

	measured(m, maker_config(m, "tensor", 1, 32), 1, true, tensor);
	measured(m, maker_config(m, "nothing", 1, 32), 2, true, nothing);
	maker_close(m, 9000);
	assert_int_equal(points(*state, &c, &a), 1);
	assert_string_equal(trace_string(a.trace, c->roofline.items[0].kernel), "nothing");
	assert_int_equal(c->roofline.items[0].type, ROOF_NONE);
	assert_true(c->roofline.items[0].bandwidth == 100 / 50e-9);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(a_launch_without_a_time),
		folder_test(a_measured_time_of_nothing),
		folder_test(kernels_that_do_not_compute),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
