#include "rules/step_watch.h"

#include "support/cmocka_tests.h"

#define STEP 1u

static void opens(struct step_watch *w, uint32_t thread, uint64_t key, uint64_t time_ns)
{
	step_watch_add(w, &(struct fact){ .kind = FACT_OPENS,
					  .rules = STEP,
					  .thread = thread,
					  .value = key,
					  .time_ns = time_ns });
}

static void closes(struct step_watch *w, uint64_t key, uint64_t time_ns)
{
	step_watch_add(w, &(struct fact){ .kind = FACT_CLOSES, .value = key, .time_ns = time_ns });
}

static void is_step(const struct step_thread *t, size_t i, uint64_t start_ns, uint64_t end_ns)
{
	assert_true(i < t->steps.count);
	assert_int_equal(t->steps.data[i].start_ns, start_ns);
	assert_int_equal(t->steps.data[i].end_ns, end_ns);
}

#define JUDGED(time_ns) ((time_ns) + STEPS_JUDGED_NS)

/* A step inside of a step, and one that had begun before, count for nothing. */
static void test_outermost(void **state)
{
	struct step_watch w = { .rules = STEP, .since_ns = 100, .wanted = 1 };
	const struct step_thread *t;

	(void)state;
	opens(&w, 1, 10, 90);
	closes(&w, 10, 110);
	opens(&w, 1, 10, 120);
	opens(&w, 1, 11, 130);
	closes(&w, 11, 140);
	step_watch_add(&w, &(struct fact){ .kind = FACT_OPENS, .value = 12, .time_ns = 145 });
	closes(&w, 12, 147);
	assert_null(step_watch_find(&w, false, JUDGED(150)));
	assert_int_equal(step_watch_open(&w), 120);
	closes(&w, 10, 150);
	assert_null(step_watch_find(&w, false, JUDGED(149)));
	t = step_watch_find(&w, false, JUDGED(150));
	assert_non_null(t);
	assert_int_equal(t->steps.count, 1);
	is_step(t, 0, 120, 150);
	assert_int_equal(step_watch_open(&w), 0);
	step_watch_release(&w);
}

/* The thread with many short steps waits for the one with long ones, unless that never ends. */
static void test_threads(void **state)
{
	struct step_watch w = { .rules = STEP, .since_ns = 50, .wanted = 2 };
	const struct step_thread *t;

	(void)state;
	opens(&w, 1, 10, 10); /* before, but it shows whose steps are long */
	for (uint64_t i = 0; i < 5; i++) {
		opens(&w, 2, 20, 110 + 10 * i);
		closes(&w, 20, 112 + 10 * i);
	}
	assert_null(step_watch_find(&w, false, JUDGED(160)));
	t = step_watch_find(&w, true, JUDGED(160));
	assert_int_equal(t->thread, 2);
	closes(&w, 10, 170);
	opens(&w, 1, 10, 170);
	closes(&w, 10, 190);
	assert_null(step_watch_find(&w, false, JUDGED(190)));
	t = step_watch_find(&w, true, JUDGED(190));
	assert_int_equal(t->thread, 2); /* the other one has a single step */
	opens(&w, 1, 10, 200);
	closes(&w, 10, 220);
	t = step_watch_find(&w, false, JUDGED(220));
	assert_int_equal(t->thread, 1);
	is_step(t, 0, 170, 190);
	is_step(t, 1, 200, 220);
	step_watch_release(&w);
}

/* Work that was launched until the last of the steps ends with them, whenever that is known. */
static void test_work(void **state)
{
	struct step_watch w = { .rules = STEP, .wanted = 2 };

	(void)state;
	step_watch_work(&w, 1, 50);
	opens(&w, 1, 10, 100);
	w.last_call = 5;
	closes(&w, 10, 110);
	opens(&w, 1, 10, 120);
	w.last_call = 8;
	closes(&w, 10, 130);
	opens(&w, 1, 10, 140);
	w.last_call = 12;
	closes(&w, 10, 150);
	assert_int_equal(w.threads.data[0].work_until_ns, 50);
	step_watch_work(&w, 8, 300);
	step_watch_work(&w, 9, 400);
	step_watch_work(&w, 7, 250);
	assert_int_equal(w.threads.data[0].last_call, 8);
	assert_int_equal(w.threads.data[0].work_until_ns, 300);
	assert_int_equal(w.work_until_ns, 400);
	assert_int_equal(w.threads.data[0].steps.count, 2);
	step_watch_release(&w);
}

/* A range whose end is lost, one that ends before it begins, and too many threads. */
static void test_odd_ranges(void **state)
{
	struct step_watch w = { .rules = STEP, .wanted = 9 };
	const struct step_thread *t;

	(void)state;
	assert_null(step_watch_find(&w, true, 1));
	closes(&w, 7, 50);
	opens(&w, 1, 10, 100);
	opens(&w, 1, 10, 200);
	closes(&w, 10, 210);
	opens(&w, 1, 11, 300);
	closes(&w, 11, 250);
	t = step_watch_find(&w, true, 300);
	assert_int_equal(t->steps.count, 1);
	is_step(t, 0, 200, 210);
	for (uint32_t thread = 2; thread < 5000; thread++)
		opens(&w, thread, 1000 + thread, 400);
	assert_true(w.threads.count < 2000);
	step_watch_release(&w);
}

/* Numbered steps are those of the thread that spends most time in steps, even if it lacks them. */
static void test_numbers(void **state)
{
	struct step_watch w = { .rules = STEP, .first = 3, .wanted = 2 };
	const struct step_thread *t;

	(void)state;
	for (uint64_t i = 0; i < 5; i++) {
		opens(&w, 1, 10, 100 * i);
		assert_int_equal(step_watch_has_begun(&w), i >= 2);
		closes(&w, 10, 100 * i + 50);
		assert_int_equal(step_watch_has_begun(&w), i >= 2);
		assert_int_equal(step_watch_find(&w, false, JUDGED(100 * i + 50)) != NULL, i >= 3);
	}
	t = step_watch_find(&w, false, JUDGED(450));
	assert_int_equal(t->steps.count, 2);
	assert_int_equal(t->seen, 5);
	is_step(t, 0, 200, 250);
	is_step(t, 1, 300, 350);
	opens(&w, 2, 20, 0);
	closes(&w, 20, 1000);
	assert_ptr_equal(step_watch_main(&w, 1000), &w.threads.data[1]);
	assert_null(step_watch_find(&w, false, JUDGED(1000)));
	assert_null(step_watch_find(&w, true, JUDGED(1000)));
	step_watch_release(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_outermost),  cmocka_unit_test(test_threads),
		cmocka_unit_test(test_numbers),    cmocka_unit_test(test_work),
		cmocka_unit_test(test_odd_ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
