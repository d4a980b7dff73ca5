/*
 * Sessions beside each other, with a source and a sink of the test's own: each sink gets the rows
 * of its session's time, each definition first, and sources are on for what all want together. Runs
 * under TSan, too.
 */
#include "unit/capture/nvtx_fixture.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>

#include "base/clock.h"
#include "base/helper_thread.h"
#include "base/map.h"
#include "capture/core/collector.h"
#include "capture/core/process_exit.h"
#include "capture/core/session.h"
#include "unit/capture/counting_sink.h"
#include "unit/capture/toy_source.h"

#define MARKERS 4u

struct toy_sink {
	struct counting_sink counting;
	struct map strings; /* id → hash of the text */
	uint64_t marks[MARKERS + 1]; /* by thread, from 1; 0: of the tests' own thread */
	uint64_t first_sample, last_sample, samples, unnamed, lost;
};

static void toy_epoch(struct counting_sink *s)
{
	map_clear(&((struct toy_sink *)s)->strings);
}

static void toy_mark(struct toy_sink *t, const struct row_nvtx *row)
{
	uint64_t hash;

	t->unnamed += !map_get(&t->strings, row->message, &hash);
	t->marks[HAS(row, nvtx, payload) ? row->payload : 0]++;
}

static void toy_sample(struct toy_sink *t, const struct row_counter_sample *row)
{
	if (!t->samples++)
		t->first_sample = (uint64_t)row->value;
	else
		assert_int_equal(row->value, t->last_sample + 1);
	t->last_sample = (uint64_t)row->value;
}

static void toy_row(struct counting_sink *s, enum table_id table, const void *row)
{
	struct toy_sink *t = (struct toy_sink *)s;

	if (table == TABLE_string)
		assert_int_equal(map_put(&t->strings, ((const struct row_string *)row)->id, 1), 0);
	else if (table == TABLE_nvtx)
		toy_mark(t, row);
	else if (table == TABLE_counter_sample)
		toy_sample(t, row);
	else if (table == TABLE_loss)
		t->lost += ((const struct row_loss *)row)->count;
}

static struct toy_sink *sink_new(void)
{
	struct toy_sink *t = calloc(1, sizeof(*t));

	assert_non_null(t);
	counting_sink_init(&t->counting);
	t->counting.on_row = toy_row;
	t->counting.on_epoch = toy_epoch;
	return t;
}

static uint64_t rows_of(const struct toy_sink *t, enum table_id table)
{
	return t->counting.rows[table];
}

static void sink_free(struct toy_sink *t)
{
	map_release(&t->strings);
	free(t);
}

/* --- tests --- */

static int attach(void **state)
{
	(void)state;
	client_reset();
	assert_int_equal(nvtx_source_attach((void *)client_export_table), 1);
	return 0;
}

static struct session *open_session(struct toy_sink *sink, struct settings settings)
{
	struct session *s = session_open(&settings, &sink->counting.sink, SESSION_BY_NVTX);

	assert_non_null(s);
	return s;
}

static struct settings defaults(void)
{
	return (struct settings)SETTINGS_INIT;
}

static void wait_for_samples(int64_t more)
{
	int64_t from = atomic_load(&toy.samples);

	while (atomic_load(&toy.samples) < from + more)
		usleep(1000);
}

static void mark(unsigned times)
{
	while (times--)
		nvtx.mark_a("marked");
}

static void test_each_sink_has_its_time(void **state)
{
	struct toy_sink *first = sink_new(), *second = sink_new();
	struct session *a = open_session(first, defaults()), *b;

	(void)state;
	mark(3);
	wait_for_samples(1);
	b = open_session(second, defaults());
	mark(20);
	wait_for_samples(3);
	session_close(&a);
	assert_null(a);
	assert_true(first->counting.closed && !second->counting.closed && collector_running());
	mark(100);
	wait_for_samples(3);
	session_close(&b);
	assert_true(second->counting.closed && !collector_running());

	assert_int_equal(first->marks[0], 23);
	assert_int_equal(second->marks[0], 120);
	assert_int_equal(first->unnamed + second->unnamed, 0);
	/*
	 * The toy's samples: none missing, none twice, and both have those of the time in which
	 * both ran.
	 */
	assert_int_equal(first->first_sample, 1);
	assert_true(second->first_sample > 1 && second->first_sample + 2 <= first->last_sample);
	assert_true(second->last_sample > first->last_sample);
	assert_int_equal(first->samples, first->last_sample);
	assert_int_equal(second->samples, second->last_sample - second->first_sample + 1);
	/* What the first had from the start the second has, too. */
	assert_true(rows_of(second, TABLE_process) >= 1 && rows_of(second, TABLE_thread) >= 1 &&
		    rows_of(second, TABLE_counter) >= 1 && rows_of(second, TABLE_clock) >= 1);
	assert_true(rows_of(first, TABLE_cost) >= 1 && rows_of(second, TABLE_cost) >= 1);
	assert_int_equal(first->lost + second->lost, 0);
	sink_free(first);
	sink_free(second);
}

