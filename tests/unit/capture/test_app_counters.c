/*
 * Counters and gauges of pitot/scope.h, from the calls to rows in a recording. Runs under TSan too.
 */
#include "unit/capture/nvtx_fixture.h"

#include <errno.h>
#include <pthread.h>

#include "capture/app/app_external.h"
#include "pitot/pitot.h"

extern const struct source app_source;

static struct row_counter_sample *samples;
static struct row_counter *defined;
static size_t sample_count, defined_count;

static uint64_t collect(uint64_t now_ns)
{
	return app_source.collect(captured->writer, now_ns);
}

static int begin_counters(void **state)
{
	begin(state);
	rings_after_fork();
	app_source.start(NULL);
	collect(0);
	app_source.begin(captured->writer, NULL);
	return 0;
}

static void read_samples(void)
{
	source_drain(&app_source, captured->writer);
	captured_close(captured);
	free(samples);
	free(defined);
	samples = captured_rows(captured, TABLE_counter_sample, &sample_count);
	defined = captured_rows(captured, TABLE_counter, &defined_count);
}

static const struct row_counter *definition(uint32_t id)
{
	const struct row_counter *found = NULL;

	for (size_t i = 0; i < defined_count; i++)
		if (defined[i].id == id) {
			assert_null(found);
			found = &defined[i];
		}
	assert_non_null(found);
	return found;
}

static void assert_defined(uint32_t id, enum counter_reading reading, const char *name,
			   const char *unit)
{
	const struct row_counter *row = definition(id);

	assert_int_equal(row->reading, reading);
	assert_int_equal(row->decimals, 0);
	assert_string_equal(captured_text(captured, row->name), name);
	assert_string_equal(captured_text(captured, row->unit), unit);
}

static void assert_sample(size_t i, uint64_t time_ns, uint32_t id, int64_t value)
{
	assert_true(i < sample_count);
	assert_int_equal(samples[i].time_ns, time_ns);
	assert_int_equal(samples[i].counter, id);
	assert_int_equal(samples[i].value, value);
	assert_false(HAS(&samples[i], counter_sample, device));
	assert_false(HAS(&samples[i], counter_sample, thread));
}

static void test_sums(void **state)
{
	uint32_t tokens = pitot_counter("tokens", "tokens", "what the model has seen"),
		 depth = pitot_counter("queue depth", NULL, NULL);

	(void)state;
	assert_int_equal(tokens, 1); /* the first that there is */
	assert_int_equal(depth, 2);
	assert_int_equal(pitot_counter("tokens", "other", "another"), tokens);
	assert_int_equal(collect(1), 0);
	pitot_counter_add(tokens, 5);
	pitot_counter_add(tokens, 7);
	pitot_counter_add(depth, 3);
	assert_int_equal(collect(2), 2);
	pitot_counter_add(depth, -4);
	assert_int_equal(collect(3), 1);
	assert_int_equal(collect(4), 0);
	pitot_counter_add(0, 1000);
	pitot_counter_add(3, 1000);
	pitot_counter_add(1025, 1000);
	pitot_counter_add(UINT32_MAX, 1000);
	assert_int_equal(collect(5), 0);
	read_samples();
	assert_int_equal(sample_count, 3);
	assert_sample(0, 2, 1024, 12);
	assert_sample(1, 2, 1026, 3);
	assert_sample(2, 3, 1026, -1);
	assert_int_equal(defined_count, 2);
	assert_defined(1024, counter_reading_integer, "tokens", "tokens");
	assert_defined(1026, counter_reading_integer, "queue depth", "");
	assert_string_equal(captured_text(captured, definition(1024)->description),
			    "what the model has seen");
}

