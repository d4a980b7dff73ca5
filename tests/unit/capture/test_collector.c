/*
 * The collector's thread with threads of a program: what they call comes out as rows, or is counted. Without CUDA: the
 * calls are NVTX's. Runs under TSan too.
 */
#include "unit/capture/nvtx_fixture.h"

#include <pthread.h>

#include "base/clock.h"
#include "capture/collector.h"
#include "capture/host/process_rows.h"

#define STOP_NS (10 * NS_PER_S)

/* A recording that a collector writes into, and a client of NVTX. */
static void start_collector(struct settings settings)
{
	struct collector_start start = { .setup_start_ns = clock_monotonic_ns(), .setup_ns = 1 };

	client_reset();
	assert_int_equal(nvtx_source_attach((void *)client_export_table), 1);
	captured = captured_begin();
	if (!settings.start_ns)
		settings.start_ns = start.setup_start_ns;
	start.settings = settings;
	start.writer = captured->writer;
	captured->writer = NULL; /* the collector's now */
	nvtx_source_window(settings.delay_ns == 0);
	assert_int_equal(collector_start(&start), 0);
	assert_true(collector_running());
}

static void stop_collector(void)
{
	assert_true(collector_stop(STOP_NS));
	assert_false(collector_running());
	captured_close(captured);
	free(rows);
	rows = captured_rows(captured, TABLE_nvtx, &row_count);
}

/* As a process does whose session is over; the next test is like the child of a fork. */
static int forget(void **state)
{
	(void)state;
	captured_free(captured);
	collector_after_fork();
	rings_after_fork();
	nvtx_source_after_fork();
	host_reset();
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
	start_collector((struct settings){ 0 });
	nvtx.mark_a("at once");
	stop_collector();
	assert_int_equal(row_count, 1);
	assert_row(0, nvtx_kind_mark, 0, "at once");
	assert_true(collector_stop(STOP_NS)); /* again */
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
	start_collector((struct settings){ 0 });
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, mark_a_lot, (void *)i), 0);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	stop_collector();
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

static void test_threads_that_come_and_go(void **state)
{
	static char text[] = "short-lived";

	(void)state;
	start_collector((struct settings){ 0 });
	for (int i = 0; i < 2 * (int)RINGS_MAX; i++) {
		pthread_t thread;

		assert_int_equal(pthread_create(&thread, NULL, mark_once, text), 0);
		pthread_join(thread, NULL);
		if (i % 512 == 511) /* so that ended threads' rings are seen to */
			usleep(60000);
	}
	stop_collector();
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
	start_collector((struct settings){ 0 });
	for (int i = 0; i < 64; i++) { /* most are gone when the collector looks */
		assert_int_equal(pthread_create(&thread, NULL, mark_with_a_name, name), 0);
		pthread_join(thread, NULL);
	}
	stop_collector();
	threads = captured_rows(captured, TABLE_thread, &count);
	for (size_t i = 0; i < count; i++)
		named += strcmp(captured_text(captured, threads[i].name), name) == 0;
	free(threads);
	assert_int_equal(named, 64);
}

static atomic_bool over;

/* Threads that come, call and go, until the very end. */
static void *keep_calling(void *text)
{
	while (!atomic_load(&over)) {
		pthread_t thread;

		nvtx.push_a(text);
		nvtx.pop();
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
	start_collector((struct settings){ 0 });
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, keep_calling, text), 0);
	usleep(100000);
	stop_collector();
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
	(void)state;
	start_collector((struct settings){ 0 });
	nvtx.mark_a("busy");
	for (int i = 0; i < 200 && !atomic_load(&collector_idle); i++)
		usleep(10000);
	assert_true(atomic_load(&collector_idle));
	nvtx.mark_a("awake again");
	assert_false(atomic_load(&collector_idle));
	for (int i = 0; i < 200 && ring_available(ring_get()); i++)
		usleep(10000);
	assert_int_equal(ring_available(ring_get()), 0);
	stop_collector();
	assert_int_equal(row_count, 2);
	assert_row(1, nvtx_kind_mark, 0, "awake again");
}

static void test_delay_and_duration(void **state)
{
	struct settings settings = { .start_ns = clock_monotonic_ns(),
				     .delay_ns = 200 * NS_PER_MS,
				     .duration_ns = 200 * NS_PER_MS };
	uint64_t opens = settings.start_ns + settings.delay_ns;
	uint64_t slack = 40 * NS_PER_MS; /* two of the collector's looks at the clock */

	(void)state;
	start_collector(settings);
	while (clock_monotonic_ns() < settings.start_ns + 600 * NS_PER_MS) {
		nvtx.push_a("around the clock");
		nvtx.pop();
		usleep(1000);
	}
	stop_collector();
	assert_true(row_count > 20);
	assert_true(rows[0].time_ns + slack >= opens);
	for (size_t i = 0; i < row_count; i++)
		assert_true(rows[i].kind == nvtx_kind_push || rows[i].kind == nvtx_kind_pop);
	assert_int_equal(lost_events(), 0);
}

static void test_what_else_is_written(void **state)
{
	struct row_process *processes;
	struct row_thread *threads;
	size_t count, modules;
	bool seen = false;

	(void)state;
	start_collector((struct settings){ 0 });
	pthread_setname_np(pthread_self(), "named");
	nvtx.mark_a("x");
	stop_collector();
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
