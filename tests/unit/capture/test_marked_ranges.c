/*
 * test_marked_ranges.c: scopes that are measured (marked_ranges.h), and what sessions and contexts
 * that come and go leave behind.
 */
#include "capture/engines/marked_ranges.h"

#include <sched.h>
#include <unistd.h>

#include "capture/cuda/correlation.h"
#include "capture/engines/launch_owner.h"
#include "capture/engines/launch_times.h"
#include "capture/nvtx/nvtx_calls.h"
#include "unit/capture/launch_fixture.h"
#include "unit/capture/stream_calls.h"

/* Returns the number of measurements, each of two passes, of this number of scopes. */
static uint64_t measurements(unsigned count)
{
	struct sink_of_engine sink;
	struct session *s = begin(&sink, &of_ranges);

	scopes(1, count);
	session_close(&s);
	assert_null(nvtx_watch_get());
	return sink.counting.rows[TABLE_range_value] / METRICS;
}

static void test_passes_of_two_sessions(void **state)
{
	(void)state;
	assert_int_equal(measurements(1), 0);
	assert_int_equal(measurements(1), 0);
	assert_int_equal(measurements(2), 1);
}

/* CUPTI's records of the one's launches may come after the next one has chosen. */
static void test_marks_outlive_the_next_choice(void **state)
{
	struct settings plain = SETTINGS_INIT;
	struct sink_of_engine whole, part;
	struct session *s, *measuring;
	uint64_t time_ns;

	(void)state;
	plain.cuda = true;
	s = begin(&whole, &plain);
	for (unsigned i = 0; i < 2; i++) {
		measuring = begin(&part, &of_ranges);
		scopes(1, 2);
		if (i == 0)
			assert_true(launch_times_add(LAUNCH_PATCHED, 1, clock_monotonic_ns()));
		session_close(&measuring);
		assert_int_equal(part.counting.rows[TABLE_range_value], METRICS);
	}
	assert_true(launch_times_take(LAUNCH_PATCHED, 1, CORRELATION_NOW, &time_ns));
	session_close(&s);
}

/* A measurement has no pass of an outer scope and one of a scope of that name within it. */
static void test_scopes_within_scopes_of_that_name(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin(&sink, &of_ranges);

	(void)state;
	scopes(1, 0);
	for (unsigned i = 0; i < 4; i++) {
		pitot_scope_begin("scope");
		scopes(1, 1);
		pitot_scope_end();
	}
	session_close(&s);
	assert_int_equal(sink.counting.rows[TABLE_range_value], 2 * METRICS);
	assert_int_equal(sink.inner, METRICS);
}

/* Levels from 31 on are unknown, as in table nvtx. */
static void test_levels(void **state)
{
	struct settings settings = of_ranges;
	struct sink_of_engine sink;
	struct session *s;

	(void)state;
	snprintf(settings.nvtx_include, sizeof(settings.nvtx_include), "scope");
	s = begin(&sink, &settings);
	for (unsigned level = 0; level < 32; level++) {
		if (level >= 30)
			scopes(1, 2);
		pitot_scope_begin("around");
	}
	session_close(&s);
	assert_int_equal(sink.counting.rows[TABLE_range_value], 2 * METRICS);
	assert_int_equal(sink.deep, METRICS);
}

static void push_and_pop(void)
{
	nvtx_push(0, nvtx_message_only(NVTX_MESSAGE_TEXT, "scope"));
	nvtx_pop(0);
}

static void *open_scope(void *unused)
{
	pitot_scope_begin("scope");
	pitot_scope_end();
	return unused;
}

/* Ranges at the level of the measured one, of another domain and of another thread. */
static void test_ranges_beside_a_measured_one(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin(&sink, &of_ranges);
	pthread_t thread;

	(void)state;
	scopes(1, 0);
	pitot_scope_begin("scope");
	push_and_pop();
	assert_int_equal(pthread_create(&thread, NULL, open_scope, NULL), 0);
	pthread_join(thread, NULL);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerPushRange), 1);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerPopRange), 0);
	pitot_scope_end();
	assert_int_equal(standin_calls(STANDIN_RangeProfilerPopRange), 1);
	session_close(&s);
}

/* The second pass is that range's, not one of a range of that name elsewhere. */
static void test_ranges_of_one_name(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin(&sink, &of_ranges);

	(void)state;
	scopes(1, 1);
	scopes(2, 1);
	scopes(1, 0);
	push_and_pop();
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStart), 1);
	scopes(1, 1);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStart), 2);
	session_close(&s);
	assert_int_equal(sink.counting.rows[TABLE_range_value], METRICS);
}

