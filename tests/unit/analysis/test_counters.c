/* test_counters.c: of which kernels a roofline can be said anything (counters.h, roofline.h). */
#include "analysis/counters.h"

#include <math.h>
#include <string.h>

#include "report_fixture.h"

#define SASS(type) "smsp__sass_thread_inst_executed_op_" type "_pred_on.sum"

enum { TIME = 1, BYTES, FADD, FMUL, FFMA, TENSOR, METRICS };

static const char *const metrics[METRICS] = {
	[TIME] = "gpu__time_duration.sum",
	[BYTES] = "dram__bytes.sum",
	[FADD] = SASS("fadd"),
	[FMUL] = SASS("fmul"),
	[FFMA] = SASS("ffma"),
	[TENSOR] = "sm__ops_path_tensor_src_fp64.sum",
};

static struct maker *begin_measured(const char *folder)
{
	struct maker *m = begin(folder, 100);

	for (uint32_t i = 1; i < METRICS; i++)
		writer_append(m->writer, TABLE_metric,
			      &(struct row_metric){ .id = i,
						    .name = maker_string(m, metrics[i]),
						    .unit = maker_string(m, ""),
						    .description = maker_string(m, "") });
	return m;
}

/* A launch with these values; NAN: not measured. `timed`: its record has times. */
static void measured(struct maker *m, uint32_t config, uint64_t correlation, bool timed,
		     const double *values)
{
	uint64_t at = correlation * 1000;
	struct row_kernel row = { .config = config,
				  .correlation = correlation,
				  .context = 1,
				  .stream = 7,
				  .start_ns = at + 100,
				  .end_ns = at + 200 };

	maker_call(m, MAKER_LAUNCH, 100, at, at + 50, correlation);
	ROW_MISSING_IF(&row, kernel, start_ns, !timed);
	ROW_MISSING_IF(&row, kernel, end_ns, !timed);
	ROW_MISSING(&row, kernel, graph);
	ROW_MISSING(&row, kernel, graph_node);
	writer_append(m->writer, TABLE_kernel, &row);
	for (uint32_t i = 1; i < METRICS; i++) {
		struct row_metric_value value = { .correlation = correlation, .metric = i };

		if (isnan(values[i]))
			continue;
		memcpy(&value.value, &values[i], sizeof(value.value));
		writer_append(m->writer, TABLE_metric_value, &value);
	}
}

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
