/*
 * Sessions of other engines than the trace, on a tape: one after the other, and beside one without.
 * Runs under TSan, too.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "pitot/pitot.h"
#include "unit/capture/cuda_player.h"
#include "unit/capture/cuda_sink.h"

/* --- with --engine pc-sampling --- */

#define STEPS "24"
#define LAUNCHES (24 * 12) /* that are sampled, in a round */
#define SAMPLES 45 /* of a launch, with a place */

static const struct settings sampling = { .engine = SETTING_ENGINE_PC_SAMPLING,
					  .graphs = SETTING_GRAPHS_NODE,
					  .cuda = true };

/* A round in a session of its own, which has everything of it and of nothing else. */
static void play_in_session(const struct settings *settings, enum session_trigger trigger,
			    unsigned sampled)
{
	struct cuda_sink *sink = cuda_sink_new();
	struct session *s = cuda_sink_session(sink, settings, trigger);

	cuda_player_play(0);
	session_close(&s);
	cuda_sink_assert_work(sink, 1);
	assert_true(cuda_sink_driver_calls(sink, api_kind_launch) >= LAUNCHES);
	assert_int_equal(sink->samples, sampled * SAMPLES * LAUNCHES);
	assert_int_equal(sink->counting.rows[TABLE_pc_reading] > 0, sampled > 0);
	assert_int_equal(sink->contexts_sampled, sampled);
	assert_int_equal(sink->contexts_older,
			 !sampled && settings->engine == SETTING_ENGINE_PC_SAMPLING);
	assert_int_equal(sink->lost, trigger == SESSION_BY_PROGRAM); /* it says that it is late */
	cuda_sink_free(sink);
}

static void assert_calls(unsigned enabled, unsigned disabled, unsigned subscribed,
			 unsigned unsubscribed)
{
	assert_int_equal(standin_calls(STANDIN_PCSamplingEnable), enabled);
	assert_int_equal(standin_calls(STANDIN_PCSamplingDisable), disabled);
	assert_int_equal(standin_calls(TAPE_cuptiSubscribe_v2), subscribed);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), unsubscribed);
}

/*
 * A context is sampled from its creation to its destruction, through sessions with and without the
 * engine, and without any.
 */
static void test_sampled_sessions_one_after_the_other(void **state)
{
	uint64_t callbacks;

	(void)state;
	play_in_session(&sampling, SESSION_BY_nvidia, 1);
	assert_calls(1, 0, 1, 0);
	callbacks = cuda_player_callbacks();
	cuda_player_play(0);
	cuda_player_resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED, 0);
	cuda_player_resource(CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED, 0);
	assert_int_equal(cuda_player_callbacks(), callbacks);
	play_in_session(&sampling, SESSION_BY_nvidia, 1);
	play_in_session(&cuda_sink_plain, SESSION_BY_nvidia, 0);
	callbacks = cuda_player_callbacks();
	cuda_player_play(0);
	assert_int_equal(cuda_player_callbacks(), callbacks);
	play_in_session(&sampling, SESSION_BY_nvidia, 1);
	assert_calls(1, 0, 1, 0);
	cuda_player_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, 0);
	assert_calls(1, 1, 1, 0);
	play_in_session(&cuda_sink_plain, SESSION_BY_nvidia, 0);
	assert_calls(1, 1, 1, 1);
	play_in_session(&cuda_sink_plain, SESSION_BY_nvidia, 0);
	assert_calls(1, 1, 2, 2);
}

/* Its context is sampled all the same, for the session that comes. */
static void test_a_window_that_does_not_open(void **state)
{
	struct settings later = sampling;
	struct cuda_sink *sink = cuda_sink_new();
	struct session *s;

	(void)state;
	later.delay_ns = 3600 * NS_PER_S;
	s = cuda_sink_session(sink, &later, SESSION_BY_nvidia);
	cuda_player_play(0);
	session_close(&s);
	assert_int_equal(sink->counting.rows[TABLE_pc_reading], 0);
	assert_int_equal(sink->contexts_sampled, 1);
	cuda_sink_free(sink);
	assert_calls(1, 0, 1, 0);
	play_in_session(&sampling, SESSION_BY_nvidia, 1);
	assert_calls(1, 0, 1, 0);
}