static void test_gauges(void **state)
{
	static const double values[] = { 0.5, 0.25, -1e300, 0.0 };
	uint32_t loss_counter = pitot_counter("loss", "", "of the step"),
		 tokens = pitot_counter("tokens", NULL, NULL);
	double value;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(values); i++)
		pitot_gauge(loss_counter, values[i]);
	pitot_gauge(0, 1);
	pitot_gauge(1000, 1); /* not registered */
	pitot_gauge(UINT32_MAX, 1);
	pitot_gauge(tokens, 3); /* a sum as well */
	pitot_counter_add(tokens, 1);
	collect(7);
	read_samples();
	assert_int_equal(sample_count, ARRAY_SIZE(values) + 2);
	for (size_t i = 0; i < sample_count; i++) {
		if (samples[i].counter != 1024 + 2 * (loss_counter - 1) + 1)
			continue;
		memcpy(&value, &samples[i].value, sizeof(value));
		assert_true(value == values[i - 1]);
		assert_int_equal(samples[i].thread, syscall(SYS_gettid));
		assert_true(samples[i].time_ns > 1000);
		assert_true(samples[i].time_ns >= samples[i - 1].time_ns);
	}
	assert_sample(0, 7, 1024, 13); /* 12 are of the test before */
	assert_int_equal(samples[5].counter, 1025);
	assert_int_equal(defined_count, 3);
	assert_defined(1024 + 2 * (loss_counter - 1) + 1, counter_reading_real, "loss", "");
	assert_defined(1024, counter_reading_integer, "tokens", "tokens");
	assert_defined(1025, counter_reading_real, "tokens", "tokens");
}

static void test_outside_of_windows(void **state)
{
	uint32_t counter = pitot_counter("outside", "", "");

	(void)state;
	source_window(&nvtx_source, false, NULL);
	pitot_counter_add(counter, 5);
	pitot_gauge(counter, 5);
	assert_null(ring_of_thread);
	assert_int_equal(collect(1), 0);
	source_window(&nvtx_source, true, NULL);
	pitot_counter_add(counter, 2);
	assert_int_equal(collect(2), 1);
	read_samples();
	assert_int_equal(sample_count, 1);
	assert_sample(0, 2, 1024 + 2 * (counter - 1), 2);
}

/* It defines them again, and goes on with the sum. */
static void test_a_second_recording(void **state)
{
	uint32_t counter = pitot_counter("both", "x", "");

	(void)state;
	pitot_counter_add(counter, 2);
	collect(1);
	app_source.begin(captured->writer, NULL);
	captured_free(captured);
	captured = captured_begin();
	assert_int_equal(collect(2), 0);
	pitot_counter_add(counter, 2);
	collect(3);
	read_samples();
	assert_int_equal(sample_count, 1);
	assert_sample(0, 3, 1024 + 2 * (counter - 1), 4);
	assert_defined(1024 + 2 * (counter - 1), counter_reading_integer, "both", "x");
}

static void test_an_idle_collector_is_woken(void **state)
{
	uint32_t counter = pitot_counter("wakes", "", "");

	(void)state;
	atomic_store(&collector_idle, true);
	pitot_counter_add(counter, 1);
	assert_false(atomic_load(&collector_idle));
	errno = 12345;
	pitot_gauge(counter, 1);
	pitot_counter("for errno", "", "");
	assert_int_equal(errno, 12345);
	app_source.after_fork();
	assert_int_equal(pitot_counter("wakes", "", ""), counter);
}

#define THREADS 4
#define ADDS 50000

static atomic_uint busy;

static void *add(void *unused)
{
	(void)unused;
	for (int i = 0; i < ADDS; i++) {
		pitot_counter_add(1, 1);
		if (i % 100 == 0)
			pitot_counter_add(pitot_counter("shared", "", ""), 1);
	}
	atomic_fetch_sub(&busy, 1);
	return NULL;
}

