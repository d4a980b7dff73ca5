/*
 * Two sessions at once with CUDA, on a tape: the second one wants more and lasts shorter. Both
 * sinks have the rows of their time, and what only the second one wanted ends with it. Runs under
 * TSan, too.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "capture/core/collector.h"
#include "capture/core/vendor_thread.h"
#include "pitot/pitot.h"
#include "unit/capture/cuda_player.h"
#include "unit/capture/cuda_sink.h"

static void assert_more(const struct cuda_sink *s, unsigned rounds)
{
	assert_int_equal(s->counting.rows[TABLE_synchronization],
			 rounds * cuda_player_records(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION));
	assert_int_equal(s->counting.rows[TABLE_cuda_event],
			 rounds * cuda_player_records(CUPTI_ACTIVITY_KIND_CUDA_EVENT));
	assert_int_equal(s->counting.rows[TABLE_allocation],
			 rounds * cuda_player_records(CUPTI_ACTIVITY_KIND_MEMORY2));
	assert_int_equal(s->counting.rows[TABLE_memory_pool],
			 rounds * cuda_player_records(CUPTI_ACTIVITY_KIND_MEMORY_POOL));
}

/* Those that only --memory or --api all records. */
static uint64_t other_calls(const struct cuda_sink *s)
{
	static const enum api_kind kinds[] = { api_kind_allocate, api_kind_release,
					       api_kind_other };
	uint64_t calls = s->calls[API_RUNTIME][api_kind_event];

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++)
		calls += s->calls[API_DRIVER][kinds[i]] + s->calls[API_RUNTIME][kinds[i]];
	return calls;
}

/* Calls about events have none. */
static uint64_t calls_with_stacks(const struct cuda_sink *s)
{
	return s->counting.rows[TABLE_api_call] - s->calls[API_DRIVER][api_kind_event] -
	       s->calls[API_RUNTIME][api_kind_event];
}

static const struct settings more = { .engine = SETTING_ENGINE_TRACE,
				      .graphs = SETTING_GRAPHS_NODE,
				      .cuda = true,
				      .sync = true,
				      .memory = true,
				      .api = SETTING_API_ALL,
				      .stacks = SETTING_STACKS_NATIVE };

/*
 * Until the open sessions have the rows of all that has been: one that ends beside them waits for
 * that.
 */
static void settle(void)
{
	struct cuda_sink *brief = cuda_sink_new();
	struct session *s = cuda_sink_session(brief, &cuda_sink_plain, SESSION_BY_nvidia);

	session_close(&s);
	cuda_sink_assert_work(brief, 0);
	cuda_sink_free(brief);
}

static void test_a_second_session_that_wants_more(void **state)
{
	struct cuda_sink *first = cuda_sink_new(), *second = cuda_sink_new();
	struct session *a = cuda_sink_session(first, &cuda_sink_plain, SESSION_BY_nvidia), *b;
	uint64_t launches, graph_launches, calls, calls_of_both;

	(void)state;
	cuda_player_play(0);
	settle();
	cuda_sink_assert_work(first, 1);
	launches = cuda_sink_driver_calls(first, api_kind_launch);
	graph_launches = cuda_sink_driver_calls(first, api_kind_graph_launch);
	calls = first->counting.rows[TABLE_api_call];
	assert_true(launches > 0 && calls > launches);
	assert_int_equal(other_calls(first), 0);
	assert_more(first, 0);

	b = cuda_sink_session(second, &more, SESSION_BY_nvidia);
	cuda_player_play(0);
	session_close(&b);
	calls_of_both = first->counting.rows[TABLE_api_call] - calls;
	assert_true(second->counting.closed && !first->counting.closed && collector_running());
	cuda_player_play(0);
	session_close(&a);
	assert_true(first->counting.closed && !collector_running());
	assert_int_equal(standin_calls(TAPE_cuptiSubscribe_v2), 1);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), 1);
	/* Two at the start, and one that leaves CUPTI as others expect it. */
	assert_int_equal(standin_calls(TAPE_cuptiActivitySetAttribute), 3);

	cuda_sink_assert_work(first, 3);
	cuda_sink_assert_work(second, 1);
	assert_more(first, 1);
	assert_more(second, 1);
	assert_int_equal(cuda_sink_driver_calls(first, api_kind_launch), 3 * launches);
	assert_int_equal(cuda_sink_driver_calls(second, api_kind_launch), launches);
	assert_int_equal(cuda_sink_driver_calls(first, api_kind_graph_launch), 3 * graph_launches);
	assert_int_equal(cuda_sink_driver_calls(second, api_kind_graph_launch), graph_launches);
	/*
	 * All of the calls while the second one was there, in both; neither before nor after that.
	 */
	assert_true(calls_of_both > calls && other_calls(second) > 0);
	assert_int_equal(second->counting.rows[TABLE_api_call], calls_of_both);
	assert_int_equal(other_calls(first), other_calls(second));
	assert_int_equal(first->counting.rows[TABLE_api_call], 2 * calls + calls_of_both);
	assert_true(second->stacks > 0);
	assert_int_equal(second->stacks, calls_with_stacks(second));
	assert_int_equal(first->stacks, second->stacks);
	assert_int_equal(first->undefined + second->undefined, 0);
	assert_int_equal(first->lost + second->lost, 0);
	/* What is known since before the second one. */
	assert_true(second->counting.rows[TABLE_context] >= 1 &&
		    second->counting.rows[TABLE_stream] >= 1 &&
		    second->counting.rows[TABLE_device] >= 1);
	cuda_sink_free(first);
	cuda_sink_free(second);
}

