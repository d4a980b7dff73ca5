#include "analysis/idle_lines.h"

#include <string.h>

#include "report_fixture.h"

#define LIBC UINT64_C(0x7f0000000000)

/* Twenty kernels of 10 us, 90 us of nothing before each; call i launches from line i % 2. */
static struct maker *launches(const char *folder, uint32_t *library, uint32_t *own)
{
	struct maker *m = begin(folder, 100);
	uint32_t k = maker_config(m, "k", 1, 32), stacks[2];

	maker_module(m, "/lib/libc.so.6", NULL, LIBC, LIBC + 0x1000, LIBC);
	maker_symbol(m, LIBC + 0x10, 0, "read", "/lib/libc.so.6", NULL, 0, 0);
	for (uint32_t i = 0; i < 2; i++)
		stacks[i] = maker_stack(m, maker_python(m, 0, "step", "/home/u/x.py", 10 + i), 1,
					stack_end_complete);
	*own = stacks[0];
	*library = maker_stack(m, maker_native(m, 0, LIBC + 0x10), 1, stack_end_complete);
	for (uint64_t i = 0; i < 20; i++) {
		m->stack = stacks[i % 2];
		maker_call(m, MAKER_LAUNCH, 10, 90000 + 100000 * i, 91000 + 100000 * i, i + 1);
		maker_kernel(m, k, 7, 95000 + 100000 * i, 105000 + 100000 * i, i + 1);
	}
	return m;
}

static void samples_need_the_users_own_code(void **state)
{
	for (int round = 0; round < 3; round++) {
		char folder[512];
		uint32_t library, own;
		struct analyzed a;
		struct maker *m;

		snprintf(folder, sizeof(folder), "%s/%d", (const char *)*state, round);
		m = launches(folder, &library, &own);
		/* 0: too few; 1: all in a library; 2: half of them the user's */
		for (uint64_t i = 1; i < (round ? 20 : 9); i++)
			maker_cpu_sample(m, 10, 50000 + 100000 * i, 40000,
					 round == 2 && i % 2 ? own : library);
		maker_cpu_sample(m, 11, 150000, 40000, own); /* it launches nothing */
		maker_cpu_sample(m, 10, 100000, 40000, own); /* the GPU is busy */
		maker_cpu_sample(m, 10, 50000, 40000, own); /* before the first work */
		maker_close(m, 3000000);
		analyze(&a, folder, EVERYTHING);
		assert_int_equal(a.report.idle_lines->gaps, 19);
		assert_int_equal(a.report.idle_lines->gaps_ns, 19 * 90000);
		assert_int_equal(a.report.idle_lines->samples, round ? 19 : 8);
		if (round == 2) {
			const struct idle_line *most = &a.report.idle_lines->items[0];

			assert_int_equal(a.report.idle_lines->source, IDLE_SOURCE_SAMPLES);
			assert_int_equal(a.report.idle_lines->count, 2);
			assert_int_equal(most->count, 10);
			assert_int_equal(most->ns, 10 * 40000);
		} else {
			assert_int_equal(a.report.idle_lines->source, IDLE_SOURCE_LAUNCHES);
			assert_int_equal(a.report.idle_lines->items[0].count, 10);
			assert_int_equal(a.report.idle_lines->items[0].ns, 10 * 90000);
			assert_int_equal(a.report.idle_lines->items[1].ns, 9 * 90000);
		}
		analyzed_release(&a);
	}
}

/* Times off the CPU are cut at the edges of gaps; damaged ones that overlap count once. */
static void pauses_are_exact(void **state)
{
	uint32_t library, own;
	struct maker *m = launches(*state, &library, &own);
	struct analyzed a;

	maker_cpu_sample(m, 10, 150000, 5, own);
	maker_off_cpu(m, 10, 101000, 120000, off_cpu_state_sleeping, own); /* 15 us of a gap */
	maker_off_cpu(m, 10, 110000, 125000, off_cpu_state_sleeping, own); /* 5 us are new */
	maker_off_cpu(m, 10, 180000, 225000, off_cpu_state_sleeping, own); /* 15 and 20 us */
	maker_off_cpu(m, 11, 300000, 400000, off_cpu_state_sleeping, own);
	maker_close(m, 3000000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.idle_lines->source, IDLE_SOURCE_SAMPLES);
	assert_int_equal(a.report.idle_lines->off_cpu_ns, 55000);
	assert_int_equal(a.report.idle_lines->items[0].ns, 55005);
	assert_int_equal(a.report.idle_lines->items[0].off_cpu_ns, 55000);
	assert_int_equal(a.report.idle_lines->items[0].count, 1);
	analyzed_release(&a);
}

/* Nothing is said when the GPU is busy all the time. */
static void busy_gpus_have_none(void **state)
{
	struct maker *m = begin(*state, 100);
	uint32_t k = maker_config(m, "k", 1, 32);
	struct analyzed a;

	m->stack = maker_stack(m, maker_python(m, 0, "step", "x.py", 1), 1, stack_end_complete);
	for (uint64_t i = 0; i < 10; i++) {
		maker_call(m, MAKER_LAUNCH, 10, 1000 * i, 1000 * i + 10, i + 1);
		maker_kernel(m, k, 7, 1000 * i + 20, 1000 * i + 1000, i + 1);
	}
	maker_close(m, 20000);
	analyze(&a, *state, EVERYTHING);
	assert_int_equal(a.report.verdicts->whole.kind, VERDICT_BOUND + BOUND_GPU);
	assert_int_equal(a.report.idle_lines->source, IDLE_SOURCE_NONE);
	assert_int_equal(a.report.idle_lines->count, 0);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(samples_need_the_users_own_code),
		folder_test(pauses_are_exact),
		folder_test(busy_gpus_have_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
