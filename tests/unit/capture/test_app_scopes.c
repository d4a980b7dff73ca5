/* Scopes and marks of pitot/scope.h, from the calls to rows in a recording. Runs under TSan too. */
#include "unit/capture/nvtx_fixture.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "capture/nvtx/nvtx_event.h"
#include "pitot/pitot.h"

#define SCOPES NVTX_DOMAIN_SCOPES
#define IN_HANDLERS "NVTX and scope calls in signal handlers that interrupted an NVTX call"

static uint16_t *level = NULL;

static int begin_scopes(void **state)
{
	level = &nvtx_thread.levels[SCOPES];
	*level = 0;
	return begin(state);
}

static void assert_scope(size_t i, enum nvtx_kind kind, int expected, const char *text)
{
	assert_row(i, kind, SCOPES, text);
	assert_int_equal(HAS(&rows[i], nvtx, level), expected >= 0);
	if (expected >= 0)
		assert_int_equal(rows[i].level, expected);
	assert_false(HAS(&rows[i], nvtx, category));
}

static void assert_domain_once(void)
{
	size_t count, found = 0;
	struct row_nvtx_domain *domains = captured_rows(captured, TABLE_nvtx_domain, &count);

	for (size_t i = 0; i < count; i++)
		if (domains[i].id == SCOPES) {
			assert_string_equal(captured_text(captured, domains[i].name), "pitot");
			found++;
		}
	assert_int_equal(found, 1);
	free(domains);
}

/* Runs first, in a process that has no name and no recording. */
static void test_the_very_first(void **state)
{
	(void)state;
	level = &nvtx_thread.levels[SCOPES];
	pitot_scope_begin("nobody records this");
	pitot_scope_begin_name(1);
	pitot_scope_begin_runs("nor this", 2, 1);
	pitot_scope_carry(0);
	assert_int_equal(*level, 4);
	for (int i = 0; i < 5; i++)
		pitot_scope_end();
	assert_int_equal(*level, 0);
	assert_null(ring_of_thread);
	assert_int_equal(nvtx_names_count(), 0);
	nvtx_source.start(&(struct source_start){ .open = true });
	pitot_scope_begin("this is recorded");
	assert_int_equal(nvtx_names_count(), 1);
	assert_int_equal(ring_available(ring_get()), 1);
	pitot_scope_end();
}

static void test_scopes_nest(void **state)
{
	uint32_t name = pitot_name("by number");

	(void)state;
	drain(captured->writer);
	assert_int_equal(pitot_name("by number"), name);
	assert_int_not_equal(pitot_name("by another"), name);
	pitot_scope_begin("outer");
	pitot_scope_begin_name(name);
	pitot_scope_begin_runs("runs", 100, 3);
	pitot_scope_end();
	pitot_mark("halfway");
	pitot_scope_end();
	pitot_scope_begin("outer");
	pitot_scope_end();
	pitot_scope_end();
	assert_int_equal(ring_available(ring_get()), 8 + 2); /* a mark has a text */
	pitot_scope_end(); /* nothing is open */
	assert_int_equal(ring_available(ring_get()), 10);
	assert_int_equal(nvtx.push_a("a range of NVTX has its own levels"), 0);
	nvtx.pop();
	read_rows();
	assert_int_equal(row_count, 11);
	assert_scope(0, nvtx_kind_push, 0, "outer");
	assert_scope(1, nvtx_kind_push, 1, "by number");
	assert_scope(2, nvtx_kind_push, 2, "runs");
	assert_scope(3, nvtx_kind_pop, 2, "(none)");
	assert_scope(4, nvtx_kind_mark, -1, "halfway");
	assert_scope(5, nvtx_kind_pop, 1, "(none)");
	assert_scope(6, nvtx_kind_push, 1, "outer");
	assert_scope(7, nvtx_kind_pop, 1, "(none)");
	assert_scope(8, nvtx_kind_pop, 0, "(none)");
	assert_row(9, nvtx_kind_push, 0, "a range of NVTX has its own levels");
	for (size_t i = 0; i < row_count; i++) {
		assert_int_equal(HAS(&rows[i], nvtx, payload), i == 2);
		assert_false(HAS(&rows[i], nvtx, range));
		assert_true(i == 0 || rows[i].time_ns >= rows[i - 1].time_ns);
	}
	assert_int_equal(rows[2].payload_kind, nvtx_payload_runs);
	assert_true(rows[2].payload == (UINT64_C(3) << 32 | 100));
	assert_domain_once();
}

