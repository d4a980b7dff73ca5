/*
 * test_launch_engine.c: launches that are measured (launch_calls.h), and what is not measured at
 * the same time.
 */
#include "unit/capture/launch_fixture.h"

#include <sched.h>
#include <unistd.h>

#include "capture/engines/launch_owner.h"
#include "capture/engines/launch_engine.h"
#include "capture/engines/launch_barrier.h"
#include "capture/engines/marked_ranges.h"
#include "unit/capture/stream_calls.h"

/* Nothing of CUPTI's stays in use, so that others can have it. */
static void test_after_the_last_launch(void **state)
{
	struct settings of_kernels = of_ranges;
	struct sink_of_engine sink;
	struct session *s;

	(void)state;
	of_kernels.measure = SETTING_MEASURE_KERNEL;
	of_kernels.kernel_count = 2;
	s = begin(&sink, &of_kernels);
	cuda_player_play(0);
	assert_false(launch_engine_is_active());
	assert_false(launch_owner_exists());
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStart), 2);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerDisable), 1);
	session_close(&s);
	assert_int_equal(sink.counting.rows[TABLE_metric_value], 2 * METRICS);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), 1);
}

static bool windows_change; /* when a launch has its turn, and when it owns the engine */
static unsigned window_changes;

/* A session without the engine comes and goes, and so the collector passes the windows on. */
static void change_windows(void)
{
	const struct settings plain = SETTINGS_INIT;
	struct sink_of_engine sink;
	struct session *s = begin(&sink, &plain);

	session_close(&s);
	window_changes++;
}

bool __real_kernel_choice_is_turn(void);
bool __wrap_kernel_choice_is_turn(void);
bool __real_launch_barrier_close(void);
bool __wrap_launch_barrier_close(void);

bool __wrap_kernel_choice_is_turn(void)
{
	bool is_turn = __real_kernel_choice_is_turn();

	if (windows_change)
		change_windows();
	return is_turn;
}

bool __wrap_launch_barrier_close(void)
{
	if (windows_change)
		change_windows();
	return __real_launch_barrier_close();
}

/* The last launch of a selection is measured all the same. */
static void test_windows_that_change_beside_launches(void **state)
{
	struct settings of_kernels = of_ranges;
	struct sink_of_engine sink;
	struct session *s;

	(void)state;
	of_kernels.measure = SETTING_MEASURE_KERNEL;
	of_kernels.kernel_count = 2;
	s = begin(&sink, &of_kernels);
	windows_change = true;
	cuda_player_play(0);
	assert_int_equal(window_changes, 2 * 2);
	change_windows();
	assert_false(launch_engine_is_active());
	session_close(&s);
	assert_int_equal(sink.counting.rows[TABLE_metric_value], 2 * METRICS);
	assert_int_equal(sink.unmeasured, 0);
}

#define FAILS 10 /* the correlation id of a launch that does */

/* A launch of a graph begins or ends. */
static void launch(bool begins, uintptr_t context, uint32_t correlation)
{
	CUresult result = correlation == FAILS ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
	cuGraphLaunch_params parameters = { 0 };
	CUpti_CallbackData data = { .context = (CUcontext)context,
				    .functionParams = &parameters,
				    .functionReturnValue = &result,
				    .correlationId = correlation };

	if (begins)
		launch_calls_enter(&data, "cuGraphLaunch", true);
	else
		launch_calls_exit(&data);
}

static struct session *begin_graphs(struct sink_of_engine *sink)
{
	struct settings of_graphs = of_ranges;

	of_graphs.measure = SETTING_MEASURE_GRAPH;
	return begin(sink, &of_graphs);
}

/* A pass whose end was never seen is left out; the next launch on the thread is measured. */
static void test_a_launch_without_an_end(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin_graphs(&sink);

	(void)state;
	launch(true, 1, 11);
	launch(true, 1, 12);
	launch(false, 1, 11);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerPopRange), 1);
	launch(false, 1, 12);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerPopRange), 2);
	launch(true, 1, 13);
	launch(false, 1, 13);
	session_close(&s);
	assert_int_equal(sink.counting.rows[TABLE_range_value], METRICS);
	assert_int_equal(sink.unmeasured, 1);
}

