/* test_steps.c: steps by their sources, their times, and what is different in slow ones. */
#include "analysis/steps.h"

#include "unit/analysis/report_fixture.h"

#define US UINT64_C(1000)
#define MS (1000 * US)

/* A program of which each step is 10 ms long, unless a test says otherwise. */
struct loop_program {
	struct maker *m;
	uint32_t gemm, norm, other;
	uint64_t correlation;
};

static struct loop_program begin_loop(const char *folder)
{
	struct loop_program p = { .m = begin(folder, 100) };

	p.gemm = maker_config(p.m, "gemm", 1, 32);
	p.norm = maker_config(p.m, "norm", 1, 32);
	p.other = maker_config(p.m, "other", 1, 32);
	return p;
}

static void run_kernel(struct loop_program *p, uint32_t config, uint64_t call_ns, uint64_t start_ns,
		       uint64_t ns)
{
	p->correlation++;
	maker_call(p->m, MAKER_LAUNCH, 1, call_ns, call_ns + 5 * US, p->correlation);
	maker_kernel(p->m, config, 7, start_ns, start_ns + ns, p->correlation);
}

static void copy_to_gpu(struct loop_program *p, uint64_t at)
{
	p->correlation++;
	maker_call(p->m, MAKER_MEMCPY, 1, at, at + 5 * US, p->correlation);
	maker_memcpy(p->m, copy_kind_HtoD, 4096, 7, at + 10 * US, at + 20 * US, p->correlation);
}

/* A copy, two kernels, and a wait for them: from 100 us until wait_ns later. */
static void run_step(struct loop_program *p, uint64_t at, uint64_t gemm_ns)
{
	copy_to_gpu(p, at + 100 * US);
	run_kernel(p, p->gemm, at + 200 * US, at + 210 * US, gemm_ns);
	run_kernel(p, p->norm, at + 300 * US, at + 310 * US + gemm_ns, 50 * US);
	maker_stream_call(p->m, MAKER_STREAM_SYNCHRONIZE, 1, at + 400 * US, at + 365 * US + gemm_ns,
			  7, 0);
}

static struct analyzed with_steps(const char *folder)
{
	struct report_options options = { .filter = FILTER_ALL, .steps = true };
	struct analyzed a;

	analyze(&a, folder, options);
	assert_int_equal(a.report.steps->loop_count, 1);
	return a;
}

static void expect(struct analyzed *a, enum step_source source, enum step_reason reason,
		   size_t count)
{
	const struct step_loop *l = &a->report.steps->loops[0];

	if (l->source != source || l->reason != reason || l->count != count)
		fail_msg("source %u, reason %u, %zu steps", l->source, l->reason, l->count);
	analyzed_release(a);
}

static void scopes_before_ranges(void **state)
{
	struct loop_program p = begin_loop(*state);
	const struct step *items;
	struct analyzed a;

	for (uint64_t i = 0; i < 6; i++) {
		uint64_t at = (i + 1) * 10 * MS;

		maker_nvtx(p.m, nvtx_kind_push, 1, "iteration 1", at);
		maker_scope(p.m, nvtx_kind_push, 1, "step", 0, at + 50 * US);
		run_step(&p, at, 5 * MS);
		maker_scope(p.m, nvtx_kind_pop, 1, NULL, 0, at + 8 * MS);
		maker_nvtx(p.m, nvtx_kind_pop, 1, NULL, at + 9 * MS);
	}
	maker_close(p.m, 100 * MS);
	a = with_steps(*state);
	items = a.report.steps->items;
	assert_string_equal(trace_string(a.trace, a.report.steps->loops[0].name), "step");
	assert_int_equal(items[2].start_ns, 30 * MS + 50 * US);
	assert_int_equal(items[2].end_ns, 38 * MS);
	assert_int_equal(items[2].launches, 3);
	assert_int_equal(items[2].work_ns, 5 * MS + 60 * US);
	assert_int_equal(items[5].number, 6);
	expect(&a, STEPS_SCOPES, STEP_REASON_found, 6);
}