static void test_names_of_all_kinds(void **state)
{
	static char text[65537];
	static const char bytes[] = "\x80\xff\xfe\x01 \xf0\x9f";
	uint32_t number;

	(void)state;
	memset(text, 'n', sizeof(text) - 1);
	pitot_scope_begin(NULL);
	pitot_scope_begin("");
	pitot_scope_begin(bytes);
	for (size_t length = 255; length <= 258; length++) /* from a number to a text in the ring */
		pitot_scope_begin(text + 65536 - length);
	pitot_scope_begin_runs(text + 65536 - 300, 7, 0);
	pitot_scope_begin_name(0);
	pitot_scope_begin_name(UINT32_MAX);
	pitot_scope_begin_name(nvtx_names_number(nvtx2.domain_a("no name")) + 1);
	pitot_scope_begin(text);
	pitot_mark(text);
	pitot_mark(NULL);
	number = pitot_name(text);
	pitot_scope_begin_name(number);
	assert_int_not_equal(number, 0);
	assert_int_equal(pitot_name(NULL), 0);
	read_rows();
	assert_int_equal(row_count, 15);
	assert_scope(0, nvtx_kind_push, 0, "(none)");
	assert_scope(1, nvtx_kind_push, 1, "");
	assert_scope(2, nvtx_kind_push, 2, bytes);
	for (int i = 3; i < 7; i++)
		assert_scope((size_t)i, nvtx_kind_push, i, text + 65536 - 255 - (i - 3));
	assert_scope(7, nvtx_kind_push, 7, text + 65536 - 300);
	assert_int_equal(rows[7].payload, 7);
	for (int i = 8; i < 11; i++)
		assert_scope((size_t)i, nvtx_kind_push, i, "(none)");
	assert_scope(11, nvtx_kind_push, 11, text + 65536 - RING_TEXT_MAX);
	assert_scope(12, nvtx_kind_mark, -1, text + 65536 - RING_TEXT_MAX);
	assert_scope(13, nvtx_kind_mark, -1, "(none)");
	assert_scope(14, nvtx_kind_push, 12, text + 65536 - RING_TEXT_MAX);
	assert_int_equal(loss("truncated texts of NVTX and scopes"), 3);
}

/* --- tokens --- */

static uint64_t tokens[2];

static void *carry_on(void *unused)
{
	(void)unused;
	assert_int_equal(pitot_scope_token(), 0);
	pitot_scope_carry(tokens[0]);
	assert_true(pitot_scope_token() == tokens[0]); /* it is the same scope */
	pitot_scope_begin("within");
	pitot_scope_end();
	pitot_scope_end();
	pitot_scope_carry(tokens[1]);
	pitot_scope_end();
	return NULL;
}

static void test_other_threads_carry_scopes_on(void **state)
{
	/* A long name has no number to carry on. */
	static const char *const names[] = { "work",   "within", "(none)",
					     "(none)", "(none)", "(none)" };
	char long_name[300];
	pthread_t thread;
	uint64_t again;

	(void)state;
	memset(long_name, 'l', sizeof(long_name) - 1);
	long_name[sizeof(long_name) - 1] = '\0';
	assert_int_equal(pitot_scope_token(), 0);
	pitot_scope_begin("work");
	tokens[0] = pitot_scope_token();
	assert_true(pitot_scope_token() == tokens[0]);
	pitot_scope_end();
	pitot_scope_begin("work"); /* another time */
	again = pitot_scope_token();
	assert_true(again && again != tokens[0]);
	pitot_scope_begin("a sibling of the next");
	pitot_scope_end();
	pitot_scope_begin(long_name);
	tokens[1] = pitot_scope_token();
	assert_true(tokens[1] && tokens[1] != again);
	pthread_create(&thread, NULL, carry_on, NULL);
	pthread_join(thread, NULL);
	pitot_scope_end();
	pitot_scope_end();
	read_rows();
	assert_int_equal(row_count, 11 + 6);
	assert_scope(1, nvtx_kind_token, -1, "(none)");
	assert_true(HAS(&rows[1], nvtx, range) && rows[1].range == tokens[0]);
	assert_true(rows[4].kind == nvtx_kind_token && rows[4].range == again);
	assert_true(rows[8].kind == nvtx_kind_token && rows[8].range == tokens[1]);
	for (size_t i = 9; i < 15; i++) {
		bool pushes = i == 9 || i == 10 || i == 13;

		assert_string_equal(text_of(&rows[i]), names[i - 9]);
		assert_int_equal(rows[i].kind, pushes ? nvtx_kind_push : nvtx_kind_pop);
		assert_int_equal(HAS(&rows[i], nvtx, range), i == 9 || i == 13);
		assert_false(HAS(&rows[i], nvtx, payload));
		assert_int_not_equal(rows[i].thread, rows[0].thread);
	}
	assert_true(rows[9].range == tokens[0] && rows[13].range == tokens[1]);
}

