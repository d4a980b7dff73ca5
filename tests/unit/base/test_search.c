/* search.h: every number of items, of which every number comes first. */
#include "base/search.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void every_border(void **state)
{
	(void)state;
	for (size_t count = 0; count <= 70; count++)
		for (size_t border = 0; border <= count; border++)
			assert_int_equal(sorted_prefix(count, i, i < border), border);
}

/* No index is used that is not an item's, and few are. */
static void few_items_are_compared(void **state)
{
	unsigned compared = 0;
	size_t found = sorted_prefix(1000, i, (compared++, assert_true(i < 1000), i <= 998));

	(void)state;
	assert_int_equal(found, 999);
	assert_in_range(compared, 1, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_border),
		cmocka_unit_test(few_items_are_compared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
