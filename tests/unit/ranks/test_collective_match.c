#include "ranks/collective_match.h"

#include <stdlib.h>

#include "support/cmocka_tests.h"

enum { ALL_REDUCE, ALL_GATHER };

#define HASH UINT64_C(0xfedcba9876543210)
#define RECORDED                                                                                   \
	{                                                                                          \
		0, 1000000                                                                         \
	}

static struct collective_part part(uint32_t rank, uint64_t sequence, uint64_t start_ns,
				   uint64_t end_ns)
{
	return (struct collective_part){ .communicator = HASH,
					 .sequence = sequence,
					 .start_ns = start_ns,
					 .end_ns = end_ns,
					 .rank = rank,
					 .count = 1024,
					 .root = -1,
					 .fused = 1,
					 .function = ALL_REDUCE,
					 .mutual = true };
}

/* Two ranks that are in the communicator HASH. */
struct pair {
	struct collective_part parts[8];
	size_t count;
	uint32_t size;
	struct rank_window windows[2];
	struct collective_matches matches;
};

static void match(struct pair *p)
{
	struct communicator_rank ranks[] = { { HASH, 1, p->size }, { HASH, 0, p->size } };

	assert_int_equal(collectives_match(p->parts, p->count, ranks, 2, p->windows, &p->matches),
			 0);
}

#define PAIR(...)                                                                                  \
	{                                                                                          \
		.windows = { RECORDED, RECORDED }, __VA_ARGS__                                     \
	}

static void equal_keys_match_in_any_order(void **state)
{
	struct pair p =
		PAIR(.parts = { part(1, 8, 300, 400), part(0, 7, 100, 200), part(1, 7, 150, 200),
				part(0, 8, 310, 400), part(0, 7, 500, 600), part(1, 7, 500, 600) },
		     .count = 6);

	(void)state;
	p.parts[4].function = p.parts[5].function = ALL_GATHER; /* has numbers of its own */
	match(&p);
	assert_int_equal(p.matches.items.count, 3);
	assert_int_equal(p.matches.absent.count, 0);
	for (size_t i = 0; i < 3; i++) {
		const struct collective_match *m = &p.matches.items.data[i];

		assert_int_equal(m->parts, 2);
		assert_int_equal(p.parts[m->first].rank, 0);
		assert_true(collective_is_whole(p.parts, m));
	}
	collectives_release(&p.matches);
}

static void what_was_matched_is_checked(void **state)
{
	enum { COUNT, TYPE, ROOT, REPEATED, UNENDED, IMPOSSIBLE, CASES };

	(void)state;
	for (int i = 0; i < CASES; i++) {
		struct pair p = PAIR(.parts = { part(0, 1, 100, 200), part(1, 1, 150, 200),
						part(1, 1, 900, 990) },
				     .count = i == REPEATED ? 3 : 2);
		const struct collective_match *m = p.matches.items.data;

		p.parts[1].count += i == COUNT;
		p.parts[1].datatype += i == TYPE;
		p.parts[1].root += i == ROOT;
		if (i == UNENDED)
			p.parts[0].end_ns = p.parts[1].end_ns = 0;
		if (i == IMPOSSIBLE)
			p.parts[1].start_ns = 211;
		match(&p);
		m = p.matches.items.data;
		assert_int_equal(p.matches.items.count, 1);
		assert_int_equal(m->differs, i == COUNT || i == TYPE || i == ROOT);
		assert_int_equal(m->repeated, i == REPEATED);
		assert_int_equal(collectives_check_times(p.parts, &p.matches, 10), i == IMPOSSIBLE);
		assert_int_equal(collectives_check_times(p.parts, &p.matches, 11), 0);
		assert_int_equal(collective_is_whole(p.parts, m), i == IMPOSSIBLE);
		collectives_release(&p.matches);
	}
}

static void absent_ranks_have_a_reason(void **state)
{
	static const struct {
		uint64_t end_ns; /* of rank 0's part, which starts at 100 */
		struct rank_window window; /* of rank 1 */
		enum absence why;
	} cases[] = {
		{ 0, { 0, 1000 }, ABSENT_HUNG },     { 200, { 0, 1000 }, ABSENT_LOST },
		{ 0, { 0, 100 }, ABSENT_OUTSIDE },   { 200, { 200, 1000 }, ABSENT_OUTSIDE },
		{ 200, { 150, 1000 }, ABSENT_LOST },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct pair p =
			PAIR(.parts = { part(0, 1, 100, cases[i].end_ns) }, .count = 1, .size = 5);
		const struct collective_match *m;

		p.windows[1] = cases[i].window;
		match(&p);
		m = p.matches.items.data;
		assert_int_equal(m->absent[ABSENT_UNRECORDED], 3);
		for (int why = 0; why < ABSENT_UNRECORDED; why++)
			assert_int_equal(m->absent[why], why == (int)cases[i].why);
		assert_int_equal(p.matches.absent.count, cases[i].why != ABSENT_OUTSIDE);
		if (p.matches.absent.count)
			assert_int_equal(p.matches.absent.data[0].rank, 1);
		assert_false(collective_is_whole(p.parts, m));
		collectives_release(&p.matches);
	}
}

/* Data-parallel groups of 8 ranks and one communicator of all; a rank that leaves, one unknown. */
static void many_ranks(void **state)
{
	enum { RANKS = 64, GROUP = 8, STEPS = 50, QUITTER = 13, LEAVES = 40 };
	struct collective_part *parts = calloc((size_t)RANKS * STEPS * 2, sizeof(*parts));
	struct communicator_rank ranks[RANKS * 2];
	struct rank_window windows[RANKS];
	struct collective_matches m;
	size_t count = 0, whole = 0;

	(void)state;
	for (uint32_t r = 0; r < RANKS; r++) {
		ranks[2 * r] = (struct communicator_rank){ HASH + r / GROUP, r, GROUP };
		ranks[2 * r + 1] = (struct communicator_rank){ HASH - 1, r, RANKS };
		windows[r] = (struct rank_window){ 0, UINT64_MAX };
		for (uint32_t s = 0; s < STEPS && (r != QUITTER || s < LEAVES); s++) {
			parts[count] = part(r, s, 1000 * s + r, 1000 * s + 90);
			parts[count++].communicator = HASH + r / GROUP;
			parts[count] = part(r, s, 1000 * s + 500 + r, 1000 * s + 590);
			parts[count++].communicator = HASH - 1;
		}
	}
	assert_int_equal(collectives_match(parts, count, ranks, ARRAY_SIZE(ranks), windows, &m), 0);
	assert_int_equal(m.items.count, STEPS * (RANKS / GROUP + 1));
	assert_int_equal(m.absent.count, 2 * (STEPS - LEAVES));
	for (size_t i = 0; i < m.absent.count; i++)
		assert_int_equal(m.absent.data[i].rank, QUITTER);
	for (size_t i = 0; i < m.items.count; i++)
		whole += collective_is_whole(parts, &m.items.data[i]);
	assert_int_equal(whole, m.items.count - m.absent.count);
	assert_int_equal(collectives_check_times(parts, &m, 0), 0);
	collectives_release(&m);
	free(parts);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_keys_match_in_any_order),
		cmocka_unit_test(what_was_matched_is_checked),
		cmocka_unit_test(absent_ranks_have_a_reason),
		cmocka_unit_test(many_ranks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
