#include "analysis/verdict.h"

#include <string.h>

#include "base/clock.h"
#include "report_fixture.h"

/*
 * A thread that does `step` n times; each writes its calls and kernels and returns when the next
 * one begins.
 */
typedef uint64_t step_function(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n);

static void check(const char *folder, step_function *step, enum verdict_kind expected)
{
	struct maker *m = begin(folder, 100);
	uint32_t kernel = maker_config(m, "k", 1, 32);
	struct strbuf text = STRBUF_INIT;
	struct analyzed a;
	uint64_t now = 1000;

	for (uint64_t n = 1; n <= 100; n++)
		now = step(m, kernel, now, n);
	maker_close(m, now);
	analyze(&a, folder, EVERYTHING);
	assert_string_equal(verdict_name(a.report.verdicts->whole.kind), verdict_name(expected));
	verdict_sentence(&a.report.verdicts->whole, &text);
	assert_false(text.failed);
	assert_non_null(strstr(strbuf_text(&text),
			       expected == VERDICT_NO_WORK   ? "no GPU work"
			       : expected == VERDICT_UNTIMED ? "91 of 100 GPU operations have no"
			       : expected == VERDICT_INSTANT ? "100 GPU operations of 0 ns"
							     : "GPU 0 utilization"));
	strbuf_release(&text);
	analyzed_release(&a);
}

/* The queue is always full: launches every 2 us, kernels of 10 us. */
static uint64_t queue_full(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	maker_call(m, MAKER_LAUNCH, 10, now, now + 1500, n);
	maker_kernel(m, kernel, 7, 10000 * n, 10000 * n + 9900, n);
	return now + 2000;
}

static void gpu_bound(void **state)
{
	check(*state, queue_full, VERDICT_GPU);
}

/* Launches every 6 us, kernels of 2 us, 4 us after the call began. */
static uint64_t one_by_one(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	maker_call(m, MAKER_LAUNCH, 10, now, now + 2000, n);
	maker_kernel(m, kernel, 7, now + 4000, now + 6000, n);
	return now + 6000;
}

static void launch_bound(void **state)
{
	check(*state, one_by_one, VERDICT_LAUNCH);
}

/*
 * So short that the next launch has always returned before the kernel ends; the GPU still starves.
 */
static uint64_t tiny_kernels(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	maker_call(m, MAKER_LAUNCH, 10, now, now + 2400, n);
	maker_kernel(m, kernel, 7, now + 6000, now + 7000, n);
	return now + 2500;
}

static void launch_bound_with_launches_in_flight(void **state)
{
	check(*state, tiny_kernels, VERDICT_LAUNCH);
}

static uint64_t copy_and_compute(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	maker_call(m, MAKER_MEMCPY, 10, now, now + 1000, 2 * n);
	maker_memcpy(m, copy_kind_HtoD, 1 << 20, 7, now + 1000, now + 51000, 2 * n);
	maker_call(m, MAKER_LAUNCH, 10, now + 1000, now + 3000, 2 * n + 1);
	maker_kernel(m, kernel, 7, now + 52000, now + 60000, 2 * n + 1);
	return now + 60000;
}

static void copy_bound(void **state)
{
	check(*state, copy_and_compute, VERDICT_COPY);
}

/* Launch, wait, think for 200 us, again. */
static uint64_t wait_each_time(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	maker_call(m, MAKER_LAUNCH, 10, now, now + 2000, 2 * n);
	maker_kernel(m, kernel, 7, now + 4000, now + 50000, 2 * n);
	maker_call(m, MAKER_STREAM_SYNCHRONIZE, 10, now + 2000, now + 52000, 2 * n + 1);
	return now + 250000;
}

static void sync_bound(void **state)
{
	check(*state, wait_each_time, VERDICT_SYNC);
}

/* All was launched long before; the GPU takes 6 us between kernels of 4 us. */
static uint64_t far_ahead(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	maker_call(m, MAKER_LAUNCH, 10, now, now + 900, n);
	maker_kernel(m, kernel, 7, 200000 + 10000 * n, 204000 + 10000 * n, n);
	return now + 1000;
}

static void latency_bound(void **state)
{
	check(*state, far_ahead, VERDICT_LATENCY);
}

/* 5 ms of other things between launches that nobody waits for. */
static uint64_t slow_host(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	maker_call(m, MAKER_LAUNCH, 10, now, now + 2000, n);
	maker_kernel(m, kernel, 7, now + 4000, now + 50000, n);
	return now + 5000000;
}

static void host_bound(void **state)
{
	check(*state, slow_host, VERDICT_HOST);
}

/* The same without the calls. */
static uint64_t calls_not_recorded(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	maker_kernel(m, kernel, 7, now + 4000, now + 50000, n);
	return now + 5000000;
}

static void idle_for_unknown_reasons(void **state)
{
	check(*state, calls_not_recorded, VERDICT_IDLE);
}

/*
 * As one_by_one, after a second in which nothing is launched; the first launch is followed by a
 * synchronization.
 */
