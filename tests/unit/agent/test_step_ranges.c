/* Steps of a process: whatever the order in which their rows and those of their work come. */
#include "support/cmocka_tests.h"

#include <string.h>

#include "agent/step_ranges.h"
#include "base/clock.h"

#define LEVEL(n) (STEP_LEVEL | (n))

static void open_at(struct step_ranges *s, uint64_t start_ns, uint64_t key, uint32_t thread)
{
	step_ranges_open(
		s, &(struct step_range){
			   .start_ns = start_ns, .key = key, .thread = thread, .name = "step" });
}

static void close_at(struct step_ranges *s, uint64_t end_ns, uint64_t key, uint32_t thread)
{
	step_ranges_close(
		s, &(struct step_range){
			   .start_ns = end_ns, .end_ns = end_ns, .key = key, .thread = thread });
}

static void add(struct step_ranges *s, uint64_t start_ns, uint64_t duration_ns)
{
	step_ranges_add_work(s, &(struct step_work){ start_ns, duration_ns }, 1);
}

static void expect(struct step_ranges *s, uint64_t start_ns, uint64_t end_ns, uint64_t work,
		   uint64_t work_ns)
{
	struct step_range got;

	assert_int_equal(step_ranges_take(s, &got), 1);
	assert_int_equal(got.start_ns, start_ns);
	assert_int_equal(got.end_ns, end_ns);
	assert_int_equal(got.work, work);
	assert_int_equal(got.work_ns, work_ns);
}

static void work_counts_where_it_begins(void **state)
{
	struct step_ranges s = { 0 };
	struct step_range none;

	(void)state;
	open_at(&s, 100, LEVEL(0), 1);
	add(&s, 99, 1);
	add(&s, 100, 10);
	close_at(&s, 200, LEVEL(0), 1);
	add(&s, 199, 1000);
	add(&s, 200, 1);
	step_ranges_end_batch(&s);
	add(&s, 150, 5); /* its record came a batch later */
	expect(&s, 100, 200, 3, 1015);
	assert_int_equal(step_ranges_take(&s, &none), 0);
	step_ranges_release(&s);
}

static void work_comes_before_its_range(void **state)
{
	struct step_ranges s = { 0 };

	(void)state;
	add(&s, 100, 10);
	add(&s, 150, 10);
	add(&s, 250, 10);
	open_at(&s, 120, LEVEL(0), 1);
	close_at(&s, 200, LEVEL(0), 1);
	step_ranges_end_batch(&s);
	expect(&s, 120, 200, 1, 10);
	/* After two seconds it is forgotten. */
	add(&s, 5 * NS_PER_S, 1);
	open_at(&s, 0, LEVEL(0), 1);
	close_at(&s, 6 * NS_PER_S, LEVEL(0), 1);
	step_ranges_end_batch(&s);
	expect(&s, 0, 6 * NS_PER_S, 1, 1);
	step_ranges_release(&s);
}

static void steps_are_taken_a_batch_later(void **state)
{
	struct step_ranges s = { 0 };
	struct step_range none;

	(void)state;
	open_at(&s, 1, LEVEL(0), 1);
	step_ranges_end_batch(&s);
	close_at(&s, 2, LEVEL(0), 1);
	assert_int_equal(step_ranges_take(&s, &none), 0);
	step_ranges_end_batch(&s);
	expect(&s, 1, 2, 0, 0);
	step_ranges_release(&s);
}

static void keys(void **state)
{
	struct step_ranges s = { 0 };

	(void)state;
	open_at(&s, 10, LEVEL(0), 1);
	open_at(&s, 11, LEVEL(0), 2); /* of another thread */
	open_at(&s, 12, 7, 1); /* may end on another thread */
	close_at(&s, 20, 7, 3);
	close_at(&s, 21, LEVEL(0), 2);
	close_at(&s, 22, LEVEL(0), 1);
	close_at(&s, 23, LEVEL(0), 1); /* nothing is open */
	step_ranges_end_batch(&s);
	expect(&s, 10, 22, 0, 0);
	expect(&s, 11, 21, 0, 0);
	expect(&s, 12, 20, 0, 0);
	step_ranges_release(&s);
}

static void ranges_without_an_end(void **state)
{
	struct step_ranges s = { 0 };

	(void)state;
	open_at(&s, 10, LEVEL(0), 1);
	open_at(&s, 20, LEVEL(0), 1); /* so the end of the first was lost */
	close_at(&s, 30, LEVEL(0), 1);
	assert_int_equal(s.forgotten, 1);
	step_ranges_end_batch(&s);
	expect(&s, 20, 30, 0, 0);
	for (uint64_t i = 0; i < STEP_RANGES_MAX + 5; i++)
		open_at(&s, 100 + i, i, 1);
	assert_int_equal(s.items.count, STEP_RANGES_MAX);
	assert_int_equal(s.forgotten, 1 + 5);
	step_ranges_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_counts_where_it_begins),
		cmocka_unit_test(work_comes_before_its_range),
		cmocka_unit_test(steps_are_taken_a_batch_later),
		cmocka_unit_test(keys),
		cmocka_unit_test(ranges_without_an_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
