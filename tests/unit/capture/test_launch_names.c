/*
 * Numbers of kernels' names: one for each address, another one after a module was unloaded, none
 * when there is no room, from several threads at the same time.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "capture/cuda/launch_names.h"

#define NAMES (AREA_LAUNCH_NAMES_MAX / 4)
#define THREADS 4

static char names[4 * AREA_LAUNCH_NAMES_MAX]; /* as addresses */

static int start(void **state)
{
	(void)state;
	launch_names_after_fork();
	return 0;
}

static void test_a_name_has_one_number(void **state)
{
	static bool seen[AREA_LAUNCH_NAMES_MAX];

	(void)state;
	assert_int_equal(launch_names_number(NULL), 0);
	for (unsigned i = 0; i < NAMES; i++) {
		unsigned number = launch_names_number(&names[i]);

		assert_true(number && number < AREA_LAUNCH_NAMES_MAX);
		assert_false(seen[number]);
		seen[number] = true;
	}
	for (unsigned i = 0; i < NAMES; i++)
		assert_true(seen[launch_names_number(&names[i])]);
	assert_int_equal(launch_names_number(NULL), 0);
}

static void test_an_unloaded_module(void **state)
{
	unsigned before = launch_names_number(names), after;

	(void)state;
	launch_names_module_unloaded();
	after = launch_names_number(names);
	assert_true(after && after != before);
	assert_int_equal(launch_names_number(names), after);
}

/* What has a number keeps it; of the rest, each call says that there is none. */
static void test_a_full_table(void **state)
{
	unsigned without = 0;

	(void)state;
	for (unsigned i = 0; i < sizeof(names); i++)
		without += !launch_names_number(&names[i]);
	assert_true(without >= sizeof(names) - AREA_LAUNCH_NAMES_MAX && without < sizeof(names));
	for (unsigned i = 0; i < sizeof(names); i++)
		without -= !launch_names_number(&names[i]);
	assert_int_equal(without, 0);
}

static void test_no_more_modules(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 1u << 16; i++)
		launch_names_module_unloaded();
	assert_int_equal(launch_names_number(names), 0);
	assert_int_equal(launch_names_modules, 0);
	launch_names_module_unloaded();
	assert_int_equal(launch_names_number(names), 0);
	launch_names_modules = UINT64_C(1) << 48;
}

static void *number_all(void *numbers)
{
	for (unsigned i = 0; i < NAMES; i++)
		((unsigned *)numbers)[i] = launch_names_number(&names[i]);
	return NULL;
}

static void test_threads(void **state)
{
	static unsigned numbers[THREADS][NAMES];
	pthread_t threads[THREADS];

	(void)state;
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, number_all, numbers[i]), 0);
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	for (unsigned i = 1; i < THREADS; i++)
		assert_memory_equal(numbers[i], numbers[0], sizeof(numbers[0]));
}

static void test_launches_go_round(void **state)
{
	static atomic_uint_fast64_t launched[RING_LAUNCHED];
	static struct ring ring = { .launched = launched };
	struct ring_launched first, last;

	(void)state;
	for (uint32_t i = 1; i <= RING_LAUNCHED + 1; i++)
		launch_names_note(&ring, i, i % 2 ? names : NULL);
	memcpy(&first, &launched[0], sizeof(first));
	memcpy(&last, &launched[RING_LAUNCHED - 1], sizeof(last));
	assert_int_equal(first.correlation, RING_LAUNCHED + 1);
	assert_int_equal(first.kernel, launch_names_number(names));
	assert_int_equal(last.correlation, RING_LAUNCHED);
	assert_int_equal(last.kernel, 0);
	assert_int_equal(ring.launched_count, RING_LAUNCHED + 1);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup(name, start)
	const struct CMUnitTest tests[] = {
		T(test_a_name_has_one_number),
		T(test_an_unloaded_module),
		T(test_a_full_table),
		T(test_no_more_modules),
		T(test_threads),
		T(test_launches_go_round),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
