/* test_launch_owner.c: who may measure (launch_owner.h). */
#include "capture/engines/launch_owner.h"

#include <pthread.h>

#include "capture/core/pause.h"
#include "support/cmocka_tests.h"

#define A ((CUcontext)1)

static void *call(void *function)
{
	return ((bool (*)(void))function)() ? function : NULL;
}

/* Returns what the function returns on another thread. */
static bool elsewhere(bool (*function)(void))
{
	pthread_t thread;
	void *result;

	assert_int_equal(pthread_create(&thread, NULL, call, (void *)function), 0);
	pthread_join(thread, &result);
	return result == (void *)function;
}

static void begin(CUcontext context)
{
	assert_true(launch_owner_try());
	launch_owner_begin(context);
}

static bool is_free(void)
{
	return launch_owner_beside_flushes() && (launch_owner_release(), true);
}

static void test_flushes(void **state)
{
	(void)state;
	assert_true(launch_owner_hold());
	assert_true(launch_owner_is_me());
	assert_false(elsewhere(is_free));
	launch_owner_resume();
	assert_false(launch_owner_is_me());
	assert_true(is_free());
	begin(A);
	assert_false(elsewhere(launch_owner_hold));
	launch_owner_release();
	assert_true(is_free());
}

static void *end_flush(void *unused)
{
	pause_ns(NS_PER_MS);
	launch_owner_release();
	return unused;
}

/* A flush that began when the last one had been waited for is waited for as well. */
static void test_flushes_one_after_the_other(void **state)
{
	pthread_t thread;

	(void)state;
	atomic_store(&launch_owner, LAUNCH_OWNER_FLUSH | 1);
	assert_int_equal(pthread_create(&thread, NULL, end_flush, NULL), 0);
	assert_true(is_free());
	pthread_join(thread, NULL);
	atomic_store(&launch_owner, 1); /* another launch is measured */
	assert_false(is_free());
	launch_owner_release();
}

static bool wait_while_cancelled(void)
{
	pthread_cancel(pthread_self());
	launch_owner_beside_flushes();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return true;
}

/* A thread that is cancelled stops at a point of the program's, not in a launch. */
static void test_cancelled_threads(void **state)
{
	(void)state;
	assert_true(launch_owner_hold());
	assert_true(elsewhere(wait_while_cancelled));
	launch_owner_resume();
}

static void test_whose_it_is(void **state)
{
	(void)state;
	assert_true(launch_owner_try());
	assert_true(launch_owner_is_me());
	assert_false(elsewhere(launch_owner_is_me));
	assert_false(elsewhere(launch_owner_try));
	launch_owner_release();
	assert_false(launch_owner_is_me());
	assert_true(elsewhere(launch_owner_try));
	launch_owner_take_over();
	assert_true(launch_owner_is_me());
	launch_owner_release();
	begin(A);
	assert_ptr_equal(launch_owner_context(), A);
	launch_owner_release();
	assert_null(launch_owner_context());
	begin(A);
	launch_owner_after_fork();
	assert_false(launch_owner_exists());
	assert_null(launch_owner_context());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_flushes),
		cmocka_unit_test(test_flushes_one_after_the_other),
		cmocka_unit_test(test_cancelled_threads),
		cmocka_unit_test(test_whose_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