static uint64_t late_loop(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	now = one_by_one(m, kernel, now, n);
	if (n > 1)
		return now;
	maker_call(m, MAKER_STREAM_SYNCHRONIZE, 10, now - 1000, now + 1000, 1000);
	return now + 1000000000;
}

static void a_pause_is_left_out(void **state)
{
	check(*state, late_loop, VERDICT_LAUNCH);
}

/* Ten steps as slow_host, then one_by_one. */
static uint64_t slow_start(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	return n <= 10 ? slow_host(m, kernel, now, n) : one_by_one(m, kernel, now, n);
}

static void a_slow_start_is_told_apart(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t kernel = maker_config(m, "k", 1, 32);
	struct analyzed a;
	uint64_t now = 1000, later = 0;

	for (uint64_t n = 1; n <= 100; n++) {
		if (n == 11)
			later = now + 4000;
		now = slow_start(m, kernel, now, n);
	}
	maker_close(m, now);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.verdicts->whole.kind, VERDICT_HOST);
	assert_int_equal(a.report.verdicts->whole.start_up.pieces, 10);
	assert_int_equal(a.report.verdicts->whole.start_up.end_ns, later);
	assert_int_equal(a.report.verdicts->whole.pieces, 100);
	assert_int_equal(a.report.verdicts->later.kind, VERDICT_LAUNCH);
	assert_int_equal(a.report.verdicts->later.span_ns, 89 * 6000 + 2000);
	analyzed_release(&a);
}

/*
 * One after the other, with two pauses and eleven shorter gaps: the second pause is a fifth only of
 * what the first one leaves. Both are left out of all figures.
 */
static void two_pauses_are_left_out(void **state)
{
	const uint64_t first = 2000000000, second = 700000000, gap = 100000000;
	struct maker *m = begin(*state, 100);
	uint32_t kernel = maker_config(m, "k", 1, 32);
	uint64_t now = 1000, span = 100 * 6000 - 4000 + first + second + 11 * gap, parts = 0;
	const struct verdict *v;
	struct analyzed a;

	m->stack = maker_stack(m, maker_python(m, 0, "step", "/x.py", 7), 1, stack_end_complete);
	for (uint64_t n = 1; n <= 100; n++) {
		now = one_by_one(m, kernel, now, n);
		now += n == 30 ? first : n == 50 ? second : n >= 60 && n < 71 ? gap : 0;
	}
	maker_close(m, now);
	analyze(&a, *state, EVERYTHING);
	v = &a.report.verdicts->whole;
	assert_int_equal(v->pauses, 2);
	assert_int_equal(v->pause_ns, first + second + 2 * 4000);
	assert_int_equal(v->span_ns, span - v->pause_ns);
	assert_int_equal(v->busy_ns, 100 * 2000);
	for (int part = 0; part < IDLE_PARTS; part++)
		parts += v->part_ns[part];
	assert_int_equal(parts, v->span_ns - v->busy_ns);
	assert_int_equal(v->kind, VERDICT_HOST);
	assert_int_equal(a.report.idle_lines->gaps, 97);
	assert_int_equal(a.report.idle_lines->gaps_ns, parts);
	analyzed_release(&a);
}

/* Two seconds of work, each 250 ms a gap of 150 ms: that is how it runs, and no pause. */
static uint64_t regular_gaps(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	maker_call(m, MAKER_LAUNCH, 10, now, now + 2000, n);
	maker_kernel(m, kernel, 7, now + 4000, now + 100000000, n);
	return now + 250000000;
}

static void gaps_that_come_again_are_no_pauses(void **state)
{
	check(*state, regular_gaps, VERDICT_HOST);
}

static uint64_t nothing(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	(void)kernel;
	maker_call(m, MAKER_MALLOC, 10, now, now + 10, n);
	return now + 100;
}

static void no_work(void **state)
{
	check(*state, nothing, VERDICT_NO_WORK);
}

/* As the GPU would be idle, were the untimed ones not there. */
static uint64_t nine_of_ten(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	maker_call(m, MAKER_LAUNCH, 10, now, now + 2000, n);
	maker_kernel(m, kernel, 7, n % 10 ? 0 : now + 4000, n % 10 ? 0 : now + 6000, n);
	return now + 6000;
}

static uint64_t one_more(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	return nine_of_ten(m, kernel, now, n == 50 ? 51 : n);
}

static void mostly_untimed(void **state)
{
	check(*state, one_more, VERDICT_UNTIMED);
}

static void many_untimed(void **state)
{
	check(*state, nine_of_ten, VERDICT_LAUNCH);
}

/* Kernels of 0 ns, as in traces whose clock is coarse. */
static uint64_t without_length(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	maker_call(m, MAKER_LAUNCH, 10, now, now + 2000, n);
	maker_kernel(m, kernel, 7, now + 4000, now + 4000, n);
	return now + 6000;
}

static void all_work_lasts_0_ns(void **state)
{
	check(*state, without_length, VERDICT_INSTANT);
}