/* Contexts of before are never set up, and every session says so. */
static void test_a_context_that_existed_before(void **state)
{
	(void)state;
	cuda_player_play(0);
	play_in_session(&sampling, SESSION_BY_PROGRAM, 0);
	play_in_session(&sampling, SESSION_BY_PROGRAM, 0);
	assert_calls(0, 0, 2, 2);
}

/*
 * One of between two sessions is not sampled, and the second one says so; those of before and after
 * that are.
 */
static void test_contexts_between_sessions(void **state)
{
	struct cuda_sink *sink = cuda_sink_new();
	struct session *s;

	(void)state;
	play_in_session(&sampling, SESSION_BY_nvidia, 1);
	cuda_player_resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, 1);
	assert_calls(1, 0, 1, 0);
	s = cuda_sink_session(sink, &sampling, SESSION_BY_nvidia);
	cuda_player_resource(CUPTI_CBID_RESOURCE_CONTEXT_CREATED, 2);
	assert_calls(2, 0, 1, 0);
	cuda_player_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, 1);
	cuda_player_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, 0);
	assert_calls(2, 1, 1, 0);
	session_close(&s);
	assert_calls(2, 1, 1, 0);
	assert_int_equal(sink->contexts_older, 1);
	assert_int_equal(sink->contexts_sampled, 1);
	cuda_player_resource(CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING, 2);
	assert_calls(2, 2, 1, 0);
	cuda_sink_free(sink);
}

/* Sampling is refused for good, and each session says so. */
static void test_refused_sessions(void **state)
{
	(void)state;
	cuda_player_faults("call cuptiPCSamplingEnable returns 35\n");
	for (unsigned i = 0; i < 2; i++) {
		struct cuda_sink *sink = cuda_sink_new();
		struct session *s = cuda_sink_session(sink, &sampling, SESSION_BY_nvidia);

		cuda_player_play(0);
		session_close(&s);
		cuda_sink_assert_work(sink, 1);
		assert_int_equal(sink->samples + sink->contexts_sampled, 0);
		assert_int_equal(sink->refusals, 1);
		cuda_sink_free(sink);
		assert_calls(1, 0, i + 1, i + 1);
	}
}

/* The subscription gets the callbacks of calls that load code with the second session. */
static void test_sampling_beside_a_session_without(void **state)
{
	struct cuda_sink *first = cuda_sink_new(), *second = cuda_sink_new();
	struct session *a = cuda_sink_session(first, &cuda_sink_plain, SESSION_BY_nvidia),
		       *b = cuda_sink_session(second, &sampling, SESSION_BY_nvidia);

	(void)state;
	cuda_player_play(0);
	session_close(&b);
	session_close(&a);
	cuda_sink_assert_work(second, 1);
	assert_true(second->samples > 0); /* no context was there yet */
	assert_int_equal(second->contexts_older, 0);
	assert_calls(1, 0, 1, 0);
	cuda_sink_free(first);
	cuda_sink_free(second);
}

