/*
 * CPU samples of processes that timers inside and perf events outside have sampled. Each case adds
 * the samples of both, and asks what counts.
 */
#include "trace/columns.h"

#include "trace_fixture.h"

enum { PID = 100, OTHER = 200, CPU = 3, END = 9000 };

static void span(struct maker *m, enum sampling_method method, uint32_t pid, uint64_t start_ns,
		 uint64_t end_ns, uint64_t cpu_ns)
{
	struct row_cpu_span row = { .start_ns = start_ns,
				    .end_ns = end_ns,
				    .pid = pid,
				    .method = (uint8_t)method,
				    .cpu_ns = cpu_ns };

	ROW_MISSING_IF(&row, cpu_span, end_ns, !end_ns);
	ROW_MISSING_IF(&row, cpu_span, cpu_ns, method == sampling_method_timer);
	writer_append(m->writer, TABLE_cpu_span, &row);
}

/* A sample of perf events, or (cpu UINT32_MAX) CPU time that they have no sample for. */
static void outside(struct maker *m, uint32_t thread, uint64_t time_ns, uint64_t weight_ns,
		    uint32_t cpu)
{
	struct row_cpu_sample row = {
		.time_ns = time_ns, .thread = thread, .weight_ns = weight_ns, .cpu = cpu, .stack = 1
	};

	ROW_MISSING_IF(&row, cpu_sample, cpu, cpu == UINT32_MAX);
	writer_append(m->writer, TABLE_cpu_sample, &row);
}

static uint64_t cpu_time(struct trace *t, uint32_t pid)
{
	uint64_t sum = 0;

	load(t, TABLE_cpu_sample, COLUMN_BIT(cpu_sample, weight_ns));
	for (uint64_t row = 0; row < trace_rows(t, TABLE_cpu_sample); row++) {
		size_t p = trace_row_process(t, TABLE_cpu_sample, row);

		if (trace_process(t, p)->pid == pid)
			sum += cpu_sample_columns(t)->weight_ns[row];
	}
	return sum;
}

static struct maker *perf_session(const char *folder, uint32_t pid, uint64_t start_ns)
{
	return maker_begin_sampler(folder, pid, start_ns, "python a.py");
}

/* 100 ns before the timers, 200 by timers, 300 by the kernel's count for which nobody has any. */
static void each_instant_counts_once(void **state)
{
	struct maker *in = maker_begin(*state, PID, 1000, "python a.py");
	struct maker *out = perf_session(*state, PID, 500);
	const struct cpu_sample_columns *c;
	struct trace *t;

	outside(out, PID, 900, 100, CPU);
	outside(out, PID, 2000, 70, CPU);
	outside(out, PID + 1, 5000, 30, CPU);
	outside(out, PID, 8000, 10, UINT32_MAX);
	span(out, sampling_method_perf_events, PID, 500, END, 600);
	span(in, sampling_method_timer, PID, 1000, 0, 0);
	maker_cpu_sample(in, PID, 2000, 120, 1);
	maker_cpu_sample(in, PID + 1, 5000, 80, 1);
	span(in, sampling_method_timer, PID, 1000, 7000, 0);
	maker_close(in, END);
	maker_close(out, END);
	t = open_recording(*state);
	assert_int_equal(cpu_time(t, PID), 600);
	assert_int_equal(trace_rows(t, TABLE_cpu_sample), 4);
	c = cpu_sample_columns(t);
	for (uint64_t row = 0; row < 4; row++)
		if (c->weight_ns[row] == 300) {
			assert_int_equal(c->time_ns[row], END);
			assert_int_equal(c->thread[row], PID);
			assert_false(c->valid.stack[row]);
			assert_false(c->valid.cpu[row]);
		}
	trace_free(t);
}

/* Samples after the timers' end count, as do those of a later image: the timers were not in it. */
static void timers_end_with_their_image(void **state)
{
	struct maker *in = maker_begin(*state, PID, 1000, "python a.py"), *out;
	struct trace *t;

	span(in, sampling_method_timer, PID, 1000, 0, 0);
	maker_cpu_sample(in, PID, 1500, 50, 0);
	maker_flush(in);
	maker_crash(in); /* at an exec that it does not see */
	out = perf_session(*state, PID, 500);
	outside(out, PID, 1600, 40, CPU);
	maker_close(out, 3000);
	out = perf_session(*state, PID, 3000);
	outside(out, PID, 3100, 1000, CPU);
	outside(out, PID, END, 7, UINT32_MAX);
	span(out, sampling_method_perf_events, PID, 500, END, 1080);
	maker_close(out, END);
	t = open_recording(*state);
	assert_int_equal(cpu_time(t, PID), 1080);
	assert_int_equal(trace_rows(t, TABLE_cpu_sample), 3);
	trace_free(t);
}