/* The program's own for its calls: of one kind 42 and within it 43, of another 7. */
static void push_ids(void)
{
	uint64_t id;

	assert_int_equal(pitot_external_push(8, 41), 0);
	assert_int_equal(pitot_external_pop(3, &id), 0);
	assert_int_equal(pitot_external_push(3, 42), 1);
	assert_int_equal(pitot_external_push(5, 7), 1);
	assert_int_equal(pitot_external_push(3, 43), 1);
	for (uint64_t i = 50; i < 55; i++)
		assert_int_equal(pitot_external_push(0, i), 1);
	assert_int_equal(pitot_external_push(0, 55), 0);
	assert_int_equal(pitot_external_pop(0, &id), 1);
	assert_int_equal(id, 54);
}

/*
 * What was known in the first recording, and what CUDA has made since then, is told again in the
 * second one.
 */
static void test_one_session_after_the_other(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct cuda_sink *sink = cuda_sink_new();
		struct session *s;
		uint64_t calls;

		assert_int_equal(pitot_external_push(3, 41), 0); /* nothing is recorded */
		s = cuda_sink_session(sink, &more, SESSION_BY_nvidia);
		if (i == 0)
			push_ids();
		cuda_player_play(0);
		session_close(&s);
		assert_false(collector_running());
		cuda_sink_assert_work(sink, 1);
		assert_more(sink, 1);
		/* What is still open is of another recording. */
		calls = i == 0 ? sink->counting.rows[TABLE_api_call] : 0;
		assert_int_equal(sink->externals[43], calls);
		assert_int_equal(sink->externals[7], calls);
		assert_int_equal(sink->externals[53], calls);
		assert_int_equal(sink->counting.rows[TABLE_external_correlation], 3 * calls);
		assert_true(sink->stacks > 0);
		assert_int_equal(sink->stacks, calls_with_stacks(sink));
		assert_int_equal(sink->undefined + sink->lost, 0);
		assert_int_equal(sink->counting.rows[TABLE_context],
				 cuda_player_records(CUPTI_ACTIVITY_KIND_CONTEXT));
		assert_int_equal(sink->counting.rows[TABLE_stream],
				 cuda_player_records(CUPTI_ACTIVITY_KIND_STREAM) +
					 cuda_player_records(CUPTI_ACTIVITY_KIND_CONTEXT));
		assert_true(sink->counting.rows[TABLE_device] >= 1);
		cuda_sink_free(sink);
	}
}

