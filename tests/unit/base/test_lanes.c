#include "base/lanes.h"

#include <errno.h>

#include "failing_alloc.h"
#include "support/cmocka_tests.h"

static void test_nesting_stays_in_a_lane(void **state)
{
	struct lanes l = { .exclusive = false };

	(void)state;
	assert_int_equal(lanes_add(&l, 0, 100), 0);
	assert_int_equal(lanes_add(&l, 10, 50), 0);
	assert_int_equal(lanes_add(&l, 20, 50), 0); /* ends together with what it is in */
	assert_int_equal(lanes_add(&l, 50, 100), 0);
	assert_int_equal(lanes_add(&l, 90, 101), 1); /* sticks out */
	assert_int_equal(lanes_add(&l, 100, 100), 0);
	lanes_release(&l);
}

static void test_exclusive_lanes_hold_one_at_a_time(void **state)
{
	struct lanes l = { .exclusive = true };

	(void)state;
	assert_int_equal(lanes_add(&l, 0, 100), 0);
	assert_int_equal(lanes_add(&l, 10, 20), 1);
	assert_int_equal(lanes_add(&l, 15, 30), 2);
	assert_int_equal(lanes_add(&l, 20, 25), 1);
	assert_int_equal(lanes_add(&l, 100, 110), 0);
	assert_int_equal(l.items.count, 3);
	lanes_release(&l);
}

static void test_there_is_a_limit(void **state)
{
	struct lanes l = { .exclusive = true };

	(void)state;
	for (int i = 0; i < LANES_MAX; i++)
		assert_int_equal(lanes_add(&l, 0, 10), i);
	assert_int_equal(lanes_add(&l, 0, 10), -E2BIG);
	assert_int_equal(lanes_add(&l, 10, 20), 0);
	lanes_release(&l);
}

static void test_tracks_without_memory(void **state)
{
	(void)state;
	FOR_EACH_FAILURE(n)
	{
		struct tracks t = { 0 };
		bool is_new;
		void *track = tracks_at(&t, 7, sizeof(struct lanes), &is_new);

		assert_int_equal(!track, failing_alloc_failed);
		assert_int_equal(t.items.count, track != NULL);
		if (track)
			assert_ptr_equal(tracks_at(&t, 7, sizeof(struct lanes), &is_new), track);
		tracks_release(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nesting_stays_in_a_lane),
		cmocka_unit_test(test_exclusive_lanes_hold_one_at_a_time),
		cmocka_unit_test(test_there_is_a_limit),
		cmocka_unit_test(test_tracks_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
