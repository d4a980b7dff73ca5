/* test_rank_rounds.c: what the ranks of a job repeat, of collectives made by hand. */
#include "analysis/rank_rounds.h"

#include <string.h>

#include "support/cmocka_tests.h"

#define MOST 400

struct job {
	struct collectives c;
	struct collective_part parts[MOST];
	struct collective_match matches[MOST];
	struct compared_match compared[MOST];
	size_t count;
	struct rank_rounds rounds;
};

/* Adds a collective that lasts from the one before until 100 later, for each letter. */
static void add(struct job *j, const char *letters)
{
	for (; *letters; letters++) {
		uint64_t start_ns = 1000 + 100 * j->count;

		j->parts[j->count] = (struct collective_part){ .count = (uint64_t)*letters };
		j->matches[j->count].first = j->count;
		j->compared[j->count] =
			(struct compared_match){ start_ns, start_ns + 100, (uint32_t)j->count };
		j->count++;
	}
	j->c.parts.data = j->parts;
	j->c.matches.items.data = j->matches;
}

static void check(struct job *j, uint64_t step_ns, enum round_kind kind, size_t count)
{
	uint64_t end_ns = 0, sum_ns = 0;

	assert_int_equal(rank_rounds_find(&j->c, j->compared, j->count, step_ns, &j->rounds), 0);
	for (size_t i = 0; i < j->rounds.items.count; i++) {
		assert_true(j->rounds.items.data[i].end_ns >= end_ns);
		end_ns = j->rounds.items.data[i].end_ns;
		sum_ns += j->rounds.items.data[i].span_ns;
	}
	assert_int_equal(sum_ns, j->rounds.span_ns);
	if (j->count)
		assert_int_equal(end_ns, j->compared[j->count - 1].end_ns);
	assert_int_equal(j->rounds.kind, kind);
	assert_int_equal(j->rounds.items.count, count);
	vec_release(&j->rounds.items);
}

static void steps_of_the_program(void **state)
{
	struct job j = { 0 };

	(void)state;
	for (int i = 0; i < 10; i++)
		add(&j, "aaa");
	check(&j, 300, ROUND_STEP, 10);
	check(&j, 310, ROUND_STEP, 10);
	check(&j, 100, ROUND_STEP, 30);
	check(&j, 99, ROUND_COLLECTIVE, 30); /* collectives are rarer than steps */
	check(&j, 3000, ROUND_STEP, 1);
	check(&j, 3001, ROUND_COLLECTIVE, 30);
	check(&j, 0, ROUND_COLLECTIVE, 30);
	check(&j, 700, ROUND_STEP, 4); /* a rest of two is added to the last one */
}

static void the_rarest_collective_that_repeats(void **state)
{
	struct job j = { 0 };

	(void)state;
	for (int i = 0; i < 10; i++)
		add(&j, "aab");
	check(&j, 0, ROUND_REPETITION, 10);
	for (int i = 0; i < 10; i++)
		add(&j, "aac");
	check(&j, 0, ROUND_COLLECTIVE, 60); /* each of b and c is only in a half */
	j.count = 0;
	for (int i = 0; i < 6; i++)
		add(&j, "aaaaaaab");
	check(&j, 0, ROUND_REPETITION, 6);
	add(&j, "aaaaaaaaaaaaaaaaaa"); /* it has stopped */
	check(&j, 0, ROUND_COLLECTIVE, 66);
	j.count = 0;
	for (int i = 0; i < 4; i++)
		add(&j, "aab");
	check(&j, 0, ROUND_COLLECTIVE, 12); /* four are too few */
	j.count = 0;
	add(&j, "abcdefghij");
	check(&j, 0, ROUND_COLLECTIVE, 10);
}

static void communicators_and_functions_are_different(void **state)
{
	struct job j = { 0 };

	(void)state;
	for (int i = 0; i < 5; i++)
		add(&j, "aaaa");
	for (size_t i = 0; i < j.count; i += 4)
		j.parts[i].communicator = 5;
	check(&j, 0, ROUND_REPETITION, 5);
	for (size_t i = 0; i < j.count; i++)
		j.parts[i] = (struct collective_part){ .function = i % 2 };
	check(&j, 0, ROUND_REPETITION, 10);
	for (size_t i = 0; i < j.count; i++)
		if (j.parts[i].function)
			j.parts[i].function = collective_function_send; /* micro-batches */
	check(&j, 0, ROUND_REPETITION, 10);
	for (size_t i = 0; i < j.count; i++)
		j.parts[i].function = collective_function_send;
	for (size_t i = 0; i < j.count; i += 4)
		j.parts[i].communicator = 5;
	check(&j, 0, ROUND_COLLECTIVE, 20);
}

/* Groups of ranks have collectives at the same time; times between them are in no round. */
static void overlapping_collectives_and_pauses(void **state)
{
	struct job j = { 0 };

	(void)state;
	add(&j, "aaaa");
	j.compared[1].start_ns = j.compared[0].start_ns; /* 1000 to 1200 */
	j.compared[2] = (struct compared_match){ 1150, 1180, 2 };
	j.compared[3] = (struct compared_match){ 5000, 5100, 3 };
	assert_int_equal(rank_rounds_find(&j.c, j.compared, 4, 0, &j.rounds), 0);
	assert_int_equal(j.rounds.start_ns, 1000);
	assert_int_equal(j.rounds.span_ns, 300);
	assert_int_equal(j.rounds.items.count, 4);
	assert_int_equal(j.rounds.items.data[0].span_ns, 100);
	assert_int_equal(j.rounds.items.data[1].end_ns, 1180);
	assert_int_equal(j.rounds.items.data[1].span_ns, 80);
	assert_int_equal(j.rounds.items.data[2].span_ns, 20);
	assert_int_equal(j.rounds.items.data[3].end_ns, 5100);
	assert_int_equal(j.rounds.items.data[3].span_ns, 100);
	vec_release(&j.rounds.items);
}

static void no_collectives(void **state)
{
	struct job j = { 0 };

	(void)state;
	check(&j, 100, ROUND_COLLECTIVE, 0);
	assert_int_equal(j.rounds.span_ns, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_of_the_program),
		cmocka_unit_test(the_rarest_collective_that_repeats),
		cmocka_unit_test(communicators_and_functions_are_different),
		cmocka_unit_test(overlapping_collectives_and_pauses),
		cmocka_unit_test(no_collectives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
