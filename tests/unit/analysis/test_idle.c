#include "analysis/idle.h"

#include "report_fixture.h"

/* Thread 101 launches all of it; the figures are the comments of each step. */
static void each_nanosecond_has_one_cause(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "k", 1, 32);
	struct analyzed a;
	const struct gpu_idle *g;
	uint64_t sum = 0;

	maker_call(m, MAKER_LAUNCH, 101, 9000, 9500, 1); /* before: 10000 */
	maker_kernel(m, k, 7, 10000, 11000, 1);
	maker_call(m, MAKER_STREAM_SYNCHRONIZE, 101, 9600, 11200, 90); /* sync: 200 */
	maker_call(m, MAKER_LAUNCH, 101, 12000, 12400, 2); /* host: 800, launch: 400 */
	maker_kernel(m, k, 7, 13000, 14000, 2); /* queued: 600 */
	maker_call(m, MAKER_LAUNCH, 101, 12500, 12700, 3);
	maker_kernel(m, k, 7, 14500, 15000, 3); /* queued: 500 */
	maker_kernel(m, k, 7, 16000, 17000, 999); /* unknown: 1000 */
	maker_call(m, MAKER_MEMCPY, 101, 17100, 17600, 5); /* host: 100, copy: 500 */
	maker_memcpy(m, copy_kind_HtoD, 8, 7, 17700, 18000, 5); /* queued: 100 */
	maker_call(m, MAKER_MALLOC, 101, 20000, 23000, 91); /* memory: 3000 */
	maker_call(m, MAKER_LAUNCH, 101, 218000, 219000, 6); /* host: 2000 + 195000, launch: 1000 */
	maker_kernel(m, k, 7, 220000, 221000, 6); /* queued: 1000 */
	maker_call(m, MAKER_LAUNCH, 101, 219000, 219500, 7);
	maker_kernel(m, k, 7, 240000, 241000, 7); /* queued: 19000 */
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 101, 220000, 243000, 92);
	/* Another thread's calls are no excuse. */
	maker_call(m, MAKER_LAUNCH, 102, 100000, 200000, 93);
	maker_close(m, 250000);
	analyze(&a, *state, EVERYTHING);
	g = &a.report.idle->gpus[0];
	assert_int_equal(g->cause_ns[IDLE_BEFORE], 10000);
	assert_int_equal(g->cause_ns[IDLE_SYNC], 200);
	assert_int_equal(g->cause_ns[IDLE_HOST], 800 + 100 + 2000 + 195000);
	assert_int_equal(g->cause_ns[IDLE_LAUNCH], 400 + 1000);
	assert_int_equal(g->cause_ns[IDLE_COPY], 500);
	assert_int_equal(g->cause_ns[IDLE_MEMORY], 3000);
	assert_int_equal(g->cause_ns[IDLE_QUEUED], 600 + 500 + 100 + 1000 + 19000);
	assert_int_equal(g->cause_ns[IDLE_UNKNOWN], 1000);
	assert_int_equal(g->cause_ns[IDLE_AFTER], 9000); /* to the end of the process */
	for (int i = 0; i < IDLE_CAUSES; i++)
		sum += g->cause_ns[i];
	assert_int_equal(g->total_ns, sum);
	/* Gaps of 500 and 700; 2000 and 1000; 19000; 202000. */
	assert_int_equal(g->gaps[0].count, 2);
	assert_int_equal(g->gaps[0].total_ns, 1200);
	assert_int_equal(g->gaps[1].count, 2);
	assert_int_equal(g->gaps[2].count, 1);
	assert_int_equal(g->gaps[3].count, 1);
	assert_int_equal(g->between.longest[0].length_ns, 202000);
	assert_int_equal(g->between.longest[0].start_ns, 18000);
	assert_int_equal(g->between.longest[0].cause, IDLE_HOST);
	assert_int_equal(g->between.longest[1].length_ns, 19000);
	assert_int_equal(g->between.longest[1].cause, IDLE_QUEUED);
	assert_int_equal(g->between.longest[2].length_ns, 2000);
	assert_int_equal(g->between.longest[3].length_ns, 1000);
	assert_int_equal(g->after_sync, 1);
	analyzed_release(&a);
}

static void nested_calls_count_once(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "k", 1, 32);
	struct analyzed a;
	const struct gpu_idle *g;

	maker_call(m, MAKER_LAUNCH, 101, 500, 600, 1);
	maker_kernel(m, k, 7, 1000, 2000, 1);
	/* As --api all records it: calls of the driver inside calls of the runtime. */
	maker_call(m, MAKER_MEMCPY, 101, 2100, 2900, 50);
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 101, 2300, 2500, 51);
	maker_call(m, MAKER_RUNTIME_LAUNCH, 101, 3000, 3500, 52);
	maker_call(m, MAKER_LAUNCH, 101, 3100, 3400, 2);
	maker_kernel(m, k, 7, 4000, 5000, 2);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	g = &a.report.idle->gpus[0];
	/*
	 * 2000-2100 host, 2100-2900 copy, 2900-3000 host, 3000-3500 launch, 3500-4000 queued: the
	 * outer calls count.
	 */
	assert_int_equal(g->cause_ns[IDLE_HOST], 200);
	assert_int_equal(g->cause_ns[IDLE_COPY], 800);
	assert_int_equal(g->cause_ns[IDLE_SYNC], 0);
	assert_int_equal(g->cause_ns[IDLE_LAUNCH], 500);
	assert_int_equal(g->cause_ns[IDLE_QUEUED], 500);
	analyzed_release(&a);
}