/* A step that has not ended is none, nor are ranges inside of steps. */
static void expect_ranges(const char *folder, const char *const *names)
{
	struct loop_program p = begin_loop(folder);
	struct analyzed a;

	for (unsigned i = 0; i < 6; i++) {
		uint64_t at = (i + 1) * 10 * MS;

		maker_nvtx(p.m, nvtx_kind_push, 1, names[i % 3], at);
		maker_nvtx(p.m, nvtx_kind_push, 1, "iter", at + 10 * US);
		run_step(&p, at, 5 * MS);
		maker_nvtx(p.m, nvtx_kind_pop, 1, NULL, at + 7 * MS);
		if (i < 5)
			maker_nvtx(p.m, nvtx_kind_pop, 1, NULL, at + 8 * MS);
	}
	maker_close(p.m, 100 * MS);
	a = with_steps(folder);
	expect(&a, STEPS_RANGES, STEP_REASON_found, 5);
}

static void ranges_of_a_profiler(void **state)
{
	expect_ranges(*state, (const char *const[]){ "ProfilerStep#1", "ProfilerStep#2",
						     "ProfilerStep#13" });
}

static void ranges_in_words(void **state)
{
	expect_ranges(*state, (const char *const[]){ "Training step 1", "Training step 2",
						     "Training step 13" });
}

static void ranges_in_brackets(void **state)
{
	expect_ranges(*state,
		      (const char *const[]){ "[pl]batch[1]", "[pl]batch[2]", "[pl]batch[13]" });
}

static void steps_of_several_threads_are_none(void **state)
{
	struct loop_program p = begin_loop(*state);
	struct analyzed a;

	for (uint64_t i = 0; i < 12; i++) {
		uint32_t thread = 1 + i % 2;

		maker_nvtx(p.m, nvtx_kind_push, thread, "step", (i + 1) * 10 * MS);
		run_step(&p, (i + 1) * 10 * MS, 5 * MS);
		maker_nvtx(p.m, nvtx_kind_pop, thread, NULL, (i + 1) * 10 * MS + 15 * MS);
	}
	maker_close(p.m, 200 * MS);
	a = with_steps(*state);
	expect(&a, STEPS_NONE, STEP_REASON_overlap, 0);
}

/* Each step ends 1 ns after the next one has begun, as times that were rounded do. */
static void steps_that_overlap_by_rounding(void **state)
{
	struct loop_program p = begin_loop(*state);
	const struct step *items;
	struct analyzed a;

	for (uint64_t i = 0; i < 7; i++) {
		uint64_t at = (i + 1) * 10 * MS;

		if (i < 6)
			maker_scope(p.m, nvtx_kind_start, 1, "step", i + 1, at);
		if (i > 0)
			maker_scope(p.m, nvtx_kind_end, 1, NULL, i, at + 1);
		if (i < 6)
			run_step(&p, at + 2, 5 * MS);
	}
	maker_close(p.m, 100 * MS);
	a = with_steps(*state);
	items = a.report.steps->items;
	for (size_t i = 1; i < 6; i++)
		assert_int_equal(items[i].host_start_ns, items[i - 1].host_end_ns);
	expect(&a, STEPS_SCOPES, STEP_REASON_found, 6);
}

/* Training and validation have steps of their own; those with more time are meant. */
static void one_loop_of_two(void **state)
{
	struct loop_program p = begin_loop(*state);
	struct analyzed a;

	for (unsigned phase = 0; phase < 2; phase++) {
		uint64_t from = phase ? 200 * MS : 0;

		maker_nvtx(p.m, nvtx_kind_push, 1, phase ? "validate" : "train", from + 5 * MS);
		for (uint64_t i = 0; i < (phase ? 3 : 9); i++) {
			uint64_t at = from + (i + 1) * 10 * MS;

			maker_nvtx(p.m, nvtx_kind_push, 1, "step", at);
			run_step(&p, at, 5 * MS);
			maker_nvtx(p.m, nvtx_kind_pop, 1, NULL, at + 8 * MS);
		}
		maker_nvtx(p.m, nvtx_kind_pop, 1, NULL, from + 150 * MS);
	}
	maker_close(p.m, 400 * MS);
	a = with_steps(*state);
	expect(&a, STEPS_RANGES, STEP_REASON_found, 9);
}