static void *launch_without_an_end(void *unused)
{
	launch(true, 1, 11);
	return launch_owner_is_me() ? NULL : unused;
}

/* Neither will be seen from its thread, which has ended: others are measured. */
static void test_a_thread_ends_in_its_launch(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin_graphs(&sink);
	pthread_t thread;
	void *failed;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, launch_without_an_end, &sink), 0);
	pthread_join(thread, &failed);
	assert_null(failed);
	assert_false(launch_owner_exists());
	for (uint32_t pass = 0; pass < 2; pass++) {
		launch(true, 1, 12 + pass);
		launch(false, 1, 12 + pass);
	}
	session_close(&s);
	assert_int_equal(sink.counting.rows[TABLE_range_value], METRICS);
	assert_int_equal(sink.unmeasured, 1);
}

/* Returns a session with a range that its thread has begun, after a launch of an earlier one. */
static void *begin_a_range(void *sink)
{
	struct session *s = begin_graphs(sink);

	launch(true, 1, 11);
	launch(false, 1, 11);
	session_close(&s);
	s = begin(sink, &of_ranges);
	scopes(1, 0);
	pitot_scope_begin("scope");
	return s;
}

/* A range does not end with its thread: another one may end it. */
static void test_a_thread_ends_in_its_range(void **state)
{
	struct sink_of_engine sink;
	struct session *s;
	pthread_t thread;
	void *session;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, begin_a_range, &sink), 0);
	pthread_join(thread, &session);
	assert_true(launch_owner_exists());
	marked_ranges_cancel();
	assert_false(launch_owner_exists());
	s = session;
	session_close(&s);
}

/* Each session says once that it does not measure them. */
static void test_graphs_among_kernels(void **state)
{
	struct settings of_kernels = of_ranges;
	struct sink_of_engine sink;
	struct session *s;

	(void)state;
	of_kernels.measure = SETTING_MEASURE_KERNEL;
	for (uint32_t i = 0; i < 2; i++) {
		s = begin(&sink, &of_kernels);
		launch(true, 1, 11);
		launch(true, 1, 12);
		session_close(&s);
		assert_int_equal(sink.graphs, 1);
	}
}

/* It is no pass, and the next graph has its turn. */
static void test_a_launch_that_fails(void **state)
{
	static const uintptr_t contexts[] = { 1, 2, 1, 2, 1 };
	struct sink_of_engine sink;
	struct session *s = begin_graphs(&sink);

	(void)state;
	for (uint32_t i = 0; i < ARRAY_SIZE(contexts); i++) {
		launch(true, contexts[i], FAILS + i);
		launch(false, contexts[i], FAILS + i);
	}
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStart), 4);
	session_close(&s);
	assert_int_equal(sink.counting.rows[TABLE_range_value], METRICS);
	assert_int_equal(sink.unmeasured, 1);
}

/* Its call may not be recorded any more. */
static void test_a_launch_that_outlives_the_window(void **state)
{
	struct settings settings = of_ranges;
	struct sink_of_engine sink;
	struct session *s;

	(void)state;
	settings.measure = SETTING_MEASURE_GRAPH;
	snprintf(settings.metrics, sizeof(settings.metrics), "launch__correlation.sum");
	settings.start_ns = clock_monotonic_ns();
	settings.duration_ns = PITOT_SLOWNESS * 100 * NS_PER_MS;
	s = begin(&sink, &settings);
	while (!launch_engine_is_active()) {
		/* on a machine that is too busy it may be over unseen */
		assert_true(clock_monotonic_ns() < settings.start_ns + settings.duration_ns);
		usleep(1000);
	}
	launch(true, 1, 11);
	launch(false, 1, 11);
	launch(true, 1, 12);
	while (launch_engine_is_active())
		usleep(1000);
	launch(false, 1, 12);
	session_close(&s);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStop), 2);
	assert_int_equal(sink.counting.rows[TABLE_range_value], 2); /* and the duration */
	assert_int_equal(sink.unmeasured, 1);
}

