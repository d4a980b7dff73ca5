/* Work that returns in time, too late, and after everybody has left. */
#include "base/timed_work.h"

#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "support/cmocka_tests.h"

struct job {
	atomic_bool may_return, has_begun;
	atomic_uint released;
};

static void sleep_ms(long ms)
{
	nanosleep(&(struct timespec){ .tv_nsec = ms * 1000000 }, NULL);
}

static void run(void *context)
{
	struct job *job = context;

	atomic_store(&job->has_begun, true);
	while (!atomic_load(&job->may_return))
		sleep_ms(1);
}

static void release(void *context)
{
	struct job *job = context;

	atomic_fetch_add(&job->released, 1);
}

static void work_that_returns(void **state)
{
	struct job job = { .may_return = true };
	struct timed_work *w = timed_work_start(run, release, &job);

	(void)state;
	assert_non_null(w);
	assert_true(timed_work_await(w, UINT64_MAX / 2));
	assert_true(job.has_begun);
	assert_ptr_equal(timed_work_context(w), &job);
	assert_int_equal(job.released, 0);
	assert_true(timed_work_await(w, 0)); /* it has returned */
	timed_work_leave(w);
	assert_int_equal(job.released, 1);
	timed_work_leave(NULL);
}

/* The thread releases the context. */
static void work_that_hangs(void **state)
{
	struct job job = { .may_return = false };
	struct timed_work *w = timed_work_start(run, release, &job);
	uint64_t begun_ns = clock_monotonic_ns();

	(void)state;
	assert_non_null(w);
	assert_false(timed_work_await(w, begun_ns + 20 * NS_PER_MS));
	assert_true(clock_monotonic_ns() >= begun_ns + 20 * NS_PER_MS);
	timed_work_leave(w);
	assert_int_equal(job.released, 0);
	atomic_store(&job.may_return, true);
	while (!atomic_load(&job.released))
		sleep_ms(1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_that_returns),
		cmocka_unit_test(work_that_hangs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
