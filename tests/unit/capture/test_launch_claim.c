/* test_launch_claim.c: who may measure (launch_claim.h). */
#include "capture/engines/launch_claim.h"

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
	assert_true(launch_claim());
	launch_claim_begin(context);
}

static bool is_free(void)
{
	return launch_claim_beside_flushes() && (launch_claim_release(), true);
}

static void test_flushes(void **state)
{
	(void)state;
	assert_true(launch_claim_hold());
	assert_true(launch_claim_is_mine());
	assert_false(elsewhere(is_free));
	launch_claim_let();
	assert_false(launch_claim_is_mine());
	assert_true(is_free());
	begin(A);
	assert_false(elsewhere(launch_claim_hold));
	launch_claim_release();
	assert_true(is_free());
}

static void *end_flush(void *unused)
{
	pause_ns(NS_PER_MS);
	launch_claim_release();
	return unused;
}

/* A flush that began when the last one had been waited for is waited for as well. */
static void test_flushes_one_after_the_other(void **state)
{
	pthread_t thread;

	(void)state;
	atomic_store(&launch_claim_owner, LAUNCH_CLAIM_FLUSH | 1);
	assert_int_equal(pthread_create(&thread, NULL, end_flush, NULL), 0);
	assert_true(is_free());
	pthread_join(thread, NULL);
	atomic_store(&launch_claim_owner, 1); /* another launch is measured */
	assert_false(is_free());
	launch_claim_release();
}

static bool wait_while_cancelled(void)
{
	pthread_cancel(pthread_self());
	launch_claim_beside_flushes();
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return true;
}

/* A thread that is cancelled stops at a point of the program's, not in a launch. */
static void test_cancelled_threads(void **state)
{
	(void)state;
	assert_true(launch_claim_hold());
	assert_true(elsewhere(wait_while_cancelled));
	launch_claim_let();
}

static void test_whose_it_is(void **state)
{
	(void)state;
	assert_true(launch_claim());
	assert_true(launch_claim_is_mine());
	assert_false(elsewhere(launch_claim_is_mine));
	assert_false(elsewhere(launch_claim));
	launch_claim_release();
	assert_false(launch_claim_is_mine());
	assert_true(elsewhere(launch_claim));
	launch_claim_take_over();
	assert_true(launch_claim_is_mine());
	launch_claim_release();
	begin(A);
	assert_ptr_equal(launch_claim_context(), A);
	launch_claim_release();
	assert_null(launch_claim_context());
	begin(A);
	launch_claim_after_fork();
	assert_false(launch_claim_exists());
	assert_null(launch_claim_context());
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