static void test_tokens_that_are_none(void **state)
{
	(void)state;
	pitot_scope_carry(0);
	pitot_scope_carry(5);
	pitot_scope_carry(UINT64_MAX); /* somebody's scope, whose name nobody knows */
	assert_int_equal(*level, 3);
	for (int i = 0; i < 3; i++)
		pitot_scope_end();
	assert_int_equal(*level, 0);
	for (unsigned i = 0; i < RING_SCOPES; i++)
		pitot_scope_begin("deep");
	pitot_scope_carry(pitot_scope_token());
	assert_int_equal(pitot_scope_token(), 0);
	pitot_scope_end();
	drain(captured->writer);
	source_window(&nvtx_source, false, NULL);
	assert_int_equal(pitot_scope_token(), 0);
	read_rows();
	assert_int_equal(row_count, 1 + 3 + RING_SCOPES + 1 + 2);
	assert_string_equal(text_of(&rows[row_count - 2]), "deep");
	assert_true(rows[row_count - 2].range == rows[row_count - 3].range);
	assert_scope(0, nvtx_kind_push, 2, "(none)");
	assert_true(rows[0].range == UINT64_MAX);
	for (int i = 1; i < 4; i++)
		assert_scope((size_t)i, nvtx_kind_pop, 3 - i, "(none)");
}

static void *leave_one_open(void *unused)
{
	pitot_scope_begin("of a thread that is gone");
	return unused;
}

static void *name_an_unseen_one(void *unused)
{
	source_window(&nvtx_source, false, NULL);
	pitot_scope_begin("not recorded");
	source_window(&nvtx_source, true, NULL);
	tokens[0] = pitot_scope_token();
	return unused;
}

/* A thread that gets the ring of another one does not get its scopes. */
static void test_a_ring_that_is_handed_on(void **state)
{
	pthread_t thread;

	(void)state;
	pthread_create(&thread, NULL, leave_one_open, NULL);
	pthread_join(thread, NULL);
	drain(captured->writer);
	pthread_create(&thread, NULL, name_an_unseen_one, NULL);
	pthread_join(thread, NULL);
	assert_true(tokens[0] != 0);
	pitot_scope_carry(tokens[0]);
	read_rows();
	assert_int_equal(row_count, 3);
	assert_string_equal(text_of(&rows[2]), "(none)");
}

static void test_tokens_of_a_full_ring(void **state)
{
	uint64_t lost = atomic_load(&ring_get()->lost);

	(void)state;
	pitot_scope_begin("full");
	while (atomic_load(&ring_get()->lost) == lost)
		pitot_mark(NULL);
	assert_int_equal(pitot_scope_token(), 0);
	drain(captured->writer);
	assert_true(pitot_scope_token() != 0);
	assert_int_equal(ring_available(ring_get()), 1);
}

static void test_deeper_than_can_be_counted(void **state)
{
	(void)state;
	*level = UINT16_MAX;
	pitot_scope_begin("deepest");
	pitot_scope_carry(0);
	assert_int_equal(*level, UINT16_MAX);
}

/* --- the moment --- */

static void *without_recording(void *unused)
{
	(void)unused;
	pitot_scope_begin("nobody records");
	pitot_scope_begin_name(1);
	pitot_scope_begin_runs("nobody", 1, 1);
	pitot_scope_carry(UINT64_MAX);
	pitot_mark("nobody");
	for (int i = 0; i < 5; i++)
		pitot_scope_end();
	assert_null(ring_of_thread);
	assert_int_equal(nvtx_thread.levels[SCOPES], 0);
	return NULL;
}

