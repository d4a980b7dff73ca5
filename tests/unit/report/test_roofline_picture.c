/* test_roofline_picture.c: what the picture shows of many kernels, and of odd ones. */
#include "report/section.h"

#include <string.h>

#include "../analysis/counter_rows.h"

static unsigned count_of(const struct strbuf *text, const char *part)
{
	unsigned count = 0;

	for (const char *at = strbuf_text(text); (at = strstr(at, part)); at++)
		count++;
	return count;
}

static bool draw(const char *folder, struct strbuf *out)
{
	struct analyzed a;
	struct report_view v = {
		.report = &a.report, .path = "x", .width = 120, .top = UINT64_MAX
	};
	bool drawn;

	analyze(&a, folder, EVERYTHING);
	drawn = roofline_picture(&v, out);
	analyzed_release(&a);
	return drawn;
}

/* A kernel of its own, with so many operations and bytes, under this clock of multiprocessors. */
static void launch_kernel(struct maker *m, uint32_t number, double ns, double operations,
			  double bytes, double clock)
{
	const double values[METRICS] = {
		[TIME] = ns,         [BYTES] = bytes,   [FADD] = operations, [FMUL] = 0,
		[FFMA] = 0,          [TENSOR] = NAN,    [FFMA_PEAK] = 100,   [SM_CLOCK] = clock,
		[BYTES_PEAK] = 1000, [DRAM_CLOCK] = 1e9
	};
	char name[16];

	snprintf(name, sizeof(name), "kernel%u", number);
	measured(m, maker_config(m, name, 1, 32), number, true, values);
}

/* The first 20 have a number and a place in the legend. */
static void many_kernels(void **state)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct maker *m = begin_measured(*state);

	for (uint32_t i = 1; i <= 25; i++)
		launch_kernel(m, i, 1000.0 * (30 - i), 1e4, 1e4, 1e9);
	maker_close(m, 99000);
	assert_true(draw(*state, &out));
	assert_int_equal(count_of(&out, "<circle class=\"point\" cx=\"5\""), 1); /* the legend's */
	assert_int_equal(count_of(&out, "<circle class=\"point\""), 26);
	assert_int_equal(count_of(&out, "<text class=\"number\" x="), 20);
	assert_int_equal(count_of(&out, "<text class=\"number end\" x="), 20);
	assert_int_equal(count_of(&out, "kernel20<"), 1);
	assert_int_equal(count_of(&out, "kernel21<"), 0);
}

/* Roofs are the highest peaks, whichever kernel has them. */
static void peaks_that_differ(void **state)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct maker *m = begin_measured(*state);

	launch_kernel(m, 1, 3000, 1e4, 1e4, 1e9);
	launch_kernel(m, 2, 2000, 1e4, 1e4, 2e9);
	launch_kernel(m, 3, 1000, 1e4, 1e4, 1.5e9);
	maker_close(m, 99000);
	assert_true(draw(*state, &out));
	assert_int_equal(count_of(&out, "FP32 400 GFLOP/s</text>"), 1);
	assert_int_equal(count_of(&out, "class=\"type\""), 1);
}

/* Axes have a limited number of decades, and what is beyond them is left out. */
static void odd_figures(void **state)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct maker *m = begin_measured(*state);

	launch_kernel(m, 1, 1000, 1e4, 1e4, 1e9);
	launch_kernel(m, 2, 1000, 1e-150, 1e150, 1e9);
	launch_kernel(m, 3, 1000, 1e150, 1e-150, 1e9);
	maker_close(m, 99000);
	assert_true(draw(*state, &out));
	assert_in_range(count_of(&out, "class=\"grid\""), 4, 2 * 19);
	assert_int_equal(count_of(&out, "nan"), 0);
}

static void nothing_to_draw(void **state)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct maker *m = begin_measured(*state);

	launch_kernel(m, 1, 1000, 0, 1e4, 1e9);
	launch_kernel(m, 2, 1000, 1e4, 0, 1e9);
	maker_close(m, 99000);
	assert_false(draw(*state, &out));
	assert_int_equal(out.length, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(many_kernels),
		folder_test(peaks_that_differ),
		folder_test(odd_figures),
		folder_test(nothing_to_draw),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