/* Another thread destroys its context. Nothing is called for that any more, and it is counted. */
static void test_a_context_destroyed_beside_its_launch(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin_graphs(&sink);

	(void)state;
	launch(true, 1, 11);
	destroy_on_another_thread(1);
	launch(false, 1, 11);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStart), 1);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStop), 0);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerDisable), 0);
	launch(true, 1, 12);
	launch(false, 1, 12);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerEnable), 2);
	session_close(&s);
	assert_int_equal(sink.unmeasured, 1);
}

/* The second pass of a graph is in the context of the first one. */
static void test_a_graph_in_two_contexts(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin_graphs(&sink);

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		launch(true, 1 + i % 2, 11 + i);
		launch(false, 1 + i % 2, 11 + i);
	}
	session_close(&s);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStart), 2);
	assert_int_equal(sink.counting.rows[TABLE_range_value], METRICS);
}

static struct {
	atomic_bool begun, ends;
} elsewhere;

static void *launch_elsewhere(void *unused)
{
	launch_barrier_enter(7);
	elsewhere.begun = true;
	while (!elsewhere.ends)
		sched_yield();
	launch_barrier_leave(7);
	return unused;
}

/* A launch is not measured beside one that another thread is long busy with. */
static void test_a_launch_beside_another(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin_graphs(&sink);
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, launch_elsewhere, NULL), 0);
	while (!elsewhere.begun)
		sched_yield();
	for (uint32_t i = 0; i < 2; i++) {
		launch(true, 1, 11 + i);
		launch(false, 1, 11 + i);
		assert_int_equal(standin_calls(STANDIN_RangeProfilerStart), i);
		elsewhere.ends = true;
		if (i == 0)
			pthread_join(thread, NULL);
	}
	session_close(&s);
	assert_int_equal(sink.unmeasured, 1);
}

static void *begin_capture(void *began)
{
	call_stream("cuStreamBeginCapture_v2", 7, 1, ENTERS);
	atomic_store((atomic_bool *)began, true);
	return NULL;
}

/* A capture begins when the launch that another thread measures is over. */
static void test_a_capture_beside_a_launch(void **state)
{
	struct sink_of_engine sink;
	struct session *s = begin_graphs(&sink);
	atomic_bool began = false;
	pthread_t thread;

	(void)state;
	launch(true, 1, 11);
	assert_int_equal(pthread_create(&thread, NULL, begin_capture, &began), 0);
	while (!stream_captures_any())
		sched_yield();
	assert_false(began);
	launch(false, 1, 11);
	pthread_join(thread, NULL);
	assert_false(launch_owner_exists());
	launch(true, 1, 12);
	launch(false, 1, 12);
	session_close(&s);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStart), 1);
	assert_int_equal(sink.unmeasured, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_after_the_last_launch),
		cmocka_unit_test(test_windows_that_change_beside_launches),
		cmocka_unit_test(test_a_launch_without_an_end),
		cmocka_unit_test(test_a_thread_ends_in_its_launch),
		cmocka_unit_test(test_a_thread_ends_in_its_range),
		cmocka_unit_test(test_graphs_among_kernels),
		cmocka_unit_test(test_a_launch_that_fails),
		cmocka_unit_test(test_a_launch_that_outlives_the_window),
		cmocka_unit_test(test_a_context_destroyed_beside_its_launch),
		cmocka_unit_test(test_a_graph_in_two_contexts),
		cmocka_unit_test(test_a_launch_beside_another),
		cmocka_unit_test(test_a_capture_beside_a_launch),
	};

	return run_each_alone(tests, ARRAY_SIZE(tests));
}