static void test_sources_are_on_for_all(void **state)
{
	struct toy_sink *first = sink_new(), *second = sink_new();
	struct settings one = defaults(), other = defaults();
	struct session *a, *b;

	(void)state;
	one.stacks = SETTING_STACKS_NATIVE;
	one.counters_ns = 0;
	one.perf = 17;
	other.stacks = SETTING_STACKS_PYTHON;
	other.counters_ns = 5 * NS_PER_S;
	a = open_session(first, one);
	wait_for_samples(1);
	assert_int_equal(toy.stacks, SETTING_STACKS_NATIVE);
	assert_int_equal(toy.counters_ns, 0);
	b = open_session(second, other);
	assert_int_equal(toy.stacks, SETTING_STACKS_ALL);
	assert_int_equal(toy.counters_ns, 5 * NS_PER_S);
	assert_int_equal(toy.perf, 17); /* the older session's own */
	session_close(&a);
	assert_int_equal(toy.stacks, SETTING_STACKS_PYTHON);
	assert_int_equal(toy.perf, 0);
	assert_true(toy.open);
	session_close(&b);
	session_close(&b); /* NULL */
	sink_free(first);
	sink_free(second);
}

/* Of the threads that the recorder starts, so many start before one does not. */
static atomic_int threads_left = INT_MAX;

int __real_helper_thread_start(void *(*run)(void *), void *argument, size_t stack_bytes);
int __wrap_helper_thread_start(void *(*run)(void *), void *argument, size_t stack_bytes);

int __wrap_helper_thread_start(void *(*run)(void *), void *argument, size_t stack_bytes)
{
	if (atomic_fetch_sub(&threads_left, 1) <= 0)
		return -EAGAIN;
	return __real_helper_thread_start(run, argument, stack_bytes);
}

/* No source has been started then, and none stays on. */
static void test_no_thread_can_be_started(void **state)
{
	(void)state;
	for (int threads = 0; threads < 2; threads++) {
		struct toy_sink *refused = sink_new(), *after = sink_new();
		struct settings settings = defaults();
		unsigned starts = atomic_load(&toy.starts);
		struct session *s;

		atomic_store(&threads_left, threads);
		assert_null(session_open(&settings, &refused->counting.sink, SESSION_BY_NVTX));
		atomic_store(&threads_left, INT_MAX);
		assert_true(refused->counting.abandoned && !refused->counting.closed);
		assert_int_equal(toy.starts, starts);
		assert_false(toy.open || collector_running());
		while (helper_threads()) /* one that could be started ends by itself */
			usleep(1000);

		mark(10);
		s = open_session(after, settings);
		mark(3);
		session_close(&s);
		assert_int_equal(after->marks[0], 3);
		assert_int_equal(after->lost, 0);
		sink_free(refused);
		sink_free(after);
	}
}

/* The window of one opens and closes within that of the other. */
static void test_windows_of_two(void **state)
{
	struct toy_sink *first = sink_new(), *second = sink_new();
	struct settings brief = defaults();
	struct session *a = open_session(first, defaults()), *b;
	unsigned windows;
	uint64_t opens_ns, between;
	bool early;

	(void)state;
	wait_for_samples(1);
	windows = atomic_load(&toy.windows);
	brief.delay_ns = 50 * NS_PER_MS;
	brief.duration_ns = 100 * NS_PER_MS;
	opens_ns = clock_monotonic_ns() + brief.delay_ns;
	b = open_session(second, brief);
	mark(1);
	early = clock_monotonic_ns() < opens_ns;
	while (atomic_load(&toy.windows) < windows + 1)
		usleep(1000);
	mark(10);
	while (atomic_load(&toy.windows) < windows + 2)
		usleep(1000);
	assert_true(toy.open);
	mark(100);
	session_close(&b);
	session_close(&a);
	between = second->marks[0];
	assert_int_equal(first->marks[0], 111);
	/* By time: a slow machine makes the first mark inside the window, or the ten after it. */
	assert_true(between <= (early ? 10 : 11));
	assert_true(second->samples >= 1 && second->samples < first->samples);
	sink_free(first);
	sink_free(second);
}

