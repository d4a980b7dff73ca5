#include "analysis/launches.h"

#include "report_fixture.h"

static void launches_by_hand(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "k", 1, 32);
	struct analyzed a;
	const struct launches *l;

	maker_call(m, MAKER_LAUNCH, 10, 1000, 1100, 1);
	maker_call(m, MAKER_RUNTIME_LAUNCH, 10, 2000, 2300, 2);
	maker_call(m, MAKER_LAUNCH, 11, 3000, 3200, 3);
	maker_call(m, MAKER_LAUNCH, 10, 4000, 4050, 4);
	maker_call(m, MAKER_GRAPH_LAUNCH, 10, 5000, 5500, 5);
	maker_call(m, MAKER_MEMCPY, 10, 6000, 6900, 6);
	maker_kernel(m, k, 7, 1600, 1700, 1); /* 500 after its call */
	maker_kernel(m, k, 7, 2200, 2400, 2); /* during it */
	maker_kernel(m, k, 7, 2999, 3100, 3); /* before it */
	maker_kernel(m, k, 7, 4250, 4300, 4); /* 200 */
	maker_graph_kernel(m, k, 7, 5900, 6000, 5, 1, 1); /* 400; the second node does not count */
	maker_graph_kernel(m, k, 7, 6100, 6200, 5, 1, 2);
	maker_kernel(m, k, 7, 8000, 8100, 77); /* nobody launched it */
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	l = a.report.launches;
	assert_int_equal(l->kernel_calls.count, 4);
	assert_int_equal(l->kernel_calls.total_ns, 650);
	assert_int_equal(l->kernel_calls.median_ns, 100);
	assert_int_equal(l->kernel_calls.p99_ns, 300);
	assert_int_equal(l->graph_calls.count, 1);
	assert_int_equal(l->graph_calls.total_ns, 500);
	assert_int_equal(l->delay.count, 3);
	assert_int_equal(l->delay.min_ns, 200);
	assert_int_equal(l->delay.median_ns, 400);
	assert_int_equal(l->delay.max_ns, 500);
	assert_int_equal(l->in_call, 1);
	assert_int_equal(l->before_call, 1);
	assert_int_equal(l->unmatched, 1);
	assert_int_equal(l->thread_count, 2);
	assert_int_equal(l->threads[0].thread, 10);
	assert_int_equal(l->threads[0].count, 4);
	assert_int_equal(l->threads[0].host_ns, 950);
	analyzed_release(&a);
}

/* Process ids of namespaces, so thread ids too, may be equal. */
static void equal_threads_of_two_processes_are_two(void **state)
{
	struct analyzed a;
	const struct launches *l;

	for (uint32_t pid = 100; pid < 102; pid++) {
		struct maker *m = begin(*state, pid);

		for (uint64_t i = 0; i < pid - 98; i++)
			maker_call(m, MAKER_LAUNCH, 10, 1000 * (i + 1), 1000 * (i + 1) + 100,
				   i + 1);
		maker_close(m, 9000);
	}
	analyze(&a, *state, EVERYTHING);
	l = a.report.launches;
	assert_int_equal(l->thread_count, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(l->threads[i].thread, 10);
		assert_int_equal(l->threads[i].count, 3 - i);
		assert_int_equal(trace_process(a.trace, l->threads[i].process)->pid, 101 - i);
	}
	analyzed_release(&a);
}

static void failed_launches_are_counted(void **state)
{
	struct maker *m = begin(*state, 100);
	struct row_api_call row = { .start_ns = 2000,
				    .end_ns = 2100,
				    .function = MAKER_LAUNCH,
				    .thread = 10,
				    .correlation = 2,
				    .result = 700 };
	struct analyzed a;

	maker_call(m, MAKER_LAUNCH, 10, 1000, 1100, 1);
	writer_append(m->writer, TABLE_api_call, &row);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.launches->kernel_calls.count, 1);
	assert_int_equal(a.report.launches->kernel_calls.total_ns, 100);
	assert_int_equal(a.report.launches->failed, 1);
	analyzed_release(&a);
}

/* --api all: the driver's calls inside the runtime's. */
static void nested_calls_count_once(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "k", 1, 32);
	struct analyzed a;
	struct error e = { 0 };
	uint64_t launches;

	maker_call(m, MAKER_RUNTIME_LAUNCH, 10, 1000, 1500, 1);
	maker_call(m, MAKER_RUNTIME_LAUNCH, 11, 1100, 1300, 2); /* another thread */
	maker_call(m, MAKER_LAUNCH, 11, 1150, 1250, 2);
	maker_call(m, MAKER_LAUNCH, 10, 1200, 1400, 1);
	maker_call(m, MAKER_LAUNCH, 10, 1600, 1650, 3);
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 10, 2000, 2600, 4);
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 10, 2100, 2500, 4);
	maker_kernel(m, k, 7, 1700, 1800, 1);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.launches->kernel_calls.count, 3);
	assert_int_equal(a.report.launches->kernel_calls.total_ns, 750);
	assert_int_equal(a.report.launches->threads[0].count, 2);
	assert_int_equal(a.report.launches->delay.total_ns, 200); /* from the outer call's return */
	assert_int_equal(a.report.syncs->sync_count, 1);
	assert_int_equal(a.report.syncs->total_ns, 600);
	assert_int_equal(calls_count_launches(a.trace, &launches, &e), 0);
	assert_int_equal(launches, 3);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(launches_by_hand),
		folder_test(equal_threads_of_two_processes_are_two),
		folder_test(failed_launches_are_counted),
		folder_test(nested_calls_count_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