/* The first session began before CUDA was there, and has its work all the same. */
static void test_cuda_comes_with_the_second_session(void **state)
{
	struct cuda_sink *first = cuda_sink_new(), *second = cuda_sink_new();
	struct session *a = cuda_sink_session(first, &cuda_sink_plain, SESSION_BY_NVTX), *b;

	(void)state;
	assert_int_equal(first->counting.rows[TABLE_device], 0);
	b = cuda_sink_session(second, &more, SESSION_BY_nvidia);
	cuda_player_play(0);
	session_close(&a);
	assert_true(first->counting.closed && collector_running());
	session_close(&b);
	cuda_sink_assert_work(first, 1);
	cuda_sink_assert_work(second, 1);
	assert_more(second, 1);
	assert_int_equal(first->undefined + second->undefined + first->lost + second->lost, 0);
	cuda_sink_free(first);
	cuda_sink_free(second);
}

static atomic_bool requesting;

/* Rounds of the vendor thread as if it had waited long enough, in no order with other threads. */
static void *request_idle_rounds(void *unused)
{
	while (atomic_load_explicit(&requesting, memory_order_relaxed)) {
		unsigned round = vendor_thread_request(0);

		while (!vendor_thread_done(round))
			usleep(10);
	}
	return unused;
}

/*
 * CUPTI is there while a session wants it, and leaves with that one; a flush brings what it has.
 * The vendor thread has rounds meanwhile.
 */
static void test_a_monitor_has_no_cupti(void **state)
{
	static const struct settings monitor = { .engine = SETTING_ENGINE_MONITOR, .cuda = true };
	struct cuda_sink *first = cuda_sink_new(), *second = cuda_sink_new();
	struct session *a = cuda_sink_session(first, &monitor, SESSION_BY_nvidia), *b;
	unsigned subscribed = standin_calls(TAPE_cuptiSubscribe_v2),
		 unsubscribed = standin_calls(TAPE_cuptiUnsubscribe);
	pthread_t thread;

	(void)state;
	cuda_player_play(0);
	assert_int_equal(standin_calls(TAPE_cuptiSubscribe_v2), subscribed);
	atomic_store(&requesting, true);
	assert_int_equal(pthread_create(&thread, NULL, request_idle_rounds, NULL), 0);
	b = cuda_sink_session(second, &cuda_sink_plain, SESSION_BY_nvidia);
	atomic_store_explicit(&requesting, false, memory_order_relaxed);
	pthread_join(thread, NULL);
	assert_int_equal(standin_calls(TAPE_cuptiSubscribe_v2), subscribed + 1);
	cuda_player_play(0);
	assert_int_equal(collector_flush(10 * NS_PER_S), 0);
	cuda_sink_assert_work(second, 1);
	session_close(&b);
	cuda_sink_assert_work(second, 1);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), unsubscribed + 1);
	cuda_player_play(0);
	session_close(&a);
	assert_int_equal(standin_calls(TAPE_cuptiSubscribe_v2), subscribed + 1);
	cuda_sink_assert_work(first, 1); /* what the other one wanted */
	cuda_sink_free(first);
	cuda_sink_free(second);
}

/*
 * The tape's graph and its executable are made once more: how many nodes got the stack that made
 * them.
 */
static uint64_t make_nodes(const struct cuda_sink *sink)
{
	uint64_t before = sink->nodes_with_stack;

	cuda_player_resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, 0);
	cuda_player_resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, 0);
	assert_int_equal(collector_flush(10 * NS_PER_S), 0);
	return sink->nodes_with_stack - before;
}

/*
 * CUPTI tells of a node of an executable graph twice, made and cloned; an instantiation that fails
 * never ends.
 */
static void test_an_instantiation_that_fails(void **state)
{
	struct cuda_sink *sink = cuda_sink_new();
	struct session *s = cuda_sink_session(sink, &more, SESSION_BY_nvidia);
	uint64_t all = make_nodes(sink), clones = sink->clones, made;

	(void)state;
	cuda_player_resource(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATE_STARTING, 0);
	made = make_nodes(sink);
	assert_true(clones == 0 ||
		    (made > 0 && made + clones <= all)); /* else the tape has no graph */
	cuda_player_resource(CUPTI_CBID_RESOURCE_GRAPHEXEC_CREATED, 0);
	assert_int_equal(make_nodes(sink), all);
	session_close(&s);
	cuda_sink_free(sink);
}