/* The sums only grow, and have everything in the end. */
static void test_threads_lose_nothing(void **state)
{
	uint32_t ids[2] = { 1024, 1024 + 2 * (pitot_counter("shared", "", "") - 1) };
	pthread_t threads[THREADS];
	int64_t last[2] = { 13, 0 };
	uint64_t now = 1;

	(void)state;
	atomic_store(&busy, THREADS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add, NULL), 0);
	while (atomic_load(&busy)) {
		collect(now++);
		usleep(1000);
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	collect(now);
	read_samples();
	for (size_t i = 0; i < sample_count; i++) {
		int64_t *sum = &last[samples[i].counter == ids[1]];

		if (samples[i].counter != ids[0] && samples[i].counter != ids[1])
			continue;
		assert_true(samples[i].value > *sum);
		*sum = samples[i].value;
	}
	assert_int_equal(last[0], 13 + THREADS * ADDS);
	assert_int_equal(last[1], THREADS * ADDS / 100);
}

/* --- additions by scope --- */

static struct row_counter_addition *additions;
static size_t addition_count;

/* As the collector does: events of all kinds, in their order. */
static void drain_all(void)
{
	const struct source *both[] = { &nvtx_source, &app_source };
	struct ring *r;

	for (unsigned i = 0; (r = ring_at(i)); i++)
		while (ring_available(r)) {
			uint64_t position = atomic_load(&r->tail), slots = 1;

			for (unsigned s = 0; s < 2; s++)
				for (unsigned h = 0; h < both[s]->handler_count; h++)
					if (both[s]->handlers[h].kind ==
					    ring_slot(r, position)->kind)
						slots = both[s]->handlers[h].handle(
							captured->writer, r, position);
			ring_consume(r, slots);
		}
}

static void read_additions(void)
{
	drain_all();
	collect(clock_monotonic_ns());
	captured_close(captured);
	free(additions);
	free(rows);
	additions = captured_rows(captured, TABLE_counter_addition, &addition_count);
	rows = captured_rows(captured, TABLE_nvtx, &row_count);
}

/* Names of the scopes that are open on a thread at a time, outermost first. */
static void scopes_at(uint32_t thread, uint64_t time_ns, char *out, size_t room)
{
	size_t length[8] = { 0 }, depth = 0;

	out[0] = '\0';
	for (size_t i = 0; i < row_count; i++) {
		if (rows[i].thread != thread || rows[i].time_ns > time_ns)
			continue;
		if (rows[i].kind == nvtx_kind_pop && depth)
			out[length[--depth]] = '\0';
		if (rows[i].kind != nvtx_kind_push)
			continue;
		length[depth++] = strlen(out);
		snprintf(out + strlen(out), room - strlen(out), "/%s", text_of(&rows[i]));
	}
}

static void assert_added(const char *scopes, uint32_t counter, int64_t sum, uint64_t count)
{
	char at[256];

	for (size_t i = 0; i < addition_count; i++) {
		const struct row_counter_addition *a = &additions[i];

		if (!HAS(a, counter_addition, thread) || a->counter != 1024 + 2 * (counter - 1))
			continue;
		scopes_at(a->thread, a->time_ns, at, sizeof(at));
		sum -= strcmp(at, scopes) ? 0 : a->value;
		count -= strcmp(at, scopes) ? 0 : a->count;
	}
	if (sum || count)
		fail_msg("%s: %lld more, in %llu additions", scopes, (long long)sum,
			 (unsigned long long)count);
}

static void test_additions_know_their_scope(void **state)
{
	uint32_t tokens = pitot_counter("tokens", NULL, NULL),
		 other = pitot_counter("other", NULL, NULL);

	(void)state;
	pitot_counter_add(tokens, 1);
	pitot_scope_begin("step");
	pitot_counter_add(tokens, 2);
	pitot_counter_add(tokens, 3);
	pitot_scope_begin("forward");
	pitot_counter_add(tokens, 40);
	pitot_counter_add(other, -7);
	collect(clock_monotonic_ns()); /* events are in the ring: not yet */
	drain_all();
	pitot_counter_add(tokens, 50);
	collect(clock_monotonic_ns()); /* while the scope is open */
	pitot_counter_add(tokens, 60);
	pitot_scope_end();
	nvtx.push_a("nvtx");
	pitot_counter_add(other, 8);
	nvtx.pop();
	pitot_counter_add(other, 9);
	pitot_scope_end();
	for (int i = 0; i < 10; i++) {
		PITOT_SCOPE("alternating") pitot_counter_add(tokens, 100);
		pitot_counter_add(tokens, 1000);
	}
	pitot_scope_begin("open");
	pitot_counter_add(tokens, 5);
	read_additions();
	pitot_scope_end();
	assert_added("", tokens, 1 + 10000, 11);
	assert_added("/step", tokens, 5, 2);
	assert_added("/step/forward", tokens, 150, 3);
	assert_added("/step/forward", other, -7, 1);
	assert_added("/step/nvtx", other, 8, 1);
	assert_added("/step", other, 9, 1);
	assert_added("/alternating", tokens, 1000, 10);
	assert_added("/open", tokens, 5, 1);
	assert_int_equal(addition_count, 28);
}

