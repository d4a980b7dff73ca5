#include "base/globs.h"

#include <string.h>

#include "support/cmocka_tests.h"

static bool matches(const char *pattern, const char *text)
{
	return glob_matches(pattern, strlen(pattern), text);
}

static void test_patterns(void **state)
{
	(void)state;
	assert_true(matches("*", ""));
	assert_true(matches("", ""));
	assert_true(matches("gemm", "gemm"));
	assert_true(matches("*g?mm*", "a_gemm_b"));
	assert_true(matches("a*b*c", "aXbXbXc"));
	assert_true(matches("**?", "x"));
	assert_true(matches("[x]", "[x]"));
	assert_false(matches("", "x"));
	assert_false(matches("?", ""));
	assert_false(matches("gemm", "gemm_b"));
	assert_false(matches("gemm_b", "gemm"));
	assert_false(matches("a*b", "aXbX"));
	assert_false(matches("*?x", "x"));
}

static void test_a_length(void **state)
{
	(void)state;
	assert_true(glob_matches("ab*,", 3, "abc"));
	assert_true(glob_matches("ab*,", 2, "ab"));
	assert_false(glob_matches("ab*,", 2, "abc"));
	assert_false(glob_matches("abc", 2, "abc"));
}

static void test_lists(void **state)
{
	const char *list = "a,,b*";
	size_t length = 9;

	(void)state;
	assert_true(globs_match("x,step*,y", "step 3"));
	assert_true(globs_match("x,step*,y", "y"));
	assert_false(globs_match("x,step*,y", "xy"));
	assert_false(globs_match("", ""));
	assert_true(globs_match("a,,b", ""));
	assert_memory_equal(globs_next(&list, &length), "a", 1);
	assert_int_equal(length, 1);
	assert_non_null(globs_next(&list, &length));
	assert_int_equal(length, 0);
	assert_string_equal(globs_next(&list, &length), "b*");
	assert_int_equal(length, 2);
	assert_null(globs_next(&list, &length));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_patterns),
		cmocka_unit_test(test_a_length),
		cmocka_unit_test(test_lists),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