/* The second pass fails, and another range comes next, with passes of its own. */
static void test_a_measurement_that_is_given_up(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin(&sink, &of_ranges);

	(void)state;
	cuda_player_faults("call cuptiRangeProfilerStart#2 returns 1\n");
	scopes(1, 2);
	push_and_pop();
	push_and_pop();
	session_close(&s);
	assert_int_equal(sink.counting.rows[TABLE_range_value], METRICS);
	assert_int_equal(sink.passes, 2);
	assert_int_equal(sink.unmeasured, 2);
}

static void test_failures_of_two_sessions(void **state)
{
	(void)state;
	cuda_player_faults("call cuptiRangeProfilerStart#1 returns 1\n"
			   "call cuptiRangeProfilerStart#2 returns 1\n"
			   "call cuptiRangeProfilerStart#3 returns 1\n");
	assert_int_equal(measurements(2), 0);
	assert_int_equal(measurements(3), 1);
}

/* A pass that succeeds ends the failures before it. */
static void test_failures_between_passes(void **state)
{
	(void)state;
	cuda_player_faults("call cuptiRangeProfilerStart#1 returns 1\n"
			   "call cuptiRangeProfilerStart#2 returns 1\n"
			   "call cuptiRangeProfilerStart#4 returns 1\n");
	assert_int_equal(measurements(5), 1);
}

/* The first one is made again. */
static void test_a_second_pass_that_fails(void **state)
{
	(void)state;
	cuda_player_faults("call cuptiRangeProfilerPushRange#2 returns 1\n");
	assert_int_equal(measurements(4), 1);
}

/* Their addresses may be those of new contexts, in which the profiler must be enabled again. */
static void test_contexts_destroyed_while_a_range_is_open(void **state)
{
	struct settings settings = of_ranges;
	struct sink_of_engine sink;
	struct session *s;

	(void)state;
	snprintf(settings.metrics, sizeof(settings.metrics), "launch__correlation.sum");
	s = begin(&sink, &settings);
	for (uintptr_t context = 1; context <= 3; context++)
		scopes(context, 1);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerEnable), 3);
	scopes(1, 1);
	pitot_scope_begin("scope");
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStart), 4);
	destroy_on_another_thread(2);
	destroy_on_another_thread(3);
	pitot_scope_end();
	scopes(2, 2);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerEnable), 4);
	session_close(&s);
}

/* A measurement elsewhere took too long, and had stopped before the context was given up. */
static void test_a_context_destroyed_beside_a_claim(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin(&sink, &of_ranges);

	(void)state;
	scopes(1, 1);
	atomic_store(&launch_owner, 1); /* no thread of this process */
	destroy_on_another_thread(1);
	launch_owner_release();
	scopes(1, 1);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerEnable), 2);
	session_close(&s);
}

/* The range in it ends at once. */
static void test_a_context_destroyed_in_its_range(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin(&sink, &of_ranges);

	(void)state;
	scopes(1, 0);
	pitot_scope_begin("scope");
	destroy_on_another_thread(1);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerPopRange), 1);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerDisable), 1);
	assert_false(launch_owner_exists());
	pitot_scope_end();
	session_close(&s);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStop), 1);
	assert_int_equal(sink.unmeasured, 1);
}

/* A launch was measured for longer than its session waited, perhaps by the other engine. */
static void test_a_measurement_after_its_session(void **state)
{
	struct settings of_instructions = of_ranges;
	struct sink_of_engine sink;
	struct session *s;

	(void)state;
	of_instructions.engine = SETTING_ENGINE_SASS_METRICS;
	s = begin(&sink, &of_instructions);
	session_close(&s);
	launch_engine_push(calloc(1, 4096), 4096);
	assert_int_equal(measurements(2), 1);
}

/* A launch of an earlier session is measured for long: the next one's are measured after it. */
static void test_a_session_that_chooses_later(void **state)
{
	struct sink_of_engine sink;
	struct session *s;

	(void)state;
	assert_int_equal(measurements(2), 1);
	atomic_store(&launch_owner, 1); /* no thread of this process */
	s = begin(&sink, &of_ranges);
	scopes(1, 4);
	assert_false(launch_engine_is_active());
	launch_owner_release();
	while (!launch_engine_is_active())
		sched_yield();
	scopes(1, 2);
	session_close(&s);
	assert_int_equal(sink.counting.rows[TABLE_range_value], METRICS);
	assert_int_equal(sink.degraded, 1);
}