/* A scope without additions has no rows for them. */
static void test_scopes_without_additions(void **state)
{
	uint32_t tokens = pitot_counter("tokens", NULL, NULL);

	(void)state;
	pitot_counter_add(tokens, 1);
	for (int i = 0; i < 10; i++)
		PITOT_SCOPE("empty") continue;
	read_additions();
	assert_int_equal(addition_count, 1);
	assert_int_equal(row_count, 20);
}

/* What found no room has an unknown scope; nothing is lost. */
static void test_a_full_ring_keeps_sums(void **state)
{
	uint32_t tokens = pitot_counter("tokens", NULL, NULL);
	int64_t unknown = 0;

	(void)state;
	pitot_scope_begin("full");
	while (ring_available(ring_get()) < RING_SLOTS)
		pitot_gauge(tokens, 1);
	pitot_counter_add(tokens, 3);
	pitot_scope_end();
	pitot_counter_add(tokens, 4);
	drain_all();
	pitot_scope_begin("next");
	pitot_counter_add(tokens, 10);
	pitot_scope_end();
	read_additions();
	for (size_t i = 0; i < addition_count; i++)
		if (!HAS(&additions[i], counter_addition, thread))
			unknown += additions[i].value;
	assert_int_equal(unknown, 7);
	/* the end of the first was lost */
	assert_added("/full/next", tokens, 10, 1);
}

#define SCOPES 500

static uint64_t shared_token;

static void *work_in_scopes(void *unused)
{
	for (int i = 0; i < SCOPES; i++) {
		pitot_scope_carry(shared_token);
		pitot_counter_add(1, 1);
		PITOT_SCOPE("inner") pitot_counter_add(1, 10);
		pitot_counter_add(1, 2);
		pitot_scope_end();
		if (i % 50 == 0)
			usleep(1000); /* its ring must not be full */
	}
	atomic_fetch_sub(&busy, 1);
	return unused;
}

static void test_threads_in_scopes_lose_nothing(void **state)
{
	pthread_t threads[THREADS];

	(void)state;
	pitot_scope_begin("whole");
	shared_token = pitot_scope_token();
	atomic_store(&busy, THREADS);
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work_in_scopes, NULL), 0);
	while (atomic_load(&busy)) {
		drain_all();
		collect(clock_monotonic_ns());
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	read_additions();
	pitot_scope_end();
	assert_added("/whole", 1, THREADS * SCOPES * 3, THREADS * SCOPES * 2);
	assert_added("/whole/inner", 1, THREADS * SCOPES * 10, THREADS * SCOPES);
}

/* The child has none of its parent's additions, and its own in their scopes. */
static void test_additions_after_a_fork(void **state)
{
	uint32_t tokens = pitot_counter("tokens", NULL, NULL);

	(void)state;
	pitot_scope_begin("parent's");
	pitot_counter_add(tokens, 1);
	pitot_counter_add(tokens, 2);
	rings_after_fork();
	app_source.after_fork();
	app_source.start(NULL);
	pitot_scope_end();
	pitot_scope_begin("child's");
	pitot_counter_add(tokens, 4);
	read_additions();
	pitot_scope_end();
	assert_added("/child's", tokens, 4, 1);
	assert_int_equal(addition_count, 1);
}

