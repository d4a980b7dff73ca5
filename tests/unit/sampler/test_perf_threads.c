/* link: test_support pitot_trace */
/*
 * Which CPU time of threads no perf sample stands for: records are made up, as the kernel would
 * write them.
 */
#include "sampler/perf/perf_threads.h"

#include "support/cmocka_tests.h"
#include "trace/columns.h"

enum { ROOT = 0x7fffff00, WORKER, SHORT, CHILD = 0x7fffff10 };

static const struct target_stack one_frame = { .user = (const uint64_t[]){ 0x1234 },
					       .user_count = 1 };

static struct targets *new_targets(const char *folder)
{
	const struct targets_options options = { .directory = folder, .period_ns = 1000 };
	struct targets *t;

	assert_int_equal(targets_new(&options, &t, NULL), 0);
	return t;
}

static void sample(struct perf_threads *threads, struct targets *t, pid_t pid, pid_t tid,
		   uint64_t time_ns, unsigned periods)
{
	for (unsigned i = 0; i < periods; i++) {
		targets_cpu_sample(t, targets_find(t, pid), tid, time_ns + i, 1000, 0, &one_frame);
		perf_thread_sampled(threads, tid, 1000);
	}
}

/* What all rows of a thread stand for. */
static uint64_t time_of(const char *folder, uint32_t thread)
{
	const struct trace_options options = { .threads = 1 };
	uint64_t sum = 0;
	struct trace *t;

	assert_int_equal(trace_open(folder, &options, &t, NULL), 0);
	assert_int_equal(trace_load(t, TABLE_cpu_sample, 0, NULL), 0);
	for (uint64_t i = 0; i < trace_rows(t, TABLE_cpu_sample); i++)
		if (trace_value(t, TABLE_cpu_sample, COLUMN_cpu_sample_thread, i, NULL) == thread)
			sum += trace_value(t, TABLE_cpu_sample, COLUMN_cpu_sample_weight_ns, i,
					   NULL);
	trace_free(t);
	return sum;
}

/* The kernel's count of a process that has ended; 0: unknown. */
static uint64_t count_of(const char *folder, uint32_t pid)
{
	const struct trace_options options = { .threads = 1 };
	const struct cpu_span_columns *c;
	uint64_t cpu_ns = 0;
	struct trace *t;

	assert_int_equal(trace_open(folder, &options, &t, NULL), 0);
	assert_int_equal(trace_load(t, TABLE_cpu_span, 0, NULL), 0);
	c = cpu_span_columns(t);
	for (uint64_t row = 0; row < trace_rows(t, TABLE_cpu_span); row++)
		if (c->pid[row] == pid) {
			assert_int_equal(c->method[row], sampling_method_perf_events);
			assert_int_equal(c->start_ns[row], pid == CHILD ? 30 : 1);
			cpu_ns += c->cpu_ns[row];
		}
	trace_free(t);
	return cpu_ns;
}

/*
 * Threads that ran on two processors, a child, and the root, of which the kernel only tells in the
 * sum of all.
 */
static void all_time_has_an_owner(void **state)
{
	struct perf_threads threads = { .root = ROOT, .writes_spans = true, .end_ns = UINT64_MAX };
	struct targets *t = new_targets(*state);

	targets_exec(t, ROOT, 1);
	assert_true(perf_thread_begins(&threads, ROOT, ROOT, 1));
	assert_true(perf_thread_begins(&threads, ROOT, WORKER, 1));
	assert_false(perf_thread_begins(&threads, ROOT, WORKER, 1));
	assert_true(perf_thread_begins(&threads, ROOT, SHORT, 1));
	sample(&threads, t, ROOT, ROOT, 10, 3);
	sample(&threads, t, ROOT, WORKER, 20, 2);
	targets_fork(t, ROOT, CHILD, 30);
	assert_true(perf_thread_begins(&threads, CHILD, CHILD, 30));
	sample(&threads, t, CHILD, CHILD, 40, 1);
	perf_thread_ends(&threads, ROOT, WORKER, 50);
	perf_thread_counted(&threads, ROOT, WORKER, 1500);
	perf_thread_counted(&threads, ROOT, WORKER, 1001);
	perf_thread_ends(&threads, ROOT, SHORT, 51);
	perf_thread_counted(&threads, ROOT, SHORT, 30);
	perf_thread_counted(&threads, ROOT, SHORT, 7);
	perf_threads_settle(&threads, t, 52); /* more records of them may come */
	assert_int_equal(threads.endings.count, 2);
	perf_threads_settle(&threads, t, 10000000);
	assert_int_equal(threads.endings.count, 0);
	perf_thread_ends(&threads, CHILD, CHILD, 10000001);
	perf_thread_counted(&threads, CHILD, CHILD, 5000);
	perf_thread_ends(&threads, ROOT, ROOT, 10000002);
	perf_threads_finish(&threads, t, 20000);
	assert_null(targets_find(t, CHILD));
	assert_null(targets_find(t, ROOT));
	perf_threads_release(&threads);
	assert_int_equal(targets_free(t, NULL), 0);

	assert_int_equal(time_of(*state, WORKER), 2501);
	assert_int_equal(time_of(*state, SHORT), 37);
	assert_int_equal(time_of(*state, CHILD), 5000);
	assert_int_equal(time_of(*state, ROOT), 20000 - 2501 - 37 - 5000);
	assert_int_equal(count_of(*state, CHILD), 5000);
	assert_int_equal(count_of(*state, ROOT), 20000 - 5000);
}

/*
 * Of a thread that still runs it is not known how much it had: what the root had is not known
 * either.
 */
static void what_runs_on_is_not_counted(void **state)
{
	struct perf_threads threads = { .root = ROOT, .writes_spans = true, .end_ns = UINT64_MAX };
	struct targets *t = new_targets(*state);

	targets_exec(t, ROOT, 1);
	perf_thread_begins(&threads, ROOT, ROOT, 1);
	perf_thread_begins(&threads, ROOT, WORKER, 1);
	sample(&threads, t, ROOT, ROOT, 10, 3);
	perf_thread_ends(&threads, ROOT, ROOT, 50);
	perf_threads_finish(&threads, t, 20000);
	assert_non_null(targets_find(t, ROOT));
	perf_threads_release(&threads);
	assert_int_equal(targets_free(t, NULL), 0);
	assert_int_equal(time_of(*state, ROOT), 3000);
	assert_int_equal(count_of(*state, ROOT), 0);
}

/*
 * Neither does what a thread did when its number was another's count, nor what it did after the
 * window.
 */
static void numbers_are_used_again(void **state)
{
	struct perf_threads threads = { .end_ns = 20000000 };
	struct targets *t = new_targets(*state);

	targets_exec(t, ROOT, 1);
	perf_thread_begins(&threads, ROOT, ROOT, 1);
	for (unsigned i = 0; i < 3; i++) {
		uint64_t start_ns = i * 15000000u;

		perf_thread_begins(&threads, ROOT, WORKER, 1);
		sample(&threads, t, ROOT, WORKER, start_ns + 10, 1);
		perf_thread_ends(&threads, ROOT, WORKER, start_ns + 100);
		perf_thread_counted(&threads, ROOT, WORKER, 1200);
		perf_threads_settle(&threads, t, start_ns + 14000000);
	}
	perf_threads_release(&threads);
	assert_int_equal(targets_free(t, NULL), 0);
	assert_int_equal(time_of(*state, WORKER), 1200 + 1200 + 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(all_time_has_an_owner),
		folder_test(what_runs_on_is_not_counted),
		folder_test(numbers_are_used_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