/* It ends before that; the next one is not the one that waited. */
static void test_a_session_that_never_chooses(void **state)
{
	struct settings other = of_ranges;
	struct sink_of_engine sink;
	struct session *s;

	(void)state;
	assert_int_equal(measurements(2), 1);
	atomic_store(&launch_owner, 1);
	snprintf(other.metrics, sizeof(other.metrics), "launch__correlation.sum");
	s = begin(&sink, &other);
	session_close(&s);
	launch_owner_release();
	assert_int_equal(measurements(2), 1);
}

static void *cancel(void *unused)
{
	marked_ranges_cancel();
	return unused;
}

/* The owner is the thread that ends a range, so that the range's own keeps away. */
static void test_a_range_that_another_thread_ends(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin(&sink, &of_ranges);
	pthread_t thread;

	(void)state;
	cuda_player_faults("delay cuptiRangeProfilerPopRange 50ms\n");
	scopes(1, 0);
	pitot_scope_begin("scope");
	assert_true(launch_owner_is_me());
	assert_int_equal(pthread_create(&thread, NULL, cancel, NULL), 0);
	while (!standin_calls(STANDIN_RangeProfilerPopRange))
		usleep(100);
	assert_false(launch_owner_is_me());
	pthread_join(thread, NULL);
	pitot_scope_end();
	assert_int_equal(standin_calls(STANDIN_RangeProfilerPopRange), 1);
	session_close(&s);
	assert_int_equal(sink.unmeasured, 1);
	assert_true(sink.replay_ns >= 50 * NS_PER_MS);
}

/* Ranges that were not measured are no reason to stay subscribed, either. */
static void test_after_the_last_context(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin(&sink, &of_ranges);

	(void)state;
	scopes(1, 0);
	pitot_scope_begin("scope");
	scopes(1, 1);
	pitot_scope_end();
	destroy((void *)1);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerDisable), 1);
	session_close(&s);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), 1);
}

/* A capture that begins ends the range around it, and other ranges are not measured meanwhile. */
static void test_a_capture_within_a_range(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin(&sink, &of_ranges);

	(void)state;
	scopes(1, 0);
	pitot_scope_begin("scope");
	call_stream("cuStreamBeginCapture_v2", 7, 1, ENTERS);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStop), 1);
	assert_false(launch_owner_exists());
	call_stream("cuStreamBeginCapture_v2", 7, 1, SUCCEEDS);
	scopes(1, 3);
	assert_true(call("cuStreamEndCapture", 8, SUCCEEDS));
	pitot_scope_end();
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStart), 1);
	assert_false(call("cuStreamEndCapture", 7, SUCCEEDS));
	scopes(1, 2);
	session_close(&s);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStart), 3);
	assert_int_equal(sink.counting.rows[TABLE_range_value], METRICS);
	assert_int_equal(sink.unmeasured, 1);
}

/* Its end comes when no session is there to see it. */
static void test_a_capture_without_an_end(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin(&sink, &of_ranges);

	(void)state;
	call("cuStreamBeginCapture_v2", 7, SUCCEEDS);
	session_close(&s);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), 1);
	assert_int_equal(measurements(2), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_passes_of_two_sessions),
		cmocka_unit_test(test_marks_outlive_the_next_choice),
		cmocka_unit_test(test_scopes_within_scopes_of_that_name),
		cmocka_unit_test(test_levels),
		cmocka_unit_test(test_failures_between_passes),
		cmocka_unit_test(test_a_second_pass_that_fails),
		cmocka_unit_test(test_ranges_beside_a_measured_one),
		cmocka_unit_test(test_ranges_of_one_name),
		cmocka_unit_test(test_a_measurement_that_is_given_up),
		cmocka_unit_test(test_failures_of_two_sessions),
		cmocka_unit_test(test_contexts_destroyed_while_a_range_is_open),
		cmocka_unit_test(test_a_context_destroyed_beside_a_claim),
		cmocka_unit_test(test_a_context_destroyed_in_its_range),
		cmocka_unit_test(test_a_measurement_after_its_session),
		cmocka_unit_test(test_a_session_that_chooses_later),
		cmocka_unit_test(test_a_session_that_never_chooses),
		cmocka_unit_test(test_a_range_that_another_thread_ends),
		cmocka_unit_test(test_after_the_last_context),
		cmocka_unit_test(test_a_capture_without_an_end),
		cmocka_unit_test(test_a_capture_within_a_range),
	};

	return run_each_alone(tests, ARRAY_SIZE(tests));
}
