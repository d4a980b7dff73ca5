/* test_call_cost.c: calibrations in recordings, also of earlier versions, and impossible ones. */
#include "analysis/call_cost.h"

#include "unit/analysis/report_fixture.h"

/* Records one calibration; `set`: columns that have values. Returns what is found. */
static int find(const char *folder, struct row_calibration row, uint64_t set, struct calibration *c)
{
	struct maker *m = begin(folder, 100);
	struct error e = { 0 };
	struct trace *t;
	int found;

	row.version = maker_string(m, PITOT_VERSION);
	row.host = maker_string(m, "testhost");
	row.gpu = maker_string(m, "NVIDIA H200");
	row.driver_version = 13000;
	row.missing = schema_missing(TABLE_calibration) & ~set;
	writer_append(m->writer, TABLE_calibration, &row);
	maker_close(m, 1000);
	t = open_trace(folder);
	if (trace_load(t, TABLE_device, 0, &e) < 0)
		fail_msg("%s", e.text);
	found = calibration_recorded(c, t, 0, &e);
	trace_free(t);
	return found;
}

#define SET(name) (UINT64_C(1) << COLUMN_calibration_##name)

static void an_old_row(void **state)
{
	struct row_calibration row = { .launch_ns = 978, .synchronize_ns = 505 };
	struct calibration c;

	row.node_call_bare_ns = UINT64_MAX - 1; /* is missing */
	assert_int_equal(find(*state, row, 0, &c), 1);
	assert_int_equal(c.launch_ns, 978);
	assert_int_equal(c.synchronize_ns, 505);
#define IS_UNKNOWN(name) assert_true(c.name == CALIBRATION_UNKNOWN);
	CALIBRATION_OPTIONAL(IS_UNKNOWN)
#undef IS_UNKNOWN
}

static void a_new_row(void **state)
{
	struct row_calibration row = { .node_call_bare_ns = 12 };
	struct calibration c;

	assert_int_equal(find(*state, row, SET(node_call_bare_ns) | SET(node_latency_ns), &c), 1);
	assert_int_equal(c.node_call_bare_ns, 12);
	assert_int_equal(c.node_latency_ns, 0);
	assert_true(c.eager_ns == CALIBRATION_UNKNOWN);
}

static void an_impossible_time(void **state)
{
	struct row_calibration row = { .timer_step_ns = UINT64_C(1000000001) };
	struct calibration c;

	assert_int_equal(find(*state, row, SET(timer_step_ns), &c), 0);
}

static void an_impossible_cost(void **state)
{
	struct row_calibration row = { .launch_ns = UINT64_MAX };
	struct calibration c;

	assert_int_equal(find(*state, row, 0, &c), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(an_old_row),
		folder_test(a_new_row),
		folder_test(an_impossible_time),
		folder_test(an_impossible_cost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
