/*
 * The collector's thread with threads of a program: what they call comes out as rows, or is
 * counted. Without CUDA: the calls are NVTX's. Runs under TSan too.
 */
#include "unit/capture/nvtx_fixture.h"

#include <pthread.h>

#include "base/clock.h"
#include "capture/core/collector.h"
#include "capture/core/session.h"

/* A session that the environment asks for, and a client of NVTX. */
static void start_session(struct settings settings)
{
	_cleanup_strbuf_ struct strbuf options = STRBUF_INIT;

	client_reset();
	assert_int_equal(nvtx_source_attach((void *)client_export_table), 1);
	captured = captured_begin();
	assert_int_equal(writer_close(&captured->writer), 0);
	unlink(captured->path);
	settings_text(&settings, &options);
	setenv("PITOT_RECORDING", captured->directory, 1);
	setenv("PITOT_OPTIONS", strbuf_text(&options), 1);
	assert_true(session_start(SESSION_BY_NVTX));
}

static struct settings defaults(void)
{
	return (struct settings)SETTINGS_INIT;
}

static void stop_session(void)
{
	while (collector_running()) /* it may lose its patience, not its way */
		session_stop();
	snprintf(captured->path, sizeof(captured->path), "%s/%d.0.pit", captured->directory,
		 (int)getpid());
	captured_read(captured);
	free(rows);
	rows = captured_rows(captured, TABLE_nvtx, &row_count);
}

/* Sessions come one after the other; rings and names stay. */
static int forget(void **state)
{
	(void)state;
	captured_free(captured);
	return 0;
}

static uint64_t lost_events(void)
{
	size_t count;
	struct row_loss *losses = captured_rows(captured, TABLE_loss, &count);
	uint64_t sum = 0;

	for (size_t i = 0; i < count; i++) {
		assert_int_equal(losses[i].reason, loss_reason_ring_full);
		sum += losses[i].count;
	}
	free(losses);
	return sum;
}

static void test_the_first_and_the_last_moment(void **state)
{
	(void)state;
	start_session(defaults());
	nvtx.mark_a("at once");
	stop_session();
	assert_int_equal(row_count, 1);
	assert_row(0, nvtx_kind_mark, 0, "at once");
	session_stop(); /* again */
	assert_false(collector_running());
}

#define THREADS 4
#define MARKS 30000

static void *mark_a_lot(void *argument)
{
	struct nvtx_attributes a = attributes_with(NVTX_MESSAGE_TEXT, "one of many");

	a.payload_type = nvtx_payload_u64;
	for (uint64_t i = 0; i < MARKS; i++) {
		a.payload = (uint64_t)(uintptr_t)argument << 32 | i;
		nvtx.mark_ex(&a);
	}
	return NULL;
}

static void test_many_threads(void **state)
{
	uint64_t last[THREADS] = { 0 };
	pthread_t threads[THREADS];

	(void)state;
	start_session(defaults());
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, mark_a_lot, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	stop_session();
	assert_int_equal(row_count + lost_events(), THREADS * MARKS);
	for (size_t i = 0; i < row_count; i++) {
		uint64_t thread = rows[i].payload >> 32,
			 number = (rows[i].payload & UINT32_MAX) + 1;

		assert_true(thread < THREADS && number <= MARKS);
		assert_string_equal(text_of(&rows[i]), "one of many");
		assert_true(number > last[thread]); /* rows of a block are in order of time */
		last[thread] = number;
	}
}

static void *mark_once(void *argument)
{
	nvtx.mark_a(argument);
	return NULL;
}

static void wait_for_rings_of_ended_threads(void)
{
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++)
		while (atomic_load(&r->state) == RING_DEAD)
			usleep(1000);
}

static void test_threads_that_come_and_go(void **state)
{
	static char text[] = "short-lived";

	(void)state;
	start_session(defaults());
	for (int i = 0; i < 2 * (int)RINGS_MAX; i++) {
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, mark_once, text), 0);
		pthread_join(thread, NULL);
		if (i % 512 == 511)
			wait_for_rings_of_ended_threads();
	}
	stop_session();
	assert_int_equal(row_count, 2 * RINGS_MAX);
	assert_int_equal(lost_events(), 0);
}

static void *mark_with_a_name(void *name)
{
	pthread_setname_np(pthread_self(), name);
	nvtx.mark_a("x");
	return NULL;
}

static void test_names_of_threads_that_have_ended(void **state)
{
	static char name[] = "early";
	struct row_thread *threads;
	unsigned named = 0;
	pthread_t thread;
	size_t count;

	(void)state;
	start_session(defaults());
	for (int i = 0; i < 64; i++) { /* most are gone when the collector looks */
		assert_int_equal(pthread_create(&thread, NULL, mark_with_a_name, name), 0);
		pthread_join(thread, NULL);
	}
	stop_session();
	threads = captured_rows(captured, TABLE_thread, &count);
	for (size_t i = 0; i < count; i++)
		named += strcmp(captured_text(captured, threads[i].name), name) == 0;
	free(threads);
	assert_int_equal(named, 64);
}

static atomic_bool over;
static atomic_uint calls;

/* Threads that come, call and go, until the very end. */
static void *keep_calling(void *text)
{
	while (!atomic_load(&over)) {
		pthread_t thread;

		nvtx.push_a(text);
		nvtx.pop();
		atomic_fetch_add(&calls, 1);
		if (pthread_create(&thread, NULL, mark_once, text) == 0)
			pthread_join(thread, NULL);
	}
	return NULL;
}

