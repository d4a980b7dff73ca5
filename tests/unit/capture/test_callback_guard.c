/* test_callback_guard.c: threads in callbacks that call CUPTI, and who waits for them. */
#include "capture/cuda/hub/callback_guard.h"

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/cmocka_tests.h"

#define ROUNDS 20000

static void test_it_is_empty_when_the_last_one_has_left(void **state)
{
	struct ring *r = ring_get();

	(void)state;
	assert_non_null(r);
	assert_true(callback_guard_enter(r));
	assert_false(callback_guard_is_empty());
	callback_guard_close();
	assert_false(callback_guard_is_empty());
	callback_guard_leave(r);
	assert_true(callback_guard_is_empty());
	assert_false(callback_guard_enter(r));
	assert_true(callback_guard_is_empty());
	assert_false(callback_guard_enter(NULL));
	callback_guard_open();
	assert_true(callback_guard_enter(NULL) && callback_guard_enter(r));
	callback_guard_leave(r);
	callback_guard_leave(NULL);
}

static void test_a_child_has_nobody_inside(void **state)
{
	(void)state;
	assert_true(callback_guard_enter(ring_get()));
	rings_after_fork();
	assert_true(callback_guard_is_empty());
}

/* What must not change while a thread is inside. */
static atomic_uint ended;
static atomic_bool over;

static void *call(void *wrong)
{
	struct ring *r = ring_get();

	while (!atomic_load(&over)) {
		unsigned before;

		if (!callback_guard_enter(r)) {
			sched_yield();
			continue;
		}
		before = atomic_load_explicit(&ended, memory_order_relaxed);
		sched_yield();
		if (atomic_load_explicit(&ended, memory_order_relaxed) != before)
			atomic_fetch_add((atomic_uint *)wrong, 1);
		callback_guard_leave(r);
	}
	return NULL;
}

static void test_nothing_ends_under_a_callback(void **state)
{
	pthread_t threads[2];
	atomic_uint wrong = 0;

	(void)state;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, call, &wrong), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		callback_guard_close();
		while (!callback_guard_is_empty())
			sched_yield();
		atomic_fetch_add(&ended, 1);
		callback_guard_open();
	}
	atomic_store(&over, true);
	for (unsigned i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&wrong), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_it_is_empty_when_the_last_one_has_left),
		cmocka_unit_test(test_nothing_ends_under_a_callback),
		cmocka_unit_test(test_a_child_has_nobody_inside),
	};

	syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
