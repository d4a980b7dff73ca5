/* test_rank_waits.c: when ranks waited, and for which, of collectives made by hand. */
#include "analysis/rank_waits.h"

#include "support/cmocka_tests.h"

#define MOST 256
#define START 1000
#define LENGTH 6000 /* a span is 100 */

struct job {
	struct collectives c;
	struct rank_times t;
	struct collective_part parts[MOST];
	struct collective_match matches[MOST];
	struct rank_round round;
	struct rank_waits w;
	size_t part_count;
};

static void make(struct job *j, size_t ranks)
{
	*j = (struct job){ .c = { .rank_count = ranks, .uncertainty_ns = 5 },
			   .t = { .waits_known = true } };
	j->c.parts.data = j->parts;
	j->c.matches.items.data = j->matches;
	j->round = (struct rank_round){ START + LENGTH, LENGTH };
	j->t.rounds.items.data = &j->round;
	j->t.rounds.items.count = 1;
	j->t.rounds.start_ns = START;
}

/* A collective of two ranks, which ends 10 after the second one has come. */
static void add(struct job *j, uint32_t first, uint64_t first_ns, uint32_t second,
		uint64_t second_ns)
{
	uint64_t end_ns = MAX(first_ns, second_ns) + 10;
	struct collective_match *m = &j->matches[j->c.matches.items.count++];

	*m = (struct collective_match){ .first = j->part_count, .parts = 2 };
	j->parts[j->part_count++] = (struct collective_part){
		.start_ns = first_ns, .end_ns = end_ns, .rank = first, .mutual = true
	};
	j->parts[j->part_count++] = (struct collective_part){
		.start_ns = second_ns, .end_ns = end_ns, .rank = second, .mutual = true
	};
}

static void find(struct job *j)
{
	assert_int_equal(rank_waits_find(&j->c, &j->t, &j->w), 0);
}

static void release(struct job *j)
{
	free(j->w.groups);
	free(j->w.pairs);
}

static void check_pair(const struct job *j, size_t i, uint32_t waiting, uint32_t awaited,
		       uint64_t ns, uint64_t count)
{
	assert_in_range(i, 0, j->w.pair_count - 1);
	assert_int_equal(j->w.pairs[i].waiting, waiting);
	assert_int_equal(j->w.pairs[i].awaited, awaited);
	assert_int_equal(j->w.pairs[i].ns, ns);
	assert_int_equal(j->w.pairs[i].count, count);
}

static void times_and_pairs(void **state)
{
	struct job j;

	(void)state;
	make(&j, 3);
	add(&j, 0, START + 50, 1, START + 250);
	add(&j, 0, START + 400, 1, START + 405); /* within the uncertainty */
	add(&j, 0, START + 506, 1, START + 500);
	add(&j, 1, START + 5990, 2, START + 6090); /* it ends behind the window */
	add(&j, 0, START - 60, 2, START + 20); /* … and begins before it */
	find(&j);
	assert_int_equal(j.w.start_ns, START);
	assert_int_equal(j.w.length_ns, LENGTH);
	assert_int_equal(j.w.group_count, 3);
	assert_int_equal(j.w.pair_count, 4);
	check_pair(&j, 0, 0, 1, 200, 1);
	check_pair(&j, 1, 0, 2, 20, 1);
	check_pair(&j, 2, 1, 2, 10, 1);
	check_pair(&j, 3, 1, 0, 6, 1);
	assert_int_equal(j.w.most_ns, 200);
	assert_int_equal(j.w.groups[0].ns, 220);
	assert_int_equal(j.w.groups[0].span_ns[0], 70);
	assert_int_equal(j.w.groups[0].span_ns[1], 100);
	assert_int_equal(j.w.groups[0].span_ns[2], 50);
	assert_int_equal(j.w.groups[0].span_ns[3], 0);
	assert_int_equal(j.w.groups[1].span_ns[59], 10);
	assert_int_equal(j.w.groups[1].for_ns[2], 10);
	assert_int_equal(j.w.groups[2].ns, 0);
	release(&j);
}

/* Two collectives at the same time, as on two streams. */
static void a_rank_waits_once_at_a_time(void **state)
{
	struct job j;

	(void)state;
	make(&j, 3);
	add(&j, 0, START + 100, 1, START + 300);
	add(&j, 0, START + 200, 2, START + 400);
	add(&j, 0, START + 250, 2, START + 280);
	add(&j, 1, START + 350, 2, START + 380);
	find(&j);
	assert_int_equal(j.w.groups[0].ns, 300);
	assert_int_equal(j.w.groups[0].for_ns[1] + j.w.groups[0].for_ns[2], 430);
	assert_int_equal(j.w.groups[1].ns, 30);
	release(&j);
}

static void many_ranks_are_drawn_in_groups(void **state)
{
	static const size_t counts[] = { 1, 31, 32, 33, 64, 100, 127 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		struct job j;
		uint32_t next = 0;
		uint64_t sum = 0;

		make(&j, counts[i]);
		for (uint32_t rank = 0; rank + 1 < counts[i]; rank++)
			add(&j, rank, START, rank + 1, START + 100);
		find(&j);
		assert_int_equal(j.w.group_count, MIN(counts[i], RANK_WAITS_GROUPS));
		for (size_t g = 0; g < j.w.group_count; g++) {
			uint32_t last = j.w.groups[g].end == counts[i]; /* it waits for nobody */
			uint64_t ranks = j.w.groups[g].end - j.w.groups[g].first;

			assert_int_equal(j.w.groups[g].first, next);
			assert_true(ranks > 0);
			next = j.w.groups[g].end;
			assert_int_equal(j.w.groups[g].ns, 100 * (ranks - last));
			for (size_t k = 0; k < j.w.group_count; k++)
				sum += j.w.groups[g].for_ns[k];
		}
		assert_int_equal(next, counts[i]);
		assert_int_equal(sum, 100 * (counts[i] - 1));
		release(&j);
	}
}

static void what_is_not_known_is_not_drawn(void **state)
{
	struct job j;

	(void)state;
	make(&j, 2);
	add(&j, 0, START + 100, 1, START + 300);
	j.t.waits_known = false;
	find(&j);
	assert_int_equal(j.w.length_ns, 0);
	assert_null(j.w.groups);
	j.t.waits_known = true;
	j.t.rounds.items.count = 0;
	find(&j);
	assert_int_equal(j.w.length_ns, 0);
	j.t.rounds.items.count = 1;
	j.matches[0].absent[ABSENT_LOST] = 1;
	find(&j);
	assert_int_equal(j.w.pair_count, 0);
	assert_int_equal(j.w.group_count, 2);
	release(&j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times_and_pairs),
		cmocka_unit_test(a_rank_waits_once_at_a_time),
		cmocka_unit_test(many_ranks_are_drawn_in_groups),
		cmocka_unit_test(what_is_not_known_is_not_drawn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
