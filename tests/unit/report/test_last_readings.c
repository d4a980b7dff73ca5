/* What the GPUs said last before the end: nothing that is older, later, or of another GPU. */
#include "analysis/last_readings.h"

#include <string.h>

#include "../analysis/report_fixture.h"
#include "analysis/thread_states.h"
#include "report/section.h"

#define SECOND UINT64_C(1000000000)
#define SEEN_NS (100 * SECOND)

static void add_sample(struct maker *m, enum metric_id id, uint64_t time_ns, uint32_t device,
		       int64_t value)
{
	struct row_counter counter = { .id = id,
				       .name = maker_string(m, "x"),
				       .unit = maker_string(m, ""),
				       .description = maker_string(m, "") };
	struct row_counter_sample row = {
		.time_ns = time_ns, .counter = id, .device = device, .value = value
	};

	ROW_MISSING(&counter, counter, reading);
	writer_append(m->writer, TABLE_counter, &counter);
	ROW_MISSING(&row, counter_sample, thread);
	writer_append(m->writer, TABLE_counter_sample, &row);
}

static void add_end(struct maker *m)
{
	struct row_unfinished row = { .time_ns = SEEN_NS,
				      .kind = unfinished_kind_thread,
				      .thread = 5,
				      .missing = schema_missing(TABLE_unfinished) };

	ROW_PRESENT(&row, unfinished, thread);
	writer_append(m->writer, TABLE_unfinished, &row);
}

static void readings_before_the_end(void **state)
{
	const char *folder = *state;
	struct maker *m = begin(folder, 100);
	const struct gpu_last_readings *gpus;
	struct analyzed a;

	maker_device(m, 1, 1);
	add_sample(m, METRIC_gpu_power, 96 * SECOND, 0, 1);
	add_sample(m, METRIC_gpu_power, 99 * SECOND, 0, 2);
	add_sample(m, METRIC_gpu_power, 101 * SECOND, 0, 3); /* after it */
	add_sample(m, METRIC_gpu_power, 98 * SECOND, 1, 4);
	add_sample(m, METRIC_gpu_sm_clock, 94 * SECOND, 0, 5); /* too old */
	add_sample(m, METRIC_gpu_temperature, 95 * SECOND, 0, 6);
	add_sample(m, METRIC_gpu_xid, 40 * SECOND, 0, 31);
	add_sample(m, METRIC_gpu_xid, 39 * SECOND, 1, 79); /* too old */
	add_end(m);
	maker_close(m, 102 * SECOND);
	analyze(&a, folder, EVERYTHING);
	gpus = a.report.last_readings->gpus;
	assert_int_equal(a.report.last_readings->seen_ns, SEEN_NS);
	assert_int_equal(a.report.gpus.count, 2);
	assert_int_equal(gpus[0].at[METRIC_gpu_power].value, 2);
	assert_int_equal(gpus[0].at[METRIC_gpu_power].time_ns, 99 * SECOND);
	assert_int_equal(gpus[1].at[METRIC_gpu_power].value, 4);
	assert_int_equal(gpus[0].at[METRIC_gpu_sm_clock].time_ns, 0);
	assert_int_equal(gpus[0].at[METRIC_gpu_temperature].value, 6);
	assert_int_equal(gpus[0].at[METRIC_gpu_xid].value, 31);
	assert_int_equal(gpus[1].at[METRIC_gpu_xid].time_ns, 0);
	assert_string_equal(a.report.last_readings->refusal, "");
	analyzed_release(&a);
}

/* A kernel that hangs, and what its GPU said beside it. */
static void a_sentence_about_the_gpu(void **state)
{
	const char *folder = *state;
	struct maker *m = begin(folder, 100);
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct row_unfinished kernel = { .time_ns = SEEN_NS,
					 .kind = unfinished_kind_kernel,
					 .correlation = 1,
					 .config = maker_config(m, "spin", 1, 32),
					 .context = 1,
					 .stream = 7,
					 .missing = schema_missing(TABLE_unfinished) };
	struct analyzed a;

	maker_call(m, MAKER_LAUNCH, 5, 60 * SECOND, 60 * SECOND + 10, 1);
	ROW_PRESENT(&kernel, unfinished, config);
	ROW_PRESENT(&kernel, unfinished, device);
	ROW_PRESENT(&kernel, unfinished, context);
	ROW_PRESENT(&kernel, unfinished, stream);
	writer_append(m->writer, TABLE_unfinished, &kernel);
	add_end(m);
	add_sample(m, METRIC_gpu_utilization, 99 * SECOND, 0, 100);
	add_sample(m, METRIC_gpu_power, 99 * SECOND, 0, 118900);
	add_sample(m, METRIC_gpu_power_limit, 99 * SECOND, 0, 700000);
	add_sample(m, METRIC_gpu_sm_clock, 99 * SECOND, 0, 1980);
	add_sample(m, METRIC_gpu_throttle_reasons, 99 * SECOND, 0, 4);
	add_sample(m, METRIC_gpu_xid, 98 * SECOND, 0, 31);
	add_sample(m, METRIC_gpu_ecc_uncorrected, 98 * SECOND, 0, 1);
	maker_device(m, 1, 0);
	add_sample(m, METRIC_gpu_power, 99 * SECOND, 1, 70000); /* which is not used */
	add_sample(m, METRIC_gpu_power, 99 * SECOND, 2, 70000); /* which is unknown */
	maker_close(m, 102 * SECOND);
	analyze(&a, folder, EVERYTHING);
	report_print_text(&(struct report_view){ .report = &a.report,
						 .path = "x",
						 .width = 200,
						 .callers = 2,
						 .top = 5,
						 .out = &out });
	assert_non_null(strstr(strbuf_text(&out),
			       "GPU 0: utilization 100 %, 118 W of 700 W, 1980 MHz, clocks held "
			       "down by power limit, Xid 31 2.00 s before, 1 memory error that ECC "
			       "could not correct"));
	assert_null(strstr(strbuf_text(&out), "70 W"));
	assert_non_null(strstr(strbuf_text(&out), "threads when the dump was made\n"));
	assert_int_equal(a.report.thread_states->threads.count, 1);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(readings_before_the_end),
		folder_test(a_sentence_about_the_gpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