static void another_processes_work_keeps_a_gpu_busy(void **state)
{
	struct analyzed a;

	for (uint32_t pid = 100; pid < 102; pid++) {
		struct maker *m = begin(*state, pid);
		uint64_t offset = (pid - 100) * 1000;

		maker_call(m, MAKER_LAUNCH, pid, 100 + offset, 200 + offset, 1);
		maker_kernel(m, maker_config(m, "k", 1, 32), 7, 1000 + offset, 2000 + offset, 1);
		maker_close(m, 3000);
	}
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.idle->gpus[0].total_ns, 1000);
	assert_int_equal(a.report.idle->gpus[0].cause_ns[IDLE_BEFORE], 1000);
	analyzed_release(&a);
}

/* Clocks that disagree, and a hostile file, must not make causes longer than their gap. */
static void calls_that_cannot_be_are_no_causes(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "k", 1, 32);
	struct analyzed a;
	const struct gpu_idle *g;

	maker_kernel(m, k, 7, 1000, 2000, 1);
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 101, 2500, 2400, 9); /* ends before it begins */
	maker_call(m, MAKER_DEVICE_SYNCHRONIZE, 101, 2900, 5000, 8);
	maker_call(m, MAKER_LAUNCH, 101, 6000, 6500, 2); /* begins after its kernel */
	maker_kernel(m, k, 7, 3000, 4000, 2);
	maker_close(m, 9000);
	analyze(&a, *state, EVERYTHING);
	g = &a.report.idle->gpus[0];
	assert_int_equal(g->gaps[1].total_ns, 1000);
	assert_int_equal(g->cause_ns[IDLE_SYNC], 100);
	assert_int_equal(g->cause_ns[IDLE_HOST], 900);
	assert_int_equal(g->cause_ns[IDLE_LAUNCH] + g->cause_ns[IDLE_QUEUED], 0);
	assert_int_equal(a.report.launches->before_call, 1);
	analyzed_release(&a);
}

/* Work whose id leads to a call far behind it, as ids that return do: unknown, at no great cost. */
static void a_call_far_behind_its_work_is_not_its_call(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "k", 1, 32);
	struct analyzed a;

	maker_kernel(m, k, 7, 1000, 2000, 1);
	maker_kernel(m, k, 7, 5000, 6000, 2000);
	for (uint64_t i = 0; i < 1500; i++)
		maker_call(m, MAKER_STREAM_SYNCHRONIZE, 101, 10000 + 10 * i, 10005 + 10 * i,
			   100 + i);
	maker_call(m, MAKER_LAUNCH, 101, 90000, 90010, 2000);
	maker_close(m, 100000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.idle->gpus[0].gaps[1].total_ns, 3000);
	assert_int_equal(a.report.idle->gpus[0].cause_ns[IDLE_UNKNOWN], 3000);
	analyzed_release(&a);
}

/*
 * The same calls and work twice, by threads of equal numbers in two processes on a GPU each: equal
 * causes.
 */
static void a_second_process_is_explained_as_the_first(void **state)
{
	const struct gpu_idle *g;
	struct analyzed a;

	for (uint32_t device = 0; device < 2; device++) {
		struct maker *m = maker_begin(*state, 100 * (device + 1), 0, "./app");
		uint32_t k;

		maker_device(m, device, 0);
		m->device = device;
		k = maker_config(m, "k", 1, 32);
		for (uint64_t i = 1; i < 20; i++) {
			uint64_t at = 100000 * i;

			maker_call(m, MAKER_LAUNCH, 101, at, at + 300, 10 * i);
			maker_kernel(m, k, 7, at + 1000, at + 20000, 10 * i);
			maker_call(m, MAKER_STREAM_SYNCHRONIZE, 101, at + 500, at + 21000 + i,
				   10 * i + 1);
			maker_call(m, MAKER_MALLOC, 101, at + 30000, at + 30000 + 100 * i,
				   10 * i + 2);
		}
		maker_close(m, 3000000);
	}
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.idle->count, 2);
	g = a.report.idle->gpus;
	assert_true(g[0].cause_ns[IDLE_SYNC] && g[0].cause_ns[IDLE_MEMORY]);
	for (int cause = 0; cause < IDLE_CAUSES; cause++)
		assert_int_equal(g[0].cause_ns[cause], g[1].cause_ns[cause]);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(each_nanosecond_has_one_cause),
		folder_test(nested_calls_count_once),
		folder_test(a_second_process_is_explained_as_the_first),
		folder_test(another_processes_work_keeps_a_gpu_busy),
		folder_test(calls_that_cannot_be_are_no_causes),
		folder_test(a_call_far_behind_its_work_is_not_its_call),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