/* Behind a warm-up; the first launches, and the last step, are in none. */
static void launches_that_repeat(void **state)
{
	struct loop_program p = begin_loop(*state);
	struct analyzed a;

	for (uint64_t i = 0; i < 5; i++)
		run_kernel(&p, p.other, i * MS, i * MS + 20 * US, 10 * US);
	for (uint64_t i = 0; i < 10; i++)
		run_step(&p, (i + 1) * 10 * MS, 5 * MS);
	maker_close(p.m, 200 * MS);
	a = with_steps(*state);
	assert_true(a.report.steps->loops[0].count >= 9);
	for (size_t i = 0; i < 9; i++)
		assert_int_equal(a.report.steps->items[i].launches, 3);
	assert_in_range(a.report.steps->loops[0].time.median_ns, 9 * MS, 10 * MS);
	expect(&a, STEPS_LAUNCHES, STEP_REASON_found, a.report.steps->loops[0].count);
}

static void launches_without_host_are_no_steps(void **state)
{
	struct loop_program p = begin_loop(*state);
	struct analyzed a;

	for (uint64_t i = 0; i < 60; i++)
		run_kernel(&p, i % 3 ? p.gemm : p.norm, i * MS, i * MS + 20 * US, 10 * US);
	maker_close(p.m, 200 * MS);
	a = with_steps(*state);
	expect(&a, STEPS_NONE, STEP_REASON_unmarked, 0);
}

static void random_launches(void **state)
{
	struct loop_program p = begin_loop(*state);
	uint64_t random = 7;
	struct analyzed a;

	for (uint64_t i = 0; i < 200; i++) {
		uint64_t kind = random_u64(&random) % 4;

		if (kind == 3)
			copy_to_gpu(&p, i * MS);
		else
			run_kernel(&p,
				   kind == 2 ? p.other
				   : kind    ? p.gemm
					     : p.norm,
				   i * MS, i * MS + 20 * US, 10 * US);
	}
	maker_close(p.m, 300 * MS);
	a = with_steps(*state);
	expect(&a, STEPS_NONE, STEP_REASON_irregular, 0);
}

/* Launches of one graph, with other work between them now and then. */
static void launches_of_a_graph(void **state)
{
	struct loop_program p = begin_loop(*state);
	uint64_t random = 3;
	struct analyzed a;

	for (uint64_t i = 0; i < 12; i++) {
		uint64_t at = (i + 1) * 10 * MS;

		p.correlation++;
		maker_call(p.m, MAKER_GRAPH_LAUNCH, 1, at, at + 10 * US, p.correlation);
		for (uint64_t node = 1; node < 6; node++)
			maker_graph_kernel(p.m, p.gemm, 7, at + node * MS,
					   at + node * MS + 900 * US, p.correlation, 3, node);
		for (uint64_t n = random_u64(&random) % 3; n-- > 0;)
			run_kernel(&p, n ? p.other : p.norm, at + 7 * MS + n * 100 * US,
				   at + 8 * MS + n * 100 * US, 10 * US);
	}
	maker_close(p.m, 200 * MS);
	a = with_steps(*state);
	assert_int_equal(a.report.steps->items[3].host_start_ns, 40 * MS);
	assert_in_range(a.report.steps->items[3].launches, 5, 7);
	expect(&a, STEPS_GRAPHS, STEP_REASON_found, 11);
}