/* A process too short for a sample has no segments outside: its time is a thread of its parent. */
static void a_process_without_samples_outside(void **state)
{
	struct maker *in = maker_begin(*state, PID, 1000, "python a.py");
	struct maker *out = perf_session(*state, OTHER, 0);
	struct trace *t;

	span(in, sampling_method_timer, PID, 1000, END, 0);
	maker_cpu_sample(in, PID, 1500, 10, 0);
	maker_close(in, END);
	outside(out, OTHER, 600, 1000, CPU);
	outside(out, PID, END, 12, UINT32_MAX);
	outside(out, OTHER, END + 1, 3, UINT32_MAX);
	span(out, sampling_method_perf_events, PID, 500, END, 12);
	span(out, sampling_method_perf_events, OTHER, 0, END + 1, 1003);
	maker_close(out, END + 1);
	t = open_recording(*state);
	assert_int_equal(cpu_time(t, PID), 10);
	assert_int_equal(cpu_time(t, OTHER), 1003 + 2);
	trace_free(t);
}

/*
 * What is not known is not added: the count of a process that still runs. Nor is anything taken
 * away where the timers' rounding exceeds the count.
 */
static void nothing_is_added_without_a_count(void **state)
{
	struct maker *in = maker_begin(*state, PID, 1000, "python a.py");
	struct maker *out = perf_session(*state, PID, 500);
	struct trace *t;

	span(in, sampling_method_timer, PID, 1000, 0, 0);
	maker_cpu_sample(in, PID, 1500, 50, 0);
	maker_close(in, END);
	outside(out, PID, 900, 100, CPU);
	outside(out, PID, 1600, 40, CPU);
	outside(out, PID + 1, 1700, 5, UINT32_MAX);
	maker_flush(out);
	t = open_recording(*state);
	assert_int_equal(cpu_time(t, PID), 150);
	trace_free(t);
	span(out, sampling_method_perf_events, PID, 500, END, 149);
	maker_close(out, END);
	t = open_recording(*state);
	assert_int_equal(cpu_time(t, PID), 150);
	trace_free(t);
}

/* Rows of one method alone are all left as they are, such as those of early recordings. */
static void one_method_is_left_alone(void **state)
{
	struct maker *in = maker_begin(*state, PID, 1000, "python a.py");
	struct maker *out = perf_session(*state, PID, 500);
	struct trace *t;

	maker_cpu_sample(in, PID, 1500, 50, 0);
	maker_close(in, END);
	outside(out, PID, 900, 100, CPU);
	outside(out, PID, 1600, 40, UINT32_MAX);
	span(out, sampling_method_perf_events, PID, 500, END, 140);
	maker_close(out, END);
	t = open_recording(*state);
	assert_int_equal(cpu_time(t, PID), 190);
	assert_int_equal(trace_rows(t, TABLE_cpu_sample), 3);
	trace_free(t);
}

/* The count of a process whose end is unknown is no row at the end of time. */
static void a_count_without_an_end(void **state)
{
	struct maker *in = maker_begin(*state, PID, 1000, "python a.py");
	struct maker *out = perf_session(*state, PID, 500);
	uint64_t start_ns, end_ns;
	struct trace *t;

	span(in, sampling_method_timer, PID, 1000, 0, 0);
	maker_cpu_sample(in, PID, 1500, 50, 0);
	maker_close(in, END);
	outside(out, PID, 900, 100, CPU);
	outside(out, PID, 1600, 40, CPU);
	span(out, sampling_method_perf_events, PID, 500, 0, 500);
	maker_close(out, END);
	t = open_recording(*state);
	assert_int_equal(cpu_time(t, PID), 150);
	trace_span(t, &start_ns, &end_ns);
	assert_in_range(end_ns, END, END + 1);
	trace_free(t);
}

/* More CPU time than there can be is damage, and its block is left out: sums would wrap. */
static void impossible_weights(void **state)
{
	struct maker *m = perf_session(*state, PID, 500);
	const struct trace_loss *losses;
	size_t count;
	struct trace *t;

	outside(m, PID, 1000, (UINT64_C(1) << 50), CPU);
	maker_flush(m);
	outside(m, PID, 2000, 100, CPU);
	outside(m, PID, 3000, UINT64_MAX - 50, CPU);
	maker_flush(m);
	maker_close(m, END);
	t = open_recording(*state);
	assert_int_equal(cpu_time(t, PID), UINT64_C(1) << 50);
	assert_int_equal(trace_losses(t, &losses, &count, NULL), 0);
	assert_int_equal(count, 1);
	assert_int_equal(losses[0].reason, loss_reason_damaged_file);
	assert_non_null(strstr(losses[0].detail, "1 damaged block of 2 rows"));
	trace_free(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(each_instant_counts_once),
		folder_test(timers_end_with_their_image),
		folder_test(a_process_without_samples_outside),
		folder_test(nothing_is_added_without_a_count),
		folder_test(one_method_is_left_alone),
		folder_test(a_count_without_an_end),
		folder_test(impossible_weights),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