/* --- ids for CUDA calls; with CUDA: test_cuda_sessions --- */

static size_t externals_of_call(uint64_t correlation)
{
	struct row_external_correlation *externals;
	size_t count;

	source_drain(&app_source, captured->writer);
	app_external_write(captured->writer, ring_get(), correlation);
	captured_close(captured);
	externals = captured_rows(captured, TABLE_external_correlation, &count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(externals[i].correlation, correlation);
		assert_int_equal(externals[i].kind, i);
		assert_int_equal(externals[i].id, 100 + i);
	}
	free(externals);
	captured_free(captured);
	captured = captured_begin();
	return count;
}

static void test_ids_that_are_not_known_to_be_open(void **state)
{
	uint64_t id;

	(void)state;
	atomic_store(&app_external_on, true);
	assert_int_equal(pitot_external_push(0, 100), 1);
	assert_int_equal(pitot_external_push(1, 101), 1);
	assert_int_equal(externals_of_call(9), 2);
	counter_add(&ring_get()->lost, 1); /* perhaps a pop */
	assert_int_equal(externals_of_call(10), 0);
	assert_int_equal(pitot_external_push(0, 100), 1);
	assert_int_equal(externals_of_call(11), 1);
	atomic_store(&app_external_on, false);
	assert_int_equal(pitot_external_push(0, 102), 0);
	assert_int_equal(pitot_external_pop(0, &id), 1);
	assert_int_equal(externals_of_call(14), 1);
	assert_int_equal(pitot_external_pop(0, &id), 1);
	assert_int_equal(pitot_external_pop(2, &id), 0);
	assert_int_equal(externals_of_call(15), 0);
}

static void *leave_an_id(void *unused)
{
	assert_int_equal(pitot_external_push(0, 100), 1);
	return unused;
}

static void *take_an_id(void *unused)
{
	uint64_t id;

	pitot_gauge(1, 0); /* gets the ring */
	assert_int_equal(pitot_external_pop(0, &id), 0);
	assert_int_equal(externals_of_call(1), 0);
	return unused;
}

static void test_ids_end_with_their_thread(void **state)
{
	pthread_t thread;

	(void)state;
	atomic_store(&app_external_on, true);
	pthread_create(&thread, NULL, leave_an_id, NULL);
	pthread_join(thread, NULL);
	source_drain(&app_source, captured->writer);
	pthread_create(&thread, NULL, take_an_id, NULL);
	pthread_join(thread, NULL);
	atomic_store(&app_external_on, false);
}

/* Last: they are there to stay. */
static void test_too_many(void **state)
{
	char name[32];
	uint32_t n = 0, last = 0, counter;

	(void)state;
	assert_int_equal(pitot_counter(NULL, "", ""), 0);
	for (counter = 1; counter; n++) {
		snprintf(name, sizeof(name), "counter %u", n);
		counter = pitot_counter(name, "", "");
		last = counter ? counter : last;
	}
	assert_int_equal(last, 1024);
	assert_int_equal(pitot_counter("tokens", "", ""), 1);
	pitot_counter_add(last, 9);
	collect(1);
	read_samples();
	assert_sample(0, 1, 1024 + 2 * 1023, 9);
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin_counters, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_sums),
		CASE(test_gauges),
		CASE(test_outside_of_windows),
		CASE(test_a_second_recording),
		CASE(test_an_idle_collector_is_woken),
		CASE(test_threads_lose_nothing),
		CASE(test_additions_know_their_scope),
		CASE(test_scopes_without_additions),
		CASE(test_a_full_ring_keeps_sums),
		CASE(test_threads_in_scopes_lose_nothing),
		CASE(test_additions_after_a_fork),
		CASE(test_ids_that_are_not_known_to_be_open),
		CASE(test_ids_end_with_their_thread),
		CASE(test_too_many),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	free(samples);
	free(defined);
	free(additions);
	free(rows);
	return failed;
}
