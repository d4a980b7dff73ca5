/* Calls that failed, and a GPU context that did: the report leads with it. */
#include <string.h>

#include "../analysis/report_fixture.h"
#include "analysis/failures.h"
#include "report/section.h"
#include "report/words.h"

static void call(struct maker *m, enum maker_function function, uint64_t time_ns,
		 uint64_t correlation, uint32_t result)
{
	m->result = result;
	maker_call(m, function, 100, time_ns, time_ns + 100, correlation);
}

static void a_context_that_failed_leads(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t good = maker_config(m, "good", 1, 32), bad = maker_config(m, "bad", 1, 32);
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	const struct failures *f;
	struct analyzed a;

	m->stack = maker_stack(m, maker_python(m, 0, "main", "/home/user/fault.py", 6), 1,
			       stack_end_complete);
	call(m, MAKER_MALLOC, 500, 50, 2);
	for (uint64_t i = 1; i <= 20; i++) {
		call(m, MAKER_LAUNCH, 1000 * i, i, 0);
		maker_kernel(m, i == 20 ? bad : good, 7, 1000 * i + 200, 1000 * i + 300, i);
	}
	call(m, MAKER_EVENT_RECORD, 21000, 21, 600); /* not ready: no failure */
	call(m, MAKER_DEVICE_SYNCHRONIZE, 22000, 22, 700);
	call(m, MAKER_LAUNCH, 23000, 23, 700);
	call(m, MAKER_LAUNCH, 24000, 24, 700);
	maker_close(m, 90000);
	analyze(&a, *state, EVERYTHING);
	f = a.report.failures;
	assert_int_equal(f->count, 3);
	assert_int_equal(f->calls, 4);
	assert_int_equal(f->items[0].result, 2);
	assert_int_equal(f->fatal, 1);
	assert_int_equal(f->items[2].count, 2);
	assert_int_equal(f->items[2].first_ns, 23000);
	report_print_text(&(struct report_view){ .report = &a.report,
						 .path = "x",
						 .width = 120,
						 .callers = 2,
						 .top = 5,
						 .out = &out });
	assert_non_null(strstr(strbuf_text(&out),
			       "\nfailed    the GPU context failed: CUDA_ERROR_ILLEGAL_ADDRESS, "
			       "returned by cudaDeviceSynchronize at fault.py:6 main; last\n"
			       "          kernel launched: bad (launch 1)\n"));
	assert_non_null(strstr(strbuf_text(&out), "\nfailed calls  4 calls\n"
						  "  count  first at  error"));
	assert_non_null(strstr(strbuf_text(&out), " returned by            line\n"));
	assert_non_null(strstr(strbuf_text(&out), "CUDA_ERROR_OUT_OF_MEMORY"));
	analyzed_release(&a);
}

/* A kernel before the one that failed is not named in its place. */
static void launch_without_record(const char *folder, bool is_named)
{
	struct row_unfinished launched = { .time_ns = 30000,
					   .kind = unfinished_kind_launch,
					   .missing = schema_missing(TABLE_unfinished) };
	struct maker *m = begin(folder, 100);
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct analyzed a;

	m->stack = maker_stack(m, maker_python(m, 0, "main", "/home/user/fault.py", 6), 1,
			       stack_end_complete);
	for (uint64_t i = 1; i <= 3; i++)
		call(m, MAKER_LAUNCH, 1000 * i, i, 0);
	maker_kernel(m, maker_config(m, "good", 1, 32), 7, 1200, 1300, 1);
	call(m, MAKER_DEVICE_SYNCHRONIZE, 22000, 22, 700);
	for (uint64_t i = 2; i <= 3 && is_named; i++) {
		launched.correlation = i;
		launched.name = maker_string(m, i == 2 ? "earlier" : "faulty");
		ROW_PRESENT(&launched, unfinished, name);
		writer_append(m->writer, TABLE_unfinished, &launched);
	}
	maker_close(m, 90000);
	analyze(&a, folder, EVERYTHING);
	assert_int_equal(a.report.failures->last_config, TRACE_NO_ROW);
	report_failure_text(&a.report, &out);
	assert_non_null(strstr(strbuf_text(&out),
			       is_named ? "; of the last launch, number 3, of faulty at fault.py:6 "
					  "main, there is no record"
					: "; of the last launch, number 3 at fault.py:6 main, "
					  "there is no record"));
	assert_null(strstr(strbuf_text(&out), "good"));
	analyzed_release(&a);
}

static void the_launch_that_failed_has_no_record(void **state)
{
	launch_without_record(*state, false);
}

static void the_launch_that_failed_has_only_a_name(void **state)
{
	launch_without_record(*state, true);
}

static void a_program_without_failures_says_nothing(void **state)
{
	struct maker *m = begin(*state, 100);
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct analyzed a;

	call(m, MAKER_LAUNCH, 1000, 1, 0);
	maker_kernel(m, maker_config(m, "good", 1, 32), 7, 2000, 3000, 1);
	maker_close(m, 90000);
	analyze(&a, *state, EVERYTHING);
	report_print_text(&(struct report_view){
		.report = &a.report, .path = "x", .width = 120, .top = 5, .out = &out });
	assert_null(strstr(strbuf_text(&out), "fail"));
	analyzed_release(&a);
}