static void test_capabilities_of_many(void **state)
{
	(void)state;
	for (unsigned i = 0; i < CAPABILITY_NOTES_MAX + 2; i++) {
		struct toy_sink *sink = sink_new();
		struct session *s = open_session(sink, defaults());

		session_close(&s);
		assert_true(rows_of(sink, TABLE_capability) >= 1);
		sink_free(sink);
	}
}

static int arm_with(struct session *s, const char *no_library, const char *no_engine,
		    struct error *e)
{
	*e = (struct error){ 0 };
	atomic_store(&toy.no_library, no_library);
	atomic_store(&toy.no_engine, no_engine);
	return session_arm(s, SETTING_ENGINE_PC_SAMPLING, 0, 0, e);
}

/* The notes about them are dropped, because there are too many. */
static void test_refusals_of_an_engine(void **state)
{
	struct toy_sink *sink = sink_new();
	struct session *s = open_session(sink, defaults());
	struct error e;

	(void)state;
	assert_int_equal(arm_with(s, NULL, "no counters here", &e), 1);
	assert_string_equal(e.text, "no counters here");
	assert_int_equal(session_arm(s, SETTING_ENGINE_TRACE, 0, 0, &e), 0);
	assert_int_equal(arm_with(s, "no library", "no counters here", &e), -EOPNOTSUPP);
	assert_string_equal(e.text, "no library");
	assert_int_equal(arm_with(s, NULL, NULL, &e), 0); /* nothing is left of it */
	session_close(&s);
	sink_free(sink);
}

static struct session *open_named(const char *sinks)
{
	struct settings s = SETTINGS_INIT;

	snprintf(s.sinks, sizeof(s.sinks), "%s", sinks);
	toy_sink = NULL;
	return session_open(&s, NULL, SESSION_BY_PROGRAM);
}

static void test_sinks_by_name(void **state)
{
	struct session *s = open_named("nothing:x,toy:a,b,toy:none");
	uint64_t noted;

	(void)state;
	assert_non_null(s);
	assert_non_null(toy_sink);
	mark(1);
	session_close(&s);
	assert_int_equal(toy_sink->rows[TABLE_nvtx], 1);
	assert_true(toy_sink->closed);
	noted = toy_sink->rows[TABLE_capability];
	free(toy_sink);
	s = open_named("toy:a");
	session_close(&s);
	assert_int_equal(toy_sink->rows[TABLE_capability], noted - 1); /* all sinks were opened */
	free(toy_sink);
	assert_null(open_named("nothing:x"));
	assert_null(open_named("toy:none"));
	assert_null(open_named(""));
}

static void *start_environment(void *unused)
{
	session_start(SESSION_BY_PROGRAM);
	return unused;
}

/* The environment's disk hangs while its session is opened: others go on. */
static void test_a_hanging_environment(void **state)
{
	struct toy_sink *sink = sink_new();
	struct error e = { 0 };
	struct session *s;
	pthread_t thread;

	(void)state;
	setenv("PITOT_SINKS", "toy:hangs", 1);
	atomic_store(&toy_sink_hangs, true);
	assert_int_equal(pthread_create(&thread, NULL, start_environment, NULL), 0);
	s = open_session(sink, defaults());
	assert_int_equal(arm_with(s, NULL, NULL, &e), 0);
	assert_false(session_has_environment());
	assert_int_equal(session_close(&s), 0);
	assert_int_equal(session_stop(), 0);
	atomic_store(&toy_sink_hangs, false);
	pthread_join(thread, NULL);
	unsetenv("PITOT_SINKS");
	assert_true(session_has_environment());
	assert_int_equal(session_stop(), 0);
	sink_free(sink);
	free(toy_sink);
}

