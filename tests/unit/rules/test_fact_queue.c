#include "rules/fact_queue.h"

#include "support/cmocka_tests.h"

static void add(struct fact_queue *q, uint64_t time_ns, uint64_t value)
{
	fact_queue_add(q, &(struct fact){ .time_ns = time_ns, .value = value });
}

static void takes(struct fact_queue *q, uint64_t until_ns, uint64_t time_ns, uint64_t value)
{
	struct fact fact;

	assert_true(fact_queue_take(q, until_ns, &fact));
	assert_int_equal(fact.time_ns, time_ns);
	assert_int_equal(fact.value, value);
}

static void takes_nothing(struct fact_queue *q, uint64_t until_ns)
{
	struct fact fact;

	assert_false(fact_queue_take(q, until_ns, &fact));
}

static void facts_come_in_the_order_of_time(void **state)
{
	struct fact_queue q = { .waiting = 0 };

	(void)state;
	takes_nothing(&q, UINT64_MAX);
	add(&q, 10, 1);
	add(&q, 30, 2);
	add(&q, 20, 3); /* the next block */
	add(&q, 30, 4);
	takes_nothing(&q, 9);
	takes(&q, 10, 10, 1);
	takes_nothing(&q, 19);
	add(&q, 5, 5); /* late */
	add(&q, 4, 6);
	takes(&q, 30, 4, 6);
	takes(&q, 30, 5, 5);
	takes(&q, 30, 20, 3);
	takes(&q, 30, 30, 2); /* of one time, the first that came */
	takes(&q, 30, 30, 4);
	takes_nothing(&q, UINT64_MAX);
	fact_queue_release(&q);
}

static void many_runs_are_merged(void **state)
{
	struct fact_queue q = { .waiting = 0 };
	struct fact fact, last = { .time_ns = 0 };
	size_t taken = 0;

	(void)state;
	for (uint64_t round = 0; round < 50; round++) {
		for (uint64_t i = 0; i < 1000; i++) /* blocks of 100, and a few in no order */
			add(&q, round * 1000 + (i / 100 % 2 ? i % 100 * 10 : i * 7919 % 1000),
			    taken);
		last.time_ns = 0;
		while (fact_queue_take(&q, round * 1000 + 400, &fact)) {
			assert_true(fact.time_ns >= last.time_ns);
			assert_true(fact.time_ns <= round * 1000 + 400);
			last = fact;
			taken++;
		}
		assert_int_equal(q.waiting, (round + 1) * 1000 - taken);
		/* What has been taken is not kept. */
		assert_true(q.facts.count <= 2 * q.waiting + 8192);
	}
	while (fact_queue_take(&q, UINT64_MAX, &fact))
		taken++;
	assert_int_equal(taken, 50000);
	fact_queue_release(&q);
}

static void gaps_are_closed_without_a_change(void **state)
{
	struct fact_queue q = { .waiting = 0 };

	(void)state;
	add(&q, 1000000, 1);
	for (uint64_t i = 0; i < 20000; i++)
		add(&q, i, i);
	add(&q, 500000, 2);
	add(&q, 500000, 3);
	for (uint64_t i = 0; i < 20000; i++)
		takes(&q, 20000, i, i);
	takes_nothing(&q, 20000);
	assert_int_equal(q.facts.count, 3);
	add(&q, 600000, 4);
	takes(&q, UINT64_MAX, 500000, 2);
	takes(&q, UINT64_MAX, 500000, 3);
	takes(&q, UINT64_MAX, 600000, 4);
	takes(&q, UINT64_MAX, 1000000, 1);
	takes_nothing(&q, UINT64_MAX);
	fact_queue_release(&q);
}

static void facts_beyond_the_limit_are_forgotten(void **state)
{
	struct fact_queue q = { .waiting = 0 };
	struct fact fact;
	size_t taken = 0;

	(void)state;
	for (uint64_t i = 0; i < FACTS_MAX + 10; i++)
		add(&q, UINT64_MAX - i % 2, i);
	while (fact_queue_take(&q, UINT64_MAX, &fact))
		taken++;
	assert_int_equal(taken, FACTS_MAX);
	fact_queue_release(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(facts_come_in_the_order_of_time),
		cmocka_unit_test(many_runs_are_merged),
		cmocka_unit_test(gaps_are_closed_without_a_change),
		cmocka_unit_test(facts_beyond_the_limit_are_forgotten),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
