/* Launches and their ends in any order, against a plain array. */
#include "rules/launch_list.h"

#include "support/cmocka_tests.h"

#define LAUNCHES 30000u

static uint64_t random_below(uint64_t *state, uint64_t limit)
{
	*state = hash_u64(*state + 1);
	return *state % limit;
}

/* Work ends near the front, as it does on a few streams; the array is moved several times. */
static void ends_in_any_order(void **unused)
{
	static bool is_done[LAUNCHES];
	struct launch_list l = { 0 };
	uint64_t state = 5, first = 0, count = 0, done = 0, now = 1000000, front_ns = 0;

	(void)unused;
	while (first < LAUNCHES) {
		bool adds = count < LAUNCHES && (count - first < 20 || random_below(&state, 2));

		now++;
		if (adds) {
			launch_list_add(&l, 7 * count + 1, count);
			count++;
		} else {
			uint64_t at = first + random_below(&state, count - first);

			done += !is_done[at];
			is_done[at] = true;
			launch_list_end(&l, 7 * at + 1, now); /* sometimes for the second time */
			for (; first < count && is_done[first]; first++)
				front_ns = now;
			launch_list_end(&l, 7 * at + 3, now + 5); /* nobody knows it */
		}
		assert_int_equal(launch_list_count(&l), count - done);
		if (first < count)
			assert_int_equal(launch_list_oldest(&l)->time_ns, first);
		else
			assert_null(launch_list_oldest(&l));
		assert_int_equal(l.front_ns, front_ns);
		/* what has ended is dropped */
		assert_true(l.all.count <= MAX(4096 + count - first, 2 * (count - first)) + 1);
	}
	launch_list_release(&l);
}

static void what_is_forgotten_does_not_end(void **unused)
{
	struct launch_list l = { 0 };

	(void)unused;
	launch_list_add(&l, 1, 10);
	launch_list_add(&l, 2, 20);
	launch_list_forget(&l);
	assert_int_equal(launch_list_count(&l), 0);
	assert_null(launch_list_oldest(&l));
	launch_list_add(&l, 3, 30);
	launch_list_end(&l, 1, 40);
	launch_list_end(&l, 2, 40);
	assert_int_equal(launch_list_oldest(&l)->correlation, 3);
	launch_list_add(&l, 3, 50); /* the id again: the newer launch has it */
	launch_list_end(&l, 3, 60);
	assert_int_equal(launch_list_oldest(&l)->time_ns, 30);
	assert_int_equal(launch_list_count(&l), 0);
	launch_list_release(&l);
}

static void there_is_a_ceiling(void **unused)
{
	struct launch_list l = { 0 };

	(void)unused;
	for (uint64_t i = 0; i < LAUNCHES_MAX; i++)
		launch_list_add(&l, i + 1, i);
	assert_int_equal(launch_list_count(&l), LAUNCHES_MAX);
	launch_list_add(&l, LAUNCHES_MAX + 1, LAUNCHES_MAX);
	assert_int_equal(launch_list_count(&l), 1);
	assert_int_equal(launch_list_oldest(&l)->correlation, LAUNCHES_MAX + 1);
	launch_list_release(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ends_in_any_order),
		cmocka_unit_test(what_is_forgotten_does_not_end),
		cmocka_unit_test(there_is_a_ceiling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