/* Of twenty events one lost is worth a line before the verdict. */
static void a_large_loss_is_said_first(void **state)
{
	for (uint64_t lost = 1; lost <= 3; lost += 2) {
		_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
		struct maker *m = begin(*state, (uint32_t)(100 + lost));
		struct analyzed a;
		char *line;

		for (uint64_t i = 1; i <= 20; i++)
			call(m, MAKER_LAUNCH, 1000 * i, i, 0);
		maker_loss(m, loss_reason_ring_full, lost, 0, 1, "");
		maker_close(m, 90000);
		analyze(&a, *state, EVERYTHING);
		report_print_text(&(struct report_view){
			.report = &a.report, .path = "x", .width = 120, .top = 5, .out = &out });
		line = strstr(strbuf_text(&out), "of the events are missing");
		assert_true(lost == 3 ? line && line < strstr(strbuf_text(&out), "\nverdict")
				      : !line);
		analyzed_release(&a);
	}
}

struct some_loss {
	enum loss_reason reason;
	uint64_t count;
};

/* Checks what comes before the verdict on 100 calls, a tenth as many kernels, and losses. */
static void check_warnings(void **state, const struct some_loss *losses, size_t count, bool untimed,
			   const char *const *expected)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct maker *m = begin(*state, 200);
	uint32_t config = maker_config(m, "good", 1, 32);
	struct analyzed a;
	char *verdict;

	for (uint64_t i = 1; i <= 100; i++)
		call(m, MAKER_LAUNCH, 1000 * i, i, 0);
	for (uint64_t i = 1; i <= 10; i++)
		maker_kernel(m, config, 7, 1000 * i + 200, 1000 * i + 300, i);
	if (untimed)
		maker_kernel(m, config, 7, 0, 0, 11);
	for (size_t i = 0; i < count; i++)
		maker_loss(m, losses[i].reason, losses[i].count, 51000, 51001, "");
	maker_close(m, 200000);
	analyze(&a, *state, EVERYTHING);
	report_print_text(&(struct report_view){
		.report = &a.report, .path = "x", .width = 200, .top = 9, .out = &out });
	verdict = strstr(strbuf_text(&out), "\nverdict");
	assert_non_null(verdict);
	*verdict = 0;
	for (; *expected; expected++)
		assert_non_null(strstr(strbuf_text(&out), *expected));
	analyzed_release(&a);
}

/* One damaged piece may be a thousand kernels. */
static void missing_parts_are_said_first(void **state)
{
	static const struct some_loss losses[] = {
		{ loss_reason_damaged_file, 1 },      { loss_reason_missing_segment, 1 },
		{ loss_reason_gpu_hang, 1 },          { loss_reason_gpu_runtime_failed, 1 },
		{ loss_reason_unreadable_buffer, 1 }, { loss_reason_disk_slow, 110 },
	};

	check_warnings(state, losses, ARRAY_SIZE(losses), false,
		       (const char *[]){
			       "\nloss      50.0% of the events are missing (see loss below)",
			       "\n          parts of the recording are damaged (see loss below)",
			       "\n          segments of the recording are missing (see loss below)",
			       "\n          the GPU's library failed 51.0 us after the start (see "
			       "loss below)",
			       "\n          a call of the GPU's library or driver began to hang "
			       "51.0 us after",
			       "\n          the GPU's library could not read all of its own "
			       "buffers (see loss",
			       NULL });
}

static void a_large_loss_of_few_gpu_records_is_said_first(void **state)
{
	static const struct some_loss loss = { loss_reason_gpu_records_dropped, 5 };

	check_warnings(
		state, &loss, 1, false,
		(const char *[]){ "\nloss      33.3% of the GPU records are missing", NULL });
}

static void work_without_times_is_said_first(void **state)
{
	check_warnings(
		state, NULL, 0, true,
		(const char *[]){ "\nuntimed   9.1% of the GPU operations have no times", NULL });
}

/* CUDA's own names, each for one code; all codes that end a context have one. */
static void codes_have_names_of_their_own(void **state)
{
	(void)state;
	assert_null(failure_name(0));
	for (uint32_t code = 1; code < 1100; code++) {
		const char *name = failure_name(code);

		assert_true(name || !failure_is_fatal(code));
		if (!name)
			continue;
		assert_true(strncmp(name, "CUDA_ERROR_", 11) == 0 ||
			    strncmp(name, "cudaError", 9) == 0);
		assert_true(strlen(name) > 11);
		for (uint32_t other = 1; other < code; other++)
			assert_true(!failure_name(other) || strcmp(failure_name(other), name) != 0);
	}
	assert_string_equal(failure_name(700), "CUDA_ERROR_ILLEGAL_ADDRESS");
	assert_true(failure_is_fatal(700) && !failure_is_fatal(2));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(codes_have_names_of_their_own),
		folder_test(a_context_that_failed_leads),
		folder_test(the_launch_that_failed_has_no_record),
		folder_test(the_launch_that_failed_has_only_a_name),
		folder_test(a_program_without_failures_says_nothing),
		folder_test(a_large_loss_is_said_first),
		folder_test(missing_parts_are_said_first),
		folder_test(a_large_loss_of_few_gpu_records_is_said_first),
		folder_test(work_without_times_is_said_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