/* What a session wants is on when it has been opened, however slow CUPTI is. */
static void test_a_slow_cupti(void **state)
{
	struct cuda_sink *first = cuda_sink_new(), *second = cuda_sink_new();
	struct session *a = cuda_sink_session(first, &cuda_sink_plain, SESSION_BY_nvidia), *b;

	(void)state;
	cuda_player_faults("delay cuptiActivityEnable 20ms\n");
	b = cuda_sink_session(second, &more, SESSION_BY_nvidia);
	cuda_player_play(0);
	session_close(&b);
	session_close(&a);
	cuda_sink_assert_work(second, 1);
	assert_more(second, 1);
	cuda_sink_free(first);
	cuda_sink_free(second);
}

#define WINDOW_NS (PITOT_SLOWNESS * 500 * NS_PER_MS)

/*
 * When its window closes, work that was launched in it is still under way: it is waited for, and
 * nothing of ours is left then.
 */
static void test_a_window_that_closes(void **state)
{
	struct settings brief = cuda_sink_plain;
	struct cuda_sink *sink = cuda_sink_new();
	unsigned unsubscribed = standin_calls(TAPE_cuptiUnsubscribe);
	struct session *s;
	uint64_t callbacks, begun = clock_monotonic_ns(), played;

	(void)state;
	brief.duration_ns = WINDOW_NS;
	s = cuda_sink_session(sink, &brief, SESSION_BY_nvidia);
	cuda_player_play(0);
	played = clock_monotonic_ns() - begun;
	if (played >= WINDOW_NS)
		skip(); /* a starved machine */
	cuda_player_play(WINDOW_NS - played); /* the work runs while the window closes */
	while (standin_calls(TAPE_cuptiUnsubscribe) == unsubscribed)
		usleep(1000);
	callbacks = cuda_player_callbacks();
	cuda_player_play(0);
	assert_int_equal(cuda_player_callbacks(), callbacks);
	assert_true(collector_running());
	session_close(&s);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), unsubscribed + 1);
	cuda_sink_assert_work(sink, 2);
	cuda_sink_free(sink);
}

static atomic_bool launching;

static void *launch_all_the_time(void *unused)
{
	while (atomic_load(&launching))
		cuda_player_play(0);
	return unused;
}

/*
 * Beside each other and alone, in the middle of whatever the thread is calling: what a sink has is
 * complete in itself.
 */
static void test_sessions_while_a_thread_launches(void **state)
{
	pthread_t thread;

	(void)state;
	atomic_store(&launching, true);
	assert_int_equal(pthread_create(&thread, NULL, launch_all_the_time, NULL), 0);
	for (unsigned i = 0; i < 6; i++) {
		struct cuda_sink *first = cuda_sink_new(), *second = cuda_sink_new();
		struct session *a = cuda_sink_session(first, i % 2 ? &more : &cuda_sink_plain,
						      SESSION_BY_nvidia);
		struct session *b =
			i % 3 ? cuda_sink_session(second, &more, SESSION_BY_nvidia) : NULL;

		while (first->counting.rows[TABLE_api_call] < 40 * i + 1)
			usleep(1000);
		session_close(&a);
		session_close(&b);
		assert_true(first->counting.closed && !collector_running());
		assert_int_equal(first->undefined + second->undefined, 0);
		assert_int_equal(first->lost + second->lost, 0);
		cuda_sink_free(first);
		cuda_sink_free(second);
	}
	atomic_store(&launching, false);
	pthread_join(thread, NULL);
}

static int play(const void *tape)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_second_session_that_wants_more),
		cmocka_unit_test(test_cuda_comes_with_the_second_session),
		cmocka_unit_test(test_one_session_after_the_other),
		cmocka_unit_test(test_a_monitor_has_no_cupti),
		cmocka_unit_test(test_an_instantiation_that_fails),
		cmocka_unit_test(test_a_window_that_closes),
		cmocka_unit_test(test_sessions_while_a_thread_launches),
		cmocka_unit_test(test_a_slow_cupti),
	};

	cuda_player_open(tape);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A process has one tape. */
int main(void)
{
	static const char *const tapes[] = { TAPES "/kinds.tape", TAPES "/sync.tape" };
	int failed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(tapes); i++)
		failed += cuda_player_in_child(play, tapes[i]);
	return failed;
}