/* The host launches all steps at once; each lasts as long as its work. */
static void a_host_that_is_ahead(void **state)
{
	struct loop_program p = begin_loop(*state);
	const struct step *items;
	struct analyzed a;

	for (uint64_t i = 0; i < 6; i++) {
		uint64_t at = MS + i * 100 * US;

		maker_scope(p.m, nvtx_kind_push, 1, "step", 0, at);
		run_kernel(&p, p.gemm, at + 10 * US, 2 * MS + i * 20 * MS, 19 * MS);
		maker_scope(p.m, nvtx_kind_pop, 1, NULL, 0, at + 50 * US);
	}
	maker_close(p.m, 200 * MS);
	a = with_steps(*state);
	items = a.report.steps->items;
	for (size_t i = 1; i < 6; i++) {
		assert_int_equal(items[i].start_ns, items[i - 1].end_ns);
		assert_int_equal(items[i].end_ns - items[i].start_ns, 20 * MS);
		assert_int_equal(items[i].launches, 1);
	}
	assert_int_equal(a.report.steps->loops[0].slow_count, 0);
	expect(&a, STEPS_SCOPES, STEP_REASON_found, 6);
}

/*
 * Of twenty steps, one has a kernel that takes 3 ms longer, one a cudaMalloc of 2 ms. All
 * differences are on the path, and add up to that of the durations.
 */
static void slow_steps(void **state)
{
	struct loop_program p = begin_loop(*state);
	const struct slow_step *slow;
	const struct step_loop *loop;
	struct analyzed a;

	for (uint64_t i = 0; i < 20; i++) {
		uint64_t at = (i + 1) * 20 * MS, gemm_ns = i == 8 ? 8 * MS : 5 * MS,
			 late_ns = i == 13 ? 2 * MS : 0;

		maker_scope(p.m, nvtx_kind_push, 1, "step", 0, at);
		if (late_ns)
			maker_call(p.m, MAKER_MALLOC, 1, at + 50 * US, at + 50 * US + late_ns,
				   900 + i);
		run_step(&p, at + late_ns, gemm_ns);
		maker_scope(p.m, nvtx_kind_pop, 1, NULL, 0, at + late_ns + gemm_ns + 365 * US);
	}
	maker_loss(p.m, loss_reason_ring_full, 5, 181 * MS, 182 * MS, "x");
	maker_close(p.m, 500 * MS);
	a = with_steps(*state);
	loop = &a.report.steps->loops[0];
	slow = a.report.steps->slow;
	assert_int_equal(loop->slow_count, 2);
	assert_int_equal(a.report.steps->slow_count, 2);
	assert_int_equal(loop->time.median_ns, 5 * MS + 365 * US);
	assert_int_equal(loop->usual_ns, loop->time.median_ns);
	assert_int_equal(loop->mad_ns, 0);
	assert_int_equal(slow[0].step, 8);
	assert_int_equal(slow[0].difference_count, 1);
	assert_int_equal(slow[0].differences[0].place.class, PATH_KERNEL);
	assert_int_equal(slow[0].differences[0].ns, 3 * MS);
	assert_int_equal(slow[0].losses, 1);
	assert_int_equal(slow[1].step, 13);
	assert_int_equal(slow[1].differences[0].place.class, PATH_CALL);
	assert_int_equal(slow[1].differences[0].ns, 2 * MS);
	assert_int_equal(slow[1].calls, 1);
	assert_int_equal(slow[1].usual_calls, 0);
	assert_int_equal(slow[1].losses, 0);
	expect(&a, STEPS_SCOPES, STEP_REASON_found, 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(scopes_before_ranges),
		folder_test(ranges_of_a_profiler),
		folder_test(ranges_in_words),
		folder_test(ranges_in_brackets),
		folder_test(steps_of_several_threads_are_none),
		folder_test(steps_that_overlap_by_rounding),
		folder_test(one_loop_of_two),
		folder_test(launches_that_repeat),
		folder_test(launches_without_host_are_no_steps),
		folder_test(random_launches),
		folder_test(launches_of_a_graph),
		folder_test(a_host_that_is_ahead),
		folder_test(slow_steps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