static void test_outside_of_windows(void **state)
{
	uint32_t names = nvtx_names_count();
	pthread_t thread;

	(void)state;
	source_window(&nvtx_source, false, NULL);
	pthread_create(&thread, NULL, without_recording, NULL);
	pthread_join(thread, NULL);
	assert_int_equal(nvtx_names_count(), names);
	pitot_scope_begin("before");
	source_window(&nvtx_source, true, NULL);
	pitot_scope_begin("inside");
	source_window(&nvtx_source, false, NULL);
	pitot_scope_end();
	pitot_scope_begin("between");
	source_window(&nvtx_source, true, NULL);
	pitot_scope_end();
	pitot_scope_end(); /* of a scope that nobody saw begin */
	read_rows();
	assert_int_equal(row_count, 3);
	assert_scope(0, nvtx_kind_push, 1, "inside");
	assert_scope(1, nvtx_kind_pop, 1, "(none)");
	assert_scope(2, nvtx_kind_pop, 0, "(none)");
}

static void test_in_the_child_of_a_fork(void **state)
{
	(void)state;
	pitot_scope_begin("of the parent");
	pitot_scope_token();
	rings_after_fork();
	nvtx_source.after_fork();
	pitot_scope_begin("not recorded");
	pitot_scope_end();
	assert_int_equal(pitot_scope_token(), 0);
	source_window(&nvtx_source, true, NULL);
	pitot_scope_end();
	pitot_scope_begin("of the child");
	pitot_scope_end();
	read_rows();
	assert_int_equal(row_count, 3);
	assert_scope(0, nvtx_kind_pop, 0, "(none)");
	assert_scope(1, nvtx_kind_push, 0, "of the child");
}

/* Another recording has the domain, too. */
static void test_a_second_recording(void **state)
{
	(void)state;
	pitot_scope_begin("in both");
	read_rows();
	assert_domain_once();
	captured_free(captured);
	captured = captured_begin();
	nvtx_source.begin(captured->writer, NULL);
	pitot_scope_end();
	read_rows();
	assert_int_equal(row_count, 1);
	assert_domain_once();
}

static void test_errno_stays(void **state)
{
	(void)state;
	rings_after_fork();
	errno = 12345;
	pitot_scope_begin("errno");
	pitot_scope_token();
	pitot_name("another name for errno");
	pitot_mark("errno");
	pitot_scope_end();
	assert_int_equal(errno, 12345);
}

/* --- signal handlers --- */

static volatile sig_atomic_t signals;

static void on_signal(int number)
{
	(void)number;
	signals++;
	pitot_scope_begin("from a handler");
	pitot_scope_end();
}

static void test_calls_in_signal_handlers(void **state)
{
	struct sigaction act = { .sa_handler = on_signal, .sa_flags = SA_RESTART }, before;
	struct itimerval timer = { { 0, 200 }, { 0, 200 } }, none = { { 0, 0 }, { 0, 0 } };
	uint64_t scopes = 0, lost = atomic_load(&ring_get()->lost);

	(void)state;
	sigaction(SIGALRM, &act, &before);
	setitimer(ITIMER_REAL, &timer, NULL);
	while (signals < 300) {
		char name[32];

		snprintf(name, sizeof(name), "name %d", (int)(scopes % 1000));
		pitot_scope_begin(name);
		pitot_scope_end();
		assert_int_equal(*level, 0);
		if (++scopes % 1000 == 0)
			drain(captured->writer);
	}
	setitimer(ITIMER_REAL, &none, NULL);
	sigaction(SIGALRM, &before, NULL);
	pitot_scope_begin("counts what was refused");
	assert_int_equal(atomic_load(&ring_get()->lost), lost);
	read_rows();
	assert_int_equal(row_count + loss(IN_HANDLERS), 2 * (scopes + (uint64_t)signals) + 1);
}

/* --- many --- */

#define THREADS 1000
#define SCOPES_EACH 10

static pthread_barrier_t all_are_here;
static atomic_uint_fast64_t lost_by_threads;

static void *make_scopes(void *argument)
{
	char name[32];

	pthread_barrier_wait(&all_are_here);
	for (int i = 0; i < SCOPES_EACH; i++) {
		snprintf(name, sizeof(name), "scope %u",
			 ((unsigned)(uintptr_t)argument + (unsigned)i) % 50);
		pitot_scope_begin(name);
		pitot_scope_end();
	}
	pitot_scope_begin("still open when the thread ends");
	if (ring_of_thread)
		atomic_fetch_add(&lost_by_threads, atomic_load(&ring_of_thread->lost));
	pthread_barrier_wait(&all_are_here);
	return NULL;
}

