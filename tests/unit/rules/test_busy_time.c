/* The union of work in any order, against a bit for each nanosecond. */
#include "rules/busy_time.h"

#include <string.h>

#include "base/map.h"
#include "support/cmocka_tests.h"

#define LENGTH 1000u

static uint64_t random_below(uint64_t *state, uint64_t limit)
{
	*state = hash_u64(*state + 1);
	return *state % limit;
}

static void work_in_any_order(void **unused)
{
	uint64_t state = 7;

	(void)unused;
	for (unsigned round = 0; round < 300; round++) {
		struct busy_time b = { 0 };
		uint8_t busy[2 * LENGTH] = { 0 };
		uint64_t taken_ns = 0;

		for (unsigned i = 0; i < 60; i++) {
			uint64_t start = taken_ns + random_below(&state, LENGTH - taken_ns);
			uint64_t end = start + 1 + random_below(&state, 1 + round / 4);

			assert_int_equal(busy_time_add(&b, start, end), 0);
			memset(busy + start, 1, end - start);
			for (size_t k = 1; k < b.spans.count; k++)
				assert_true(b.spans.data[k - 1].end_ns < b.spans.data[k].start_ns);
			if (i % 20 == 19) {
				uint64_t until = taken_ns + LENGTH / 5, expected = 0;

				for (uint64_t at = taken_ns; at < until; at++)
					expected += busy[at];
				assert_int_equal(busy_time_take(&b, taken_ns, until), expected);
				taken_ns = until;
			}
		}
		busy_time_release(&b);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(work_in_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
