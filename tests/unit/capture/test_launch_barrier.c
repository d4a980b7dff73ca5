/* test_launch_barrier.c: other threads' launches stay out of a measured one (launch_barrier.h). */
#include "capture/engines/launch_barrier.h"
#include "capture/core/vendor_thread.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include "capture/engines/launch_owner.h"
#include "support/cmocka_tests.h"

static bool expects_long;

void vendor_thread_expect_long(bool does)
{
	expects_long = does;
}

static struct other {
	pthread_t thread;
	atomic_bool inside, leave, waited_in_vain;
} other;

static void *call(void *unused)
{
	if (!launch_barrier_enter(7))
		other.waited_in_vain = true;
	other.inside = true;
	while (!other.leave)
		sched_yield();
	launch_barrier_leave(7);
	other.inside = false;
	return unused;
}

/* A call begins on another thread, and is inside at once unless the gate is closed. */
static void begin_call(void)
{
	other.inside = other.leave = other.waited_in_vain = false;
	assert_int_equal(pthread_create(&other.thread, NULL, call, NULL), 0);
}

static void wait_until_inside(void)
{
	while (!other.inside)
		sched_yield();
}

static void end_call(void)
{
	other.leave = true;
	pthread_join(other.thread, NULL);
}

/* This thread measures a launch, which is a call as well. */
static void begin_measured(void)
{
	launch_barrier_enter(1);
	assert_true(launch_owner_try());
	assert_true(launch_barrier_close());
}

static void end_measured(void)
{
	launch_owner_release();
	launch_barrier_leave(1);
}

static void test_calls_wait(void **state)
{
	(void)state;
	begin_measured();
	begin_call();
	for (int i = 0; i < 100; i++)
		sched_yield();
	assert_false(other.inside);
	assert_false(launch_barrier_was_passed());
	end_measured();
	wait_until_inside();
	end_call();
}

/* The owner's own calls go on. */
static void test_calls_of_the_owner(void **state)
{
	(void)state;
	begin_measured();
	launch_barrier_enter(2);
	launch_barrier_leave(2);
	launch_barrier_enter(3);
	assert_false(launch_barrier_was_passed());
	end_measured();
	launch_barrier_leave(3);
}

/* A call that is long underway keeps the gate open, and so do two. */
static void test_a_call_underway(void **state)
{
	(void)state;
	begin_call();
	wait_until_inside();
	assert_true(launch_owner_try());
	assert_false(launch_barrier_close());
	launch_owner_release();
	launch_barrier_enter(1);
	assert_true(launch_owner_try());
	assert_false(launch_barrier_close());
	launch_owner_release();
	launch_barrier_leave(1);
	end_call();
	begin_measured();
	end_measured();
}

/* Its end was not seen; the thread's next call is counted once, and the end of an older one not. */
static void test_a_call_without_an_end(void **state)
{
	(void)state;
	launch_barrier_enter(1);
	launch_barrier_enter(2);
	launch_barrier_leave(1);
	begin_call();
	wait_until_inside();
	assert_true(launch_owner_try());
	assert_false(launch_barrier_close());
	end_call();
	assert_true(launch_barrier_close());
	launch_owner_release();
	launch_barrier_leave(2);
	launch_barrier_leave(2);
	assert_true(launch_owner_try());
	assert_true(launch_barrier_close());
	launch_owner_release();
}

static void *call_without_an_end(void *unused)
{
	launch_barrier_enter(7);
	return unused;
}

/* Its thread has ended, so nothing of it can be underway. */
static void test_a_thread_that_ends_in_a_call(void **state)
{
	(void)state;
	assert_int_equal(pthread_create(&other.thread, NULL, call_without_an_end, NULL), 0);
	pthread_join(other.thread, NULL);
	begin_measured();
	end_measured();
}

/* A recording began while callbacks of the previous one were disabled. */
static void test_an_end_in_an_earlier_recording(void **state)
{
	(void)state;
	begin_call();
	wait_until_inside();
	launch_barrier_use(false);
	launch_barrier_use(true);
	begin_measured();
	end_measured();
	/* Its end, if it is seen after all, ends none of this recording's. */
	launch_barrier_enter(1);
	end_call();
	begin_call();
	wait_until_inside();
	assert_true(launch_owner_try());
	assert_false(launch_barrier_close());
	launch_owner_release();
	end_call();
	launch_barrier_leave(1);
}