static atomic_bool going;
static atomic_uint_fast64_t marked[MARKERS + 1];

static void *mark_all_the_time(void *argument)
{
	uint64_t thread = (uint64_t)(uintptr_t)argument;
	struct nvtx_attributes a = attributes_with(NVTX_MESSAGE_TEXT, "one of many");

	a.payload_type = nvtx_payload_u64;
	a.payload = thread;
	while (atomic_load(&going)) {
		nvtx.mark_ex(&a);
		atomic_fetch_add(&marked[thread], 1);
		usleep(20);
	}
	return NULL;
}

/*
 * What a thread marks between a session's begin and end is in its sink: at least what was marked by
 * then, at most what was later.
 */
static void one_among_many(void)
{
	uint64_t before[MARKERS + 1], after[MARKERS + 1];
	struct toy_sink *sink = sink_new();
	struct session *s = open_session(sink, defaults());

	for (unsigned i = 1; i <= MARKERS; i++)
		before[i] = atomic_load(&marked[i]);
	usleep(20000);
	for (unsigned i = 1; i <= MARKERS; i++)
		after[i] = atomic_load(&marked[i]);
	session_close(&s);
	assert_true(sink->counting.closed);
	for (unsigned i = 1; i <= MARKERS; i++)
		assert_true(sink->marks[i] + sink->lost + 1 >= after[i] - before[i]);
	assert_int_equal(sink->unnamed, 0);
	sink_free(sink);
}

static void *many_sessions(void *unused)
{
	(void)unused;
	for (int i = 0; i < 8; i++)
		one_among_many();
	return NULL;
}

static void test_sessions_while_threads_mark(void **state)
{
	pthread_t markers[MARKERS], owners[3];

	(void)state;
	atomic_store(&going, true);
	for (uintptr_t i = 0; i < MARKERS; i++)
		assert_int_equal(
			pthread_create(&markers[i], NULL, mark_all_the_time, (void *)(i + 1)), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(owners); i++)
		assert_int_equal(pthread_create(&owners[i], NULL, many_sessions, NULL), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(owners); i++)
		pthread_join(owners[i], NULL);
	atomic_store(&going, false);
	for (unsigned i = 0; i < MARKERS; i++)
		pthread_join(markers[i], NULL);
	assert_false(collector_running());
}

/* An exit ends all of them. */
static void test_exit_with_two(void **state)
{
	struct toy_sink *first = sink_new(), *second = sink_new();
	struct session *a = open_session(first, defaults()), *b = open_session(second, defaults());

	(void)state;
	mark(5);
	while (collector_running())
		session_exit();
	assert_true(first->counting.closed && second->counting.closed);
	assert_int_equal(first->marks[0], 5);
	assert_int_equal(second->marks[0], 5);
	session_close(&a);
	session_close(&b);
	sink_free(first);
	sink_free(second);
}

/* Rows may take longer to be on disk than each seal waits. */
static void test_a_slow_disk(void **state)
{
	struct toy_sink *sink = sink_new();
	struct session *s = open_session(sink, defaults());

	(void)state;
	wait_for_samples(2);
	atomic_store(&sink->counting.slow, UINT_MAX);
	while (atomic_load(&sink->counting.slow) > UINT_MAX - 3) /* seals */
		usleep(1000);
	atomic_store(&sink->counting.slow, 1000);
	while (collector_running())
		session_exit();
	assert_int_equal(sink->counting.slow, 0);
	assert_int_equal(sink->last_sample, toy.samples);
	session_close(&s);
	sink_free(sink);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_each_sink_has_its_time, attach),
		cmocka_unit_test_setup(test_sources_are_on_for_all, attach),
		cmocka_unit_test_setup(test_no_thread_can_be_started, attach),
		cmocka_unit_test_setup(test_windows_of_two, attach),
		cmocka_unit_test_setup(test_capabilities_of_many, attach),
		cmocka_unit_test_setup(test_refusals_of_an_engine, attach),
		cmocka_unit_test_setup(test_sinks_by_name, attach),
		cmocka_unit_test_setup(test_a_hanging_environment, attach),
		cmocka_unit_test_setup(test_sessions_while_threads_mark, attach),
		cmocka_unit_test_setup(test_exit_with_two, attach),
		cmocka_unit_test_setup(test_a_slow_disk, attach),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
