/*
 * The program's own client of CUPTI beside sessions that come and go: threads of a client that does
 * all that it should not, while one launches and one opens and closes sessions. For ThreadSanitizer
 * above all; in any build nobody may wait for ever.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "capture/core/collector.h"
#include "capture/core/session.h"
#include "capture/core/vendor_thread.h"
#include "unit/capture/counting_sink.h"
#include "unit/capture/cuda_player.h"

#define CLIENT_THREADS 3
#define SESSIONS 6
#define ALONE "no other client of CUPTI"
#define CLIENT STANDINS "/libclient-hostile.so"

static struct settings shared = { .engine = SETTING_ENGINE_TRACE,
				  .cuda = true,
				  .graphs = SETTING_GRAPHS_NODE,
				  .own_profiler = SETTING_OWN_PROFILER_SHARE };

static struct {
	void (*step)(size_t index, size_t count, const char *function, unsigned site);
	void (*end)(void);
	void *library;
	struct counting_sink sinks[SESSIONS];
	uint32_t alone_text;
	atomic_uint alone; /* sessions that say that there was no client */
	atomic_bool over;
} self;

static void *be_a_client(void *unused)
{
	for (size_t i = 0; !atomic_load(&self.over); i++) {
		self.step(i, 1, NULL, 0);
		usleep(50);
	}
	return unused;
}

static void *launch(void *unused)
{
	while (!atomic_load(&self.over))
		cuda_player_play(0);
	return unused;
}

static void on_row(struct counting_sink *sink, enum table_id table, const void *row)
{
	const struct row_string *string = row;
	const struct row_capability *capability = row;

	(void)sink;
	if (table == TABLE_string && string->text.length == strlen(ALONE) &&
	    memcmp(string->text.data, ALONE, strlen(ALONE)) == 0)
		self.alone_text = string->id;
	if (table == TABLE_capability)
		atomic_fetch_add(&self.alone, capability->reason == self.alone_text);
}

static struct session *open_session(struct counting_sink *sink)
{
	struct session *s;

	self.alone_text = UINT32_MAX;
	memset(sink, 0, sizeof(*sink));
	counting_sink_init(sink);
	sink->on_row = on_row;
	s = session_open(&shared, &sink->sink, SESSION_BY_nvidia);
	assert_non_null(s);
	return s;
}

/* All of the client's calls are found, though libraries were gone over for a few of them before. */
static void test_a_session_after_one_that_kept_cupti(void **state)
{
	(void)state;
	shared.own_profiler = SETTING_OWN_PROFILER_KEEP;
	for (unsigned i = 0; i < 2; i++) {
		struct session *s = open_session(&self.sinks[i]);

		for (size_t step = 0; step < 100 && i; step++)
			self.step(step, 1, NULL, 0);
		if (i)
			self.end();
		session_close(&s);
		assert_int_equal(atomic_load(&self.alone), 1);
		shared.own_profiler = SETTING_OWN_PROFILER_SHARE;
	}
	atomic_store(&self.alone, 0);
}

/* What a session says of a client is about its own time. */
static void test_a_session_after_the_clients(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct session *s = open_session(&self.sinks[i]);

		for (size_t step = 0; step < 100 && !i; step++)
			self.step(step, 1, NULL, 0);
		cuda_player_play(0);
		if (!i)
			self.end();
		session_close(&s);
		assert_int_equal(atomic_load(&self.alone), i);
	}
}

/* The client has a clock of its own, so CUPTI is its own for good once it has been left to it. */
static void test_sessions_beside_a_hostile_client(void **state)
{
	struct session *s = open_session(&self.sinks[0]);
	pthread_t threads[CLIENT_THREADS + 1];

	(void)state;
	for (unsigned i = 0; i <= CLIENT_THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, i ? be_a_client : launch, NULL),
				 0);
	while (self.sinks[0].rows[TABLE_kernel] <
	       2 * cuda_player_records(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL))
		usleep(1000);
	for (unsigned i = 1; i < SESSIONS; i++) {
		session_close(&s);
		assert_true(self.sinks[i - 1].closed && !collector_running());
		s = open_session(&self.sinks[i]);
		usleep(100000);
	}
	atomic_store(&self.over, true);
	for (unsigned i = 0; i <= CLIENT_THREADS; i++)
		pthread_join(threads[i], NULL);
	session_close(&s);
	self.end();
}

/* Its callbacks are still there: it never said that it was done. */
static void test_a_client_that_is_unloaded(void **state)
{
	struct session *s = open_session(&self.sinks[0]);
	unsigned round;

	(void)state;
	for (size_t i = 0; i < 100; i++)
		self.step(i, 1, NULL, 0);
	round = vendor_thread_request(VENDOR_FLUSH);
	while (!vendor_thread_done(round))
		usleep(1000);
	assert_int_equal(dlclose(self.library), 0);
	assert_non_null(dlopen(CLIENT, RTLD_NOW | RTLD_NOLOAD));
	cuda_player_play(0);
	self.end();
	session_close(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_session_after_one_that_kept_cupti),
		cmocka_unit_test(test_a_session_after_the_clients),
		cmocka_unit_test(test_sessions_beside_a_hostile_client),
		cmocka_unit_test(test_a_client_that_is_unloaded), /* the last: it may be gone */
	};

	cuda_player_open(TAPES "/kinds.tape");
	self.library = dlopen(CLIENT, RTLD_NOW);
	if (!self.library)
		return 1;
	*(void **)&self.step = dlsym(self.library, "client_step");
	*(void **)&self.end = dlsym(self.library, "client_end");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
