/* test_occupancy_text.c: measured occupancy, where the GPU's limits are known and where not. */
#include "report/section.h"

#include "../analysis/counter_rows.h"

static void print(const char *folder, struct strbuf *out)
{
	extern const struct section section_counters;
	struct report_options options = { .filter = FILTER_ALL, .counters = true };
	struct analyzed a;
	struct report_view v = {
		.report = &a.report, .path = "x", .width = 180, .top = 10, .out = out
	};

	analyze(&a, folder, options);
	section_print_text(&section_counters, &v);
	analyzed_release(&a);
}

static void known_and_unknown_limits(void **state)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	const double values[METRICS] = { [TIME] = 100, [WARPS] = 40 };
	struct maker *m = begin_measured(*state);

	measured(m, maker_config(m, "known", 1000, 256), 1, true, values);
	m->device = 1; /* of which the recording has nothing */
	measured(m, maker_config(m, "unknown", 1000, 256), 2, true, values);
	maker_close(m, 9000);
	print(*state, &out);
	assert_non_null(strstr(strbuf_text(&out), "known: occupancy 40.0% of theoretical 100.0% "
						  "(limited by warps)"));
	assert_non_null(strstr(strbuf_text(&out), "unknown: occupancy 40.0%\n"));
	assert_non_null(strstr(strbuf_text(&out), "known           25.6           64    64"));
	assert_null(strstr(strbuf_text(&out), "nan"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(known_and_unknown_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
