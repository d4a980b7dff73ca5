/* Shares are parts of what the section's title names, however many threads wait at once. */
#include "report/section.h"

#include <stdlib.h>
#include <string.h>

#include "../analysis/report_fixture.h"
#include "analysis/sentence.h"

static void report_text(struct analyzed *a, struct strbuf *out)
{
	struct report_view v = {
		.report = &a->report, .path = "x", .width = 120, .top = 10, .out = out
	};

	report_print_text(&v);
}

/* Every "12.3%" of a text. */
static void check_shares(const char *text, unsigned least)
{
	unsigned count = 0;

	for (const char *at = text; (at = strchr(at, '%')) != NULL; at++) {
		const char *number = at;

		while (number > text && strchr("0123456789.", number[-1]))
			number--;
		if (strtod(number, NULL) > 100)
			fail_msg("%.*s in:\n%s", (int)(at + 1 - number), number, text);
		count++;
	}
	assert_true(count >= least);
}

/* Each thread waits for its own stream for most of the time, at lines of their own. */
static void waits_of_threads_at_once_are_parts_of_all_waits(void **state)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "k", 1, 32);
	struct analyzed a;

	for (uint32_t thread = 0; thread < 5; thread++) {
		uint64_t at = 1000000 + thread * 10000;

		m->stack = maker_stack(m, maker_python(m, 0, "wait", "/x.py", 10 + thread), 1,
				       stack_end_complete);
		maker_call(m, MAKER_LAUNCH, 100 + thread, at, at + 5000, 1 + thread);
		maker_kernel(m, k, 7 + thread, at + 10000, 90000000, 1 + thread);
		maker_call(m, MAKER_STREAM_SYNCHRONIZE, 100 + thread, at + 6000, 90001000,
			   11 + thread);
	}
	maker_close(m, 91000000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.syncs->calls, 5);
	assert_true(a.report.syncs->total_ns > 4 * (a.report.end_ns - a.report.start_ns) &&
		    a.report.waits->total_ns == a.report.syncs->total_ns);
	report_text(&a, &out);
	check_shares(strbuf_text(&out), 10);
	assert_non_null(strstr(strbuf_text(&out), "20.0%"));
	analyzed_release(&a);
}

/*
 * Samples weigh more than the gaps that they were taken in: an estimate, and no share above 100 %.
 */
static void samples_may_weigh_more_than_the_gaps(void **state)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT, idle = STRBUF_INIT;
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "k", 1, 32), stack;
	struct analyzed a;

	stack = maker_stack(m, maker_python(m, 0, "load", "/x.py", 7), 1, stack_end_complete);
	for (uint64_t i = 0; i < 20; i++) {
		uint64_t at = 1000000 + i * 1000000;

		maker_call(m, MAKER_LAUNCH, 100, at + 900000, at + 905000, 1 + i);
		maker_kernel(m, k, 7, at + 910000, at + 1410000, 1 + i);
		maker_cpu_sample(m, 100, at + 700000, 4000000, stack);
	}
	maker_close(m, 91000000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.idle_lines->source, IDLE_SOURCE_SAMPLES);
	assert_true(a.report.idle_lines->items[0].ns > 2 * a.report.idle_lines->gaps_ns);
	report_text(&a, &out);
	check_shares(strbuf_text(&out), 10);
	sentence_add(&idle, WORDS("\nGPU idle  "), DURATION(a.report.idle->gpus[0].total_ns),
		     WORDS(" of "), DURATION(a.report.end_ns - a.report.start_ns),
		     WORDS(" (GPU 0)\n"));
	assert_non_null(strstr(strbuf_text(&out), strbuf_text(&idle)));
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(waits_of_threads_at_once_are_parts_of_all_waits),
		folder_test(samples_may_weigh_more_than_the_gaps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