/* Kernels may wait for each other: the call goes on, and the launch has no values. */
static void test_a_call_that_waits_in_vain(void **state)
{
	uint64_t begun;

	(void)state;
	begin_measured();
	begun = clock_monotonic_ns();
	begin_call();
	wait_until_inside();
	assert_true(clock_monotonic_ns() - begun >= LAUNCH_BARRIER_WAIT_NS);
	assert_true(launch_barrier_was_passed());
	assert_true(other.waited_in_vain);
	end_call();
	/* The engine refuses to go on, so nobody waits again. */
	begun = clock_monotonic_ns();
	begin_call();
	wait_until_inside();
	assert_true(clock_monotonic_ns() - begun < LAUNCH_BARRIER_WAIT_NS);
	end_call();
	end_measured();
	assert_false(launch_barrier_was_passed());
	launch_barrier_use(true);
}

static void test_a_gate_that_is_not_used(void **state)
{
	(void)state;
	begin_measured();
	launch_barrier_use(false);
	begin_call();
	wait_until_inside();
	end_call();
	launch_barrier_use(true);
	end_measured();
}

static void test_a_child(void **state)
{
	(void)state;
	begin_call();
	wait_until_inside();
	launch_barrier_enter(1);
	launch_barrier_after_fork();
	launch_barrier_use(true);
	assert_true(launch_owner_try());
	assert_true(launch_barrier_close());
	launch_owner_release();
	launch_barrier_enter(7); /* for the one that leaves now */
	end_call();
}

/* Measuring one launch after the other does not keep another thread out. */
static void test_turns(void **state)
{
	uint64_t begun = clock_monotonic_ns();
	struct timespec pause = { .tv_nsec = 2 * (long)NS_PER_MS };

	(void)state;
	begin_measured();
	begin_call();
	while (!other.inside) {
		nanosleep(&pause, NULL);
		launch_owner_release();
		assert_true(launch_owner_try());
		(void)launch_barrier_close();
	}
	assert_true(clock_monotonic_ns() - begun < LAUNCH_BARRIER_WAIT_NS);
	assert_false(launch_barrier_was_passed());
	end_call();
	end_measured();
}

static atomic_bool measuring;
static atomic_uint together, measured;

static void *launch_and_measure(void *number)
{
	for (uint32_t i = 1; i <= 3000; i++) {
		launch_barrier_enter(i);
		if (i % 8 == 0 && launch_owner_try()) {
			if (launch_barrier_close()) {
				measuring = true;
				for (int k = 0; k < 20; k++)
					atomic_signal_fence(memory_order_seq_cst);
				measured++;
				measuring = false;
			}
			launch_owner_release();
		} else {
			together += measuring;
		}
		launch_barrier_leave(i);
	}
	return number;
}

static void test_many_threads(void **state)
{
	pthread_t threads[4];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, launch_and_measure, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(together, 0);
	assert_true(measured > 0);
	assert_true(launch_owner_try());
	assert_true(launch_barrier_close());
	launch_owner_release();
}

static void test_functions(void **state)
{
	(void)state;
	assert_true(launch_barrier_is_function("cuModuleLoadDataEx"));
	assert_true(launch_barrier_is_function("cuGraphInstantiateWithParams"));
	assert_true(launch_barrier_is_function("cuKernelGetFunction"));
	assert_false(launch_barrier_is_function("cuMemcpyHtoD_v2"));
	assert_false(launch_barrier_is_function("cuGraphCreate"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calls_wait),
		cmocka_unit_test(test_calls_of_the_owner),
		cmocka_unit_test(test_a_call_underway),
		cmocka_unit_test(test_a_call_without_an_end),
		cmocka_unit_test(test_a_thread_that_ends_in_a_call),
		cmocka_unit_test(test_an_end_in_an_earlier_recording),
		cmocka_unit_test(test_a_call_that_waits_in_vain),
		cmocka_unit_test(test_a_gate_that_is_not_used),
		cmocka_unit_test(test_turns),
		cmocka_unit_test(test_many_threads),
		cmocka_unit_test(test_functions),
		cmocka_unit_test(test_a_child),
	};

	launch_barrier_use(true);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
