/* test_sass_counts.c: which counts of instructions are worth a hint (sass_counts.h). */
#include "analysis/sass_counts.h"

#include "support/cmocka_tests.h"

#define KNOWN (1u << SASS_COUNTS) - 1

static bool is_divergent(uint64_t executed, uint64_t threads, uint64_t whole)
{
	struct sass_counts c = { .of = { [SASS_EXECUTED] = executed, [SASS_THREADS] = threads },
				 .known = KNOWN };
	struct sass_counts all = { .of = { [SASS_EXECUTED] = whole }, .known = KNOWN };

	return sass_is_divergent(&c, &all);
}

static bool is_uncoalesced(uint64_t rated, uint64_t ideal, uint64_t whole)
{
	struct sass_counts c = { .of = { [SASS_RATED] = rated, [SASS_IDEAL] = ideal },
				 .known = KNOWN };
	struct sass_counts all = { .of = { [SASS_RATED] = whole }, .known = KNOWN };

	return sass_is_uncoalesced(&c, &all);
}

/* Fewer than 24 of 32 threads, in a tenth of all instructions. */
static void divergent(void **state)
{
	struct sass_counts unknown = { .of = { [SASS_EXECUTED] = 10 },
				       .known = 1u << SASS_EXECUTED };

	(void)state;
	assert_true(is_divergent(100, 2399, 1000));
	assert_false(is_divergent(100, 2400, 1000));
	assert_false(is_divergent(99, 99, 1000));
	assert_false(is_divergent(0, 0, 0));
	assert_false(sass_is_divergent(&unknown, &unknown)); /* never without a measurement */
}

/* Twice the sectors, in a tenth of all. */
static void uncoalesced(void **state)
{
	(void)state;
	assert_true(is_uncoalesced(100, 50, 1000));
	assert_false(is_uncoalesced(99, 50, 990));
	assert_false(is_uncoalesced(99, 10, 1000));
	assert_false(is_uncoalesced(100, 0, 1000)); /* the ideal is unknown */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(divergent),
		cmocka_unit_test(uncoalesced),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
