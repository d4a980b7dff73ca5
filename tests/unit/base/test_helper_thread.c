/* Threads of ours: known when they are started, and their CPU time stays counted. */
#include "base/helper_thread.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/clock.h"
#include "support/cmocka_tests.h"

#define STACK_BYTES (256u << 10)
#define STARTS 60

struct helper_state {
	atomic_uint tid;
	atomic_bool may_end;
	uint64_t burn_ns;
};

static void wait_a_little(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

static void *help(void *argument)
{
	struct helper_state *s = argument;

	while (clock_read_ns(CLOCK_THREAD_CPUTIME_ID) < s->burn_ns)
		;
	atomic_store(&s->tid, (unsigned)syscall(SYS_gettid));
	while (!atomic_load(&s->may_end))
		wait_a_little();
	return NULL;
}

static void start(struct helper_state *s)
{
	assert_int_equal(helper_thread_start(help, s, STACK_BYTES), 0);
}

static void end(struct helper_state *s)
{
	atomic_store(&s->may_end, true);
	while (helper_threads())
		wait_a_little();
}

static void test_a_thread_is_known_until_it_ends(void **state)
{
	struct helper_state s = { .burn_ns = 0 };

	(void)state;
	assert_int_equal(helper_threads(), 0);
	start(&s);
	assert_int_equal(helper_threads(), 1);
	while (!atomic_load(&s.tid))
		wait_a_little();
	assert_true(helper_thread_is(s.tid));
	assert_false(helper_thread_is((uint32_t)syscall(SYS_gettid)));
	end(&s);
	assert_false(helper_thread_is(s.tid));
}

/* The start waits for that, 10 ms at most, which a busy machine may exceed: so it is counted. */
static void test_a_thread_is_known_when_its_start_returns(void **state)
{
	unsigned known = 0;

	(void)state;
	for (int i = 0; i < STARTS; i++) {
		struct helper_state s = { .burn_ns = 0 };
		uint64_t none = helper_threads_cpu_ns(), now;

		start(&s);
		now = helper_threads_cpu_ns(); /* grows with the threads that are known */
		known += now > none;
		end(&s);
	}
	assert_in_range(known, STARTS / 2, STARTS);
}

static void test_cpu_time_outlives_its_thread(void **state)
{
	struct helper_state s = { .burn_ns = 20 * NS_PER_MS };
	uint64_t before = helper_threads_cpu_ns(), running, after;

	(void)state;
	start(&s);
	while (!atomic_load(&s.tid))
		wait_a_little();
	running = helper_threads_cpu_ns();
	assert_in_range(running - before, s.burn_ns, UINT64_MAX / 2);
	end(&s);
	after = helper_threads_cpu_ns();
	assert_in_range(after, running, UINT64_MAX);
	assert_in_range(helper_threads_cpu_ns() - after, 0, 0);
	helper_threads_after_fork();
	assert_int_equal(helper_threads_cpu_ns(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_thread_is_known_until_it_ends),
		cmocka_unit_test(test_a_thread_is_known_when_its_start_returns),
		cmocka_unit_test(test_cpu_time_outlives_its_thread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