/* Every launch call takes a millisecond. */
static uint64_t long_calls(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	maker_call(m, MAKER_LAUNCH, 10, now, now + 1000000, n);
	maker_kernel(m, kernel, 7, now + 1000000, now + 1002000, n);
	return now + 1010000;
}

static void slow_launch_calls(void **state)
{
	check(*state, long_calls, VERDICT_CALL);
}

#define MEASURED_NS 20000

/* As one_by_one, but Pitot measures every tenth launch, whose call lasts accordingly. */
static uint64_t some_measured(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	if (n % 10 != 5)
		return one_by_one(m, kernel, now, n);
	maker_cost(m, cost_kind_replay, now - 100, now + MEASURED_NS, 1, MEASURED_NS + 100);
	maker_call(m, MAKER_LAUNCH, 10, now, now + MEASURED_NS, n);
	maker_kernel(m, kernel, 7, 0, 0, n);
	return now + MEASURED_NS;
}

static void check_parts(const struct verdict *v, uint64_t whole_ns)
{
	uint64_t parts = 0;

	for (int part = 0; part < IDLE_PARTS; part++)
		parts += v->part_ns[part];
	assert_int_equal(parts + v->busy_ns, whole_ns);
	assert_int_equal(v->span_ns + v->pause_ns + v->part_ns[IDLE_PART_MEASURING], whole_ns);
}

static void measuring_is_excluded(void **state)
{
	const uint64_t whole_ns = 90 * 6000 + 10 * MEASURED_NS - 4000;
	struct maker *m = begin(*state, 100);
	uint32_t kernel = maker_config(m, "k", 1, 32);
	struct strbuf text = STRBUF_INIT;
	const struct verdict *v;
	struct analyzed a;
	uint64_t now = 1000;

	for (uint64_t n = 1; n <= 100; n++)
		now = some_measured(m, kernel, now, n);
	maker_close(m, now);
	analyze(&a, *state, EVERYTHING);
	v = &a.report.verdicts->whole;
	check_parts(v, whole_ns);
	assert_int_equal(v->kind, VERDICT_LAUNCH);
	assert_int_equal(v->part_ns[IDLE_PART_MEASURING], 10 * MEASURED_NS);
	assert_int_equal(v->measured, 10);
	assert_int_equal(v->launches, 90);
	assert_int_equal(v->launch_mean_ns, 2000);
	assert_int_equal(a.report.launches->measured_calls.count, 10);
	assert_int_equal(a.report.launches->kernel_calls.max_ns, 2000);
	verdict_sentence(v, &text);
	assert_non_null(strstr(strbuf_text(&text), "excluding 200 us of Pitot's measuring"));
	strbuf_release(&text);
	analyzed_release(&a);
}

/* A recording whose cost rows are sums: the kernels without times say which calls it was. */
static uint64_t replayed(struct maker *m, uint32_t kernel, uint64_t now, uint64_t n)
{
	if (n == 1)
		maker_cost(m, cost_kind_replay, 0, NS_PER_S, 20, NS_PER_MS);
	if (n % 5 != 2)
		return one_by_one(m, kernel, now, n);
	maker_call(m, MAKER_LAUNCH, 10, now, now + NS_PER_MS, n);
	maker_kernel(m, kernel, 7, 0, 0, n);
	return now + NS_PER_MS;
}

static void no_verdict_when_pitot_measured_most_of_the_time(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t kernel = maker_config(m, "k", 1, 32);
	struct strbuf text = STRBUF_INIT;
	const struct verdict *v;
	struct analyzed a;
	uint64_t now = 1000;

	for (uint64_t n = 1; n <= 100; n++)
		now = replayed(m, kernel, now, n);
	maker_close(m, now);
	analyze(&a, *state, EVERYTHING);
	v = &a.report.verdicts->whole;
	check_parts(v, 80 * 6000 + 20 * NS_PER_MS - 4000);
	assert_int_equal(v->kind, VERDICT_MEASURED);
	assert_int_equal(v->start_up.pieces, 0);
	verdict_sentence(v, &text);
	assert_string_equal(strbuf_text(&text),
			    "20 measurements by Pitot kept the GPU idle for 20.0 ms of the 20.5 ms "
			    "from the first to the last GPU work; the other 476 us are too little "
			    "for a verdict");
	strbuf_release(&text);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(gpu_bound),
		folder_test(launch_bound),
		folder_test(launch_bound_with_launches_in_flight),
		folder_test(copy_bound),
		folder_test(sync_bound),
		folder_test(latency_bound),
		folder_test(a_pause_is_left_out),
		folder_test(two_pauses_are_left_out),
		folder_test(a_slow_start_is_told_apart),
		folder_test(gaps_that_come_again_are_no_pauses),
		folder_test(host_bound),
		folder_test(idle_for_unknown_reasons),
		folder_test(no_work),
		folder_test(mostly_untimed),
		folder_test(many_untimed),
		folder_test(all_work_lasts_0_ns),
		folder_test(slow_launch_calls),
		folder_test(measuring_is_excluded),
		folder_test(no_verdict_when_pitot_measured_most_of_the_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
