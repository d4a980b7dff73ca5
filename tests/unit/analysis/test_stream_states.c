/* test_stream_states.c: states of streams by hand; they tile the window. */
#include "analysis/stream_states.h"

#include "unit/analysis/report_fixture.h"

#define US UINT64_C(1000)

static void expect(const struct stream_row *row, bool is_gpu, uint32_t stream,
		   const uint64_t us[STREAM_STATE_KINDS])
{
	assert_int_equal(row->is_gpu, is_gpu);
	if (!is_gpu)
		assert_int_equal(row->stream, stream);
	for (unsigned i = 0; i < STREAM_STATE_KINDS; i++)
		assert_int_equal(row->ns[i], us[i] * US);
}

/*
 * Stream 20 runs from 20 to 120 us. Stream 21 is launched at 30 us, waits for it, and begins at
 * 125 us; its next work is launched at 300 us. Stream 22's only work has no call.
 */
static void states_by_hand(void **state)
{
	struct report_options options = { .filter = FILTER_ALL, .states = true };
	struct maker *m = begin(*state, 100);
	uint32_t kernel = maker_config(m, "k", 1, 32);
	const struct stream_states *s;
	struct analyzed a;

	maker_call(m, MAKER_LAUNCH, 1, 10 * US, 12 * US, 1);
	maker_kernel(m, kernel, 20, 20 * US, 120 * US, 1);
	maker_stream_call(m, MAKER_EVENT_RECORD, 1, 14 * US, 15 * US, 20, 0xe);
	maker_stream_call(m, MAKER_STREAM_WAIT, 1, 16 * US, 17 * US, 21, 0xe);
	maker_call(m, MAKER_LAUNCH, 1, 30 * US, 32 * US, 2);
	maker_kernel(m, kernel, 21, 125 * US, 200 * US, 2);
	maker_call(m, MAKER_LAUNCH, 1, 300 * US, 302 * US, 3);
	maker_kernel(m, kernel, 21, 310 * US, 400 * US, 3);
	maker_kernel(m, kernel, 22, 350 * US, 450 * US, 9);
	maker_close(m, 500 * US);
	analyze(&a, *state, options);
	s = a.report.stream_states;
	assert_int_equal(s->window_ns, 500 * US);
	assert_int_equal(s->count, 4);
	/* running, queued, waiting, starved, idle, unknown */
	expect(&s->rows[0], true, 0, (uint64_t[]){ 315, 25, 0, 110, 50, 0 });
	expect(&s->rows[1], false, 21, (uint64_t[]){ 165, 15, 90, 130, 100, 0 });
	expect(&s->rows[2], false, 20, (uint64_t[]){ 100, 10, 0, 10, 380, 0 });
	expect(&s->rows[3], false, 22, (uint64_t[]){ 100, 0, 0, 0, 50, 350 });
	assert_int_equal(s->rows[1].longest_wait_ns, 90 * US);
	assert_int_equal(s->rows[1].longest_wait_for, 20);
	analyzed_release(&a);
}

static void random_states_tile_the_window(void **state)
{
	struct report_options options = {
		.filter = { 3000 * US, 9000 * US, -1, -1, -1, NULL, NULL }, .states = true
	};
	struct maker *m = begin(*state, 100);
	uint32_t kernel = maker_config(m, "k", 1, 32);
	uint64_t seed = 1, now = 1000, gpu[4] = { 0 };
	const struct stream_states *s;
	struct analyzed a;

	for (uint64_t i = 1; i < 2000; i++) {
		uint32_t stream = random_u64(&seed) % 4;
		uint64_t start = MAX(now + random_u64(&seed) % 5000, gpu[stream]);

		maker_call(m, MAKER_LAUNCH, 1, now, now + 1000, i);
		gpu[stream] = start + random_u64(&seed) % 20000;
		maker_kernel(m, kernel, 20 + stream, start, gpu[stream], i);
		now += 1000 + random_u64(&seed) % 9000;
	}
	maker_close(m, 20000 * US);
	analyze(&a, *state, options);
	s = a.report.stream_states;
	assert_int_equal(s->window_ns, 6000 * US);
	assert_int_equal(s->count, 5);
	for (size_t i = 0; i < s->count; i++) {
		uint64_t sum = 0;

		for (unsigned k = 0; k < STREAM_STATE_KINDS; k++)
			sum += s->rows[i].ns[k];
		assert_int_equal(sum, s->window_ns);
	}
	assert_int_equal(s->rows[0].ns[STREAM_STATE_running], a.report.busy->gpus[0].union_ns);
	analyzed_release(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(states_by_hand),
		folder_test(random_states_tile_the_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
