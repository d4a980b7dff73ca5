#include "symbol/range_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define SPAN 64

static void nested_ranges(void **state)
{
	struct range_table t = RANGE_TABLE_INIT;

	(void)state;
	assert_int_equal(range_table_add(&t, (struct range){ 10, 50, 0, 1 }), 0);
	assert_int_equal(range_table_add(&t, (struct range){ 20, 30, 0, 2 }), 0);
	assert_int_equal(range_table_add(&t, (struct range){ 22, 24, 0, 3 }), 0);
	assert_int_equal(range_table_add(&t, (struct range){ 60, 60, 0, 4 }), 0);
	assert_int_equal(range_table_finish(&t), 0);
	assert_int_equal(range_table_find(&t, 9), RANGE_NONE);
	assert_int_equal(range_table_find(&t, 10), 1);
	assert_int_equal(range_table_find(&t, 20), 2);
	assert_int_equal(range_table_find(&t, 23), 3);
	assert_int_equal(range_table_find(&t, 24), 2);
	assert_int_equal(range_table_find(&t, 30), 1);
	assert_int_equal(range_table_find(&t, 50), RANGE_NONE);
	assert_int_equal(range_table_find(&t, 60), RANGE_NONE);
	range_table_release(&t);
}

static void nothing(void **state)
{
	struct range_table t = RANGE_TABLE_INIT;

	(void)state;
	assert_int_equal(range_table_finish(&t), 0);
	assert_int_equal(range_table_find(&t, 0), RANGE_NONE);
	range_table_release(&t);
}

/* Whether a is further inside than b, as range_table.h has it. */
static bool is_inner(const struct range *a, const struct range *b)
{
	if (a->start != b->start)
		return a->start > b->start;
	if (a->end != b->end)
		return a->end < b->end;
	return a->order < b->order;
}

static uint32_t innermost(const struct range *ranges, unsigned count, uint64_t address)
{
	const struct range *best = NULL;

	for (unsigned i = 0; i < count; i++)
		if (address >= ranges[i].start && address < ranges[i].end &&
		    (!best || is_inner(&ranges[i], best)))
			best = &ranges[i];
	return best ? best->value : RANGE_NONE;
}

/*
 * Ranges of all kinds, also such that overlap without being nested, compared with the definition.
 */
static void any_ranges(void **state)
{
	uint64_t seed = 1;

	(void)state;
	for (unsigned round = 0; round < 20000; round++) {
		struct range_table t = RANGE_TABLE_INIT;
		struct range ranges[8];
		unsigned count = round % 9;

		for (unsigned i = 0; i < count; i++) {
			seed = seed * 6364136223846793005u + 1442695040888963407u;
			ranges[i] = (struct range){ seed >> 33 & 63, seed >> 40 & 63, i, i };
			assert_int_equal(range_table_add(&t, ranges[i]), 0);
		}
		assert_int_equal(range_table_finish(&t), 0);
		for (uint64_t a = 0; a < SPAN; a++)
			assert_int_equal(range_table_find(&t, a), innermost(ranges, count, a));
		range_table_release(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nested_ranges),
		cmocka_unit_test(nothing),
		cmocka_unit_test(any_ranges),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