static int play_sampled(const void *test)
{
	const struct CMUnitTest tests[] = { *(const struct CMUnitTest *)test };

	cuda_player_open_made("steps", STEPS);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* --- with --engine pm-sampling --- */

static const struct settings over_time = { .engine = SETTING_ENGINE_PM_SAMPLING,
					   .graphs = SETTING_GRAPHS_NODE,
					   .pm_interval_ns = 20 * NS_PER_US,
					   .metrics = "gpu__time_duration.sum",
					   .cuda = true };

/*
 * A device is set up for each session that wants it, also where its context is older, and freed at
 * its end.
 */
static void play_over_time(unsigned session, enum session_trigger trigger)
{
	struct timespec moment = { .tv_nsec = 2 * NS_PER_MS };
	struct cuda_sink *sink = cuda_sink_new();
	struct session *s = cuda_sink_session(sink, &over_time, trigger);

	for (unsigned i = 0; i < 1000 && standin_calls(STANDIN_PmSamplingStart) < session; i++) {
		cuda_player_play(0);
		nanosleep(&moment, NULL);
	}
	nanosleep(&moment, NULL);
	session_close(&s);
	assert_int_equal(standin_calls(STANDIN_PmSamplingEnable), session);
	assert_int_equal(standin_calls(STANDIN_PmSamplingStop), session);
	assert_int_equal(standin_calls(STANDIN_PmSamplingDisable), session);
	assert_int_equal(sink->counting.rows[TABLE_counter], 1);
	assert_true(sink->counting.rows[TABLE_counter_sample] > 50);
	cuda_sink_free(sink);
}

static void test_samples_of_sessions_one_after_the_other(void **state)
{
	struct cuda_sink *sink = cuda_sink_new();
	struct session *s;

	(void)state;
	play_over_time(1, SESSION_BY_nvidia);
	s = cuda_sink_session(sink, &cuda_sink_plain, SESSION_BY_nvidia);
	cuda_player_play(0);
	session_close(&s);
	assert_int_equal(sink->counting.rows[TABLE_counter_sample], 0);
	cuda_sink_free(sink);
	play_over_time(2, SESSION_BY_nvidia);
	play_over_time(3, SESSION_BY_PROGRAM);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), 4);
}

/* --- with --engine sass-metrics --- */

static const struct settings of_instructions = { .engine = SETTING_ENGINE_SASS_METRICS,
						 .graphs = SETTING_GRAPHS_NODE,
						 .metrics = "default",
						 .kernels = "*",
						 .kernel_count = 5,
						 .cuda = true };
#define VALUES_OF_A_LAUNCH 13 /* four metrics of three instructions, and one of one */

/* Counts anew, and of what the device was configured for in the first one. */
static void play_instructions(const char *metrics, unsigned rounds)
{
	struct settings wanted = of_instructions;
	struct cuda_sink *sink = cuda_sink_new();
	struct session *s;

	snprintf(wanted.metrics, sizeof(wanted.metrics), "%s", metrics);
	s = cuda_sink_session(sink, &wanted, SESSION_BY_nvidia);
	for (unsigned i = 0; i < rounds; i++)
		cuda_player_play(0);
	session_close(&s);
	cuda_sink_assert_work(sink, rounds);
	assert_int_equal(sink->lost, 0);
	assert_int_equal(sink->counting.rows[TABLE_sass_value], 5 * VALUES_OF_A_LAUNCH);
	assert_int_equal(sink->counting.rows[TABLE_metric], 5);
	assert_int_equal(sink->other_metrics, strcmp(metrics, "default") != 0);
	cuda_sink_free(sink);
}

static void test_instructions_of_sessions_one_after_the_other(void **state)
{
	struct cuda_sink *sink = cuda_sink_new();
	struct session *s;

	(void)state;
	play_instructions("default", 2);
	s = cuda_sink_session(sink, &cuda_sink_plain, SESSION_BY_nvidia);
	cuda_player_play(0);
	session_close(&s);
	cuda_sink_assert_work(sink, 1);
	assert_int_equal(sink->counting.rows[TABLE_sass_value], 0);
	cuda_sink_free(sink);
	play_instructions("smsp__sass_branch_targets", 1);
	assert_int_equal(standin_calls(STANDIN_SassMetricsSetConfig), 1);
	assert_int_equal(standin_calls(TAPE_cuptiUnsubscribe), 3);
}