static void test_stopping_while_threads_call(void **state)
{
	static char text[] = "until the end";
	pthread_t threads[THREADS];

	(void)state;
	atomic_store(&over, false);
	atomic_store(&calls, 0);
	start_session(defaults());
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, keep_calling, text), 0);
	while (atomic_load(&calls) < 100)
		usleep(1000);
	stop_session();
	atomic_store(&over, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_true(row_count > 0);
	for (size_t i = 0; i < row_count; i++)
		if (rows[i].kind != nvtx_kind_pop)
			assert_string_equal(text_of(&rows[i]), text);
}

static void test_waking_up(void **state)
{
	unsigned tries = 0;
	bool woken = false;

	(void)state;
	start_session(defaults());
	nvtx.mark_a("busy");
	/* It may be idle again before this thread looks, but not each time. */
	for (; tries < 50 && !woken; tries++) {
		while (!atomic_load(&collector_idle))
			usleep(1000);
		nvtx.mark_a("awake again");
		woken = !atomic_load(&collector_idle);
	}
	assert_true(woken);
	while (ring_available(ring_get()))
		usleep(1000);
	stop_session();
	assert_int_equal(row_count, 1 + tries);
	assert_row(1, nvtx_kind_mark, 0, "awake again");
}

/*
 * Events from now until the end of a window that opens and closes after that long. Its rows; how
 * many there were of all.
 */
static size_t call_around_a_window(uint64_t ns)
{
	struct settings settings = defaults();
	uint64_t opens, slack = 40 * NS_PER_MS;
	size_t pushed = 0;

	settings.start_ns = clock_monotonic_ns();
	settings.delay_ns = settings.duration_ns = ns;
	opens = settings.start_ns + ns;
	start_session(settings);
	for (; clock_monotonic_ns() < settings.start_ns + 4 * ns; pushed++) {
		nvtx.push_a("around the clock");
		nvtx.pop();
		usleep(1000);
	}
	stop_session();
	/*
	 * Its start is seen before it comes by two of the collector's looks at the clock at most.
	 */
	if (row_count)
		assert_true(rows[0].time_ns + slack >= opens);
	return pushed;
}

static void test_delay_and_duration(void **state)
{
	size_t pushed = 0;

	(void)state;
	/* A collector that gets no processor does not see a short window. */
	for (uint64_t ns = 150 * NS_PER_MS; ns < 20 * NS_PER_S; ns *= 4) {
		pushed = call_around_a_window(ns);
		if (row_count > 20)
			break;
		forget(NULL);
	}
	assert_true(row_count > 20);
	assert_true(row_count < 2 * pushed);
	for (size_t i = 0; i < row_count; i++)
		assert_true(rows[i].kind == nvtx_kind_push || rows[i].kind == nvtx_kind_pop);
	assert_int_equal(lost_events(), 0);
}

static void test_what_else_is_written(void **state)
{
	struct row_process *processes;
	struct row_thread *threads;
	size_t count, modules;
	struct row_capability *capabilities;
	bool seen = false, settings = false, wrong = false;

	(void)state;
	setenv("PITOT_SYNC", "yes", 1);
	setenv("PITOT_GRAPHS", "lunch", 1);
	start_session(defaults());
	unsetenv("PITOT_SYNC");
	unsetenv("PITOT_GRAPHS");
	pthread_setname_np(pthread_self(), "named");
	nvtx.mark_a("x");
	stop_session();
	processes = captured_rows(captured, TABLE_process, &count);
	assert_int_equal(count, 2);
	assert_int_equal(processes[1].pid, getpid());
	assert_false(HAS(&processes[0], process, end_ns));
	assert_true(HAS(&processes[1], process, end_ns));
	assert_true(processes[1].end_ns > processes[1].start_ns);
	threads = captured_rows(captured, TABLE_thread, &count);
	for (size_t i = 0; i < count; i++)
		seen |= threads[i].tid == (uint32_t)getpid() &&
			strcmp(captured_text(captured, threads[i].name), "named") == 0;
	assert_true(seen);
	free(captured_rows(captured, TABLE_module, &modules));
	assert_true(modules >= 2); /* this program and the C library */
	free(captured_rows(captured, TABLE_clock, &count));
	assert_true(count >= 1);
	free(captured_rows(captured, TABLE_cost, &count));
	assert_true(count >= 2);
	capabilities = captured_rows(captured, TABLE_capability, &count);
	for (size_t i = 0; i < count; i++) {
		const struct row_capability *c = &capabilities[i];
		settings |= c->name == feature_settings &&
			    !strcmp(captured_text(captured, c->actual), "sync=on (environment)");
		wrong |= c->name == feature_environment && c->state == capability_state_degraded &&
			 strstr(captured_text(captured, c->reason), "PITOT_GRAPHS takes launch");
	}
	assert_true(settings && wrong);
	free(capabilities);
	free(processes);
	free(threads);
}

int main(void)
{
#define AFTER(name) cmocka_unit_test_teardown(name, forget)
	const struct CMUnitTest tests[] = {
		AFTER(test_the_first_and_the_last_moment),
		AFTER(test_many_threads),
		AFTER(test_threads_that_come_and_go),
		AFTER(test_names_of_threads_that_have_ended),
		AFTER(test_stopping_while_threads_call),
		AFTER(test_waking_up),
		AFTER(test_delay_and_duration),
		AFTER(test_what_else_is_written),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	free(rows);
	return failed;
}