static void test_a_thousand_threads(void **state)
{
	static pthread_t threads[THREADS];
	uint64_t pushes = 0, names = nvtx_names_count();
	pthread_attr_t attributes;
	uint64_t refused;

	(void)state;
	rings_refused(&refused);
	pthread_barrier_init(&all_are_here, NULL, THREADS + 1);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 128 << 10);
	for (uintptr_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], &attributes, make_scopes, (void *)i),
				 0);
	pthread_barrier_wait(&all_are_here);
	drain(captured->writer);
	pthread_barrier_wait(&all_are_here);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	pthread_attr_destroy(&attributes);
	pthread_barrier_destroy(&all_are_here);
	read_rows();
	assert_int_equal(row_count + rings_refused(&refused) + atomic_load(&lost_by_threads),
			 THREADS * (2 * SCOPES_EACH + 1));
	for (size_t i = 0; i < row_count; i++)
		pushes += rows[i].kind == nvtx_kind_push && HAS(&rows[i], nvtx, message);
	assert_true(pushes > row_count / 2);
	assert_int_equal(nvtx_names_count(), names + 51);
}

/* Last: the names are there to stay. */
static void test_names_without_end(void **state)
{
	uint64_t scopes = 0;
	char name[32];
	void *domain;

	(void)state;
	for (; nvtx_names_count() < NVTX_NAMES_MAX / 2; scopes++) {
		snprintf(name, sizeof(name), "step %d", (int)scopes);
		pitot_scope_begin(name);
		pitot_scope_end();
		if (scopes % 8192 == 0)
			drain(captured->writer);
	}
	pitot_scope_begin("one too many");
	pitot_scope_begin("step 1"); /* is known */
	assert_int_equal(nvtx_names_count(), NVTX_NAMES_MAX / 2);
	domain = nvtx2.domain_a("NVTX has room still");
	assert_non_null(domain);
	assert_true(domain_number(domain) > SCOPES);
	read_rows();
	assert_int_equal(row_count, 2 * scopes + 2);
	snprintf(name, sizeof(name), "step %d", (int)scopes - 1);
	assert_scope(row_count - 4, nvtx_kind_push, 0, name);
	assert_scope(row_count - 2, nvtx_kind_push, 0, "one too many");
	assert_scope(row_count - 1, nvtx_kind_push, 1, "step 1");
	assert_int_equal(loss("names of NVTX and scopes beyond the limit"), 0);
}

/* --- the macro --- */

static int leave_by_return(void)
{
	PITOT_SCOPE("left by return")
	{
		PITOT_SCOPE("in one line") return *level;
	}
	return -1;
}

static void test_blocks(void **state)
{
	int rounds = 0;

	(void)state;
	assert_int_equal(leave_by_return(), 2);
	assert_int_equal(*level, 0);
	for (int i = 0; i < 2; i++)
		PITOT_SCOPE("left by break, and by continue")
		{
			rounds++;
			assert_int_equal(*level, 1);
			if (i)
				break;
			continue;
		}
	assert_int_equal(rounds, 2);
	PITOT_SCOPE("left by goto") goto out;
	fail();
out:
	assert_int_equal(*level, 0);
	read_rows();
	assert_int_equal(row_count, 10);
	assert_scope(1, nvtx_kind_push, 1, "in one line");
	assert_scope(3, nvtx_kind_pop, 0, "(none)");
	assert_scope(8, nvtx_kind_push, 0, "left by goto");
}

#undef CASE
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin_scopes, finish)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_very_first),
		CASE(test_scopes_nest),
		CASE(test_names_of_all_kinds),
		CASE(test_other_threads_carry_scopes_on),
		CASE(test_tokens_that_are_none),
		CASE(test_a_ring_that_is_handed_on),
		CASE(test_tokens_of_a_full_ring),
		CASE(test_deeper_than_can_be_counted),
		CASE(test_outside_of_windows),
		CASE(test_in_the_child_of_a_fork),
		CASE(test_a_second_recording),
		CASE(test_errno_stays),
		CASE(test_calls_in_signal_handlers),
		CASE(test_a_thousand_threads),
		CASE(test_blocks),
		CASE(test_names_without_end),
	};
	int failed = cmocka_run_group_tests(tests, NULL, NULL);

	free(rows);
	return failed;
}
