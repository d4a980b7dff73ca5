/* test_time_lanes.c: what is in the columns of lanes. */
#include "analysis/time_lanes.h"

#include <string.h>

#include "unit/analysis/report_fixture.h"

#define COLUMNS 10u

/*
 * On stream 7 from 0 to 300 and 250 to 400, on stream 8 from 350 to 1000, and a call that launches
 * 20 ns long before each of them; thread 1 waits from 400 to 1000, and thread 2 launches nothing.
 */
static void record(const char *folder)
{
	struct maker *m = begin(folder, 100);
	uint32_t kernel = maker_config(m, "k", 1, 32);

	maker_call(m, MAKER_LAUNCH, 1, 1, 21, 1);
	maker_kernel(m, kernel, 7, 30, 300, 1);
	maker_call(m, MAKER_LAUNCH, 1, 30, 50, 2);
	maker_kernel(m, kernel, 7, 250, 400, 2);
	maker_call(m, MAKER_LAUNCH, 1, 330, 350, 3);
	maker_kernel(m, kernel, 8, 350, 1000, 3);
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 1, 400, 1000, 4);
	maker_call(m, MAKER_MALLOC, 2, 400, 900, 5);
	maker_close(m, 1000);
}

static void find(struct analyzed *a, struct time_lanes *l, const char *folder, struct filter f,
		 uint64_t streams)
{
	struct report_options options = { .filter = f };

	analyze(a, folder, options);
	assert_int_equal(time_lanes_find(l, &a->report, COLUMNS, streams, 4), 0);
}

static void check(const struct time_lane *lane, enum time_lane_kind kind, uint32_t id,
		  const uint64_t *columns)
{
	uint64_t sum = 0;

	assert_int_equal(lane->kind, kind);
	assert_int_equal(lane->id, id);
	for (unsigned i = 0; i < COLUMNS; i++) {
		assert_int_equal(lane->ns[i], columns[i]);
		sum += columns[i];
	}
	assert_int_equal(lane->total_ns, sum);
}

static void of_everything(void **state)
{
	static const uint64_t gpu[] = { 70, 100, 100, 100, 100, 100, 100, 100, 100, 100 },
			      stream_8[] = { 0, 0, 0, 50, 100, 100, 100, 100, 100, 100 },
			      stream_7[] = { 70, 100, 100, 100 },
			      thread[] = { 40, 0, 0, 20, 100, 100, 100, 100, 100, 100 };
	uint64_t rest_7[COLUMNS] = { 0 };
	struct time_lanes l;
	struct analyzed a;

	record(*state);
	find(&a, &l, *state, (struct filter)FILTER_ALL, 4);
	assert_int_equal(l.column_ns, 100);
	assert_int_equal(l.count, 4);
	memcpy(rest_7, stream_7, sizeof(stream_7));
	check(&l.items[0], LANE_GPU, 0, gpu);
	check(&l.items[1], LANE_STREAM, 8, stream_8);
	check(&l.items[2], LANE_STREAM, 7, rest_7);
	check(&l.items[3], LANE_THREAD, 1, thread);
	assert_int_equal(l.items[3].wait_ns[3], 0);
	assert_int_equal(l.items[3].wait_ns[4], 100);
	time_lanes_release(&l);
	analyzed_release(&a);
}

/* Work and calls are cut at the window's edges. */
static void of_a_window(void **state)
{
	struct filter f = FILTER_ALL;
	struct time_lanes l;
	struct analyzed a;

	record(*state);
	f.since_ns = 260;
	f.until_ns = 460;
	find(&a, &l, *state, f, 1);
	assert_int_equal(l.column_ns, 20);
	assert_int_equal(l.count, 3);
	assert_int_equal(l.streams, 2);
	assert_int_equal(l.items[0].total_ns, 200);
	assert_int_equal(l.items[1].id, 7);
	assert_int_equal(l.items[1].total_ns, 140);
	assert_int_equal(l.items[2].total_ns, 80);
	assert_int_equal(l.items[2].ns[3], 10);
	time_lanes_release(&l);
	analyzed_release(&a);
}

static void of_nothing(void **state)
{
	struct time_lanes l;
	struct analyzed a;

	maker_close(begin(*state, 100), 0);
	find(&a, &l, *state, (struct filter)FILTER_ALL, 4);
	assert_int_equal(l.count, 0);
	assert_int_equal(l.column_ns, 1);
	time_lanes_release(&l);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(of_everything),
		folder_test(of_a_window),
		folder_test(of_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