/* The other one has all kernels, too, before, meanwhile and after that. */
static void test_instructions_beside_a_session_without(void **state)
{
	struct cuda_sink *sink = cuda_sink_new();
	struct session *s = cuda_sink_session(sink, &cuda_sink_plain, SESSION_BY_nvidia);

	(void)state;
	cuda_player_play(0);
	play_instructions("default", 1);
	cuda_player_play(0);
	session_close(&s);
	cuda_sink_assert_work(sink, 3);
	assert_int_equal(sink->lost, 0);
	cuda_sink_free(sink);
}

/* --- with --measure range --- */

static const struct settings of_ranges = { .engine = SETTING_ENGINE_RANGE_PROFILER,
					   .graphs = SETTING_GRAPHS_NODE,
					   .measure = SETTING_MEASURE_RANGE,
					   .metrics = "launch__correlation.sum",
					   .kernels = "*",
					   .cuda = true };
static atomic_bool scoping;

static void *open_scopes(void *is_one)
{
	while (atomic_load(&scoping)) {
		pitot_scope_begin(is_one ? "one" : "other");
		usleep(20);
		pitot_scope_end();
	}
	return NULL;
}

/*
 * Plays until a range has ended that was measured. A round takes 4 ms, in which a busy machine may
 * run none of the threads that open scopes. Returns the number of rounds.
 */
static unsigned play_ranges(void)
{
	uint64_t ended = standin_calls(STANDIN_RangeProfilerPopRange);
	unsigned rounds = 0;

	for (; !rounds || standin_calls(STANDIN_RangeProfilerPopRange) == ended; rounds++)
		cuda_player_play(0);
	return rounds;
}

/* Sessions end inside of ranges of other threads, which end while none is there and in the next. */
static void test_ranges_while_sessions_come_and_go(void **state)
{
	pthread_t threads[3];

	(void)state;
	atomic_store(&scoping, true);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, open_scopes, i ? &scoping : NULL), 0);
	for (unsigned i = 0; i < 8; i++) {
		bool measures = i % 3 > 0;
		struct cuda_sink *sink = cuda_sink_new();
		struct session *s = cuda_sink_session(
			sink, measures ? &of_ranges : &cuda_sink_plain, SESSION_BY_nvidia);
		unsigned rounds = 1;

		if (measures)
			rounds = play_ranges();
		else
			cuda_player_play(0);
		session_close(&s);
		cuda_sink_assert_work(sink, rounds);
		assert_int_equal(sink->counting.rows[TABLE_range_value] > 0, measures);
		cuda_sink_free(sink);
	}
	atomic_store(&scoping, false);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(standin_calls(STANDIN_RangeProfilerStart),
			 standin_calls(STANDIN_RangeProfilerStop));
	assert_int_equal(standin_calls(STANDIN_RangeProfilerPushRange),
			 standin_calls(STANDIN_RangeProfilerPopRange));
}

/* A process has one tape, and creates its context once. */
int main(void)
{
	const struct CMUnitTest sampled[] = {
		cmocka_unit_test(test_sampled_sessions_one_after_the_other),
		cmocka_unit_test(test_a_window_that_does_not_open),
		cmocka_unit_test(test_a_context_that_existed_before),
		cmocka_unit_test(test_contexts_between_sessions),
		cmocka_unit_test(test_sampling_beside_a_session_without),
		cmocka_unit_test(test_refused_sessions),
		cmocka_unit_test(test_samples_of_sessions_one_after_the_other),
		cmocka_unit_test(test_instructions_of_sessions_one_after_the_other),
		cmocka_unit_test(test_instructions_beside_a_session_without),
		cmocka_unit_test(test_ranges_while_sessions_come_and_go),
	};
	int failed = 0;

	for (size_t i = 0; i < ARRAY_SIZE(sampled); i++)
		failed += cuda_player_in_child(play_sampled, &sampled[i]);
	return failed;
}
