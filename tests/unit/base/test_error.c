#include "base/error.h"

#include <errno.h>
#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static void set_and_prefix_make_a_chain(void **state)
{
	struct error e = { 0 };

	(void)state;
	assert_int_equal(error_set(&e, E_FORMAT, "checksum of block %d does not match", 3),
			 E_FORMAT);
	assert_int_equal(error_prefix(&e, "segment '%s'", "7.0.pit"), E_FORMAT);
	assert_int_equal(error_prefix(&e, "cannot open recording '%s'", "x"), E_FORMAT);
	assert_string_equal(
		e.text,
		"cannot open recording 'x': segment '7.0.pit': checksum of block 3 does not match");
	assert_int_equal(e.code, E_FORMAT);
}

static void errno_appends_the_systems_text(void **state)
{
	struct error e = { 0 };

	(void)state;
	assert_int_equal(error_errno(&e, ENOENT, "cannot open '%s'", "a"), -ENOENT);
	assert_string_equal(e.text, "cannot open 'a': No such file or directory");
	assert_int_equal(e.code, -ENOENT);
}

static void without_a_struct_only_codes_are_returned(void **state)
{
	(void)state;
	assert_int_equal(error_set(NULL, E_LIMIT, "x"), E_LIMIT);
	assert_int_equal(error_errno(NULL, EIO, "x"), -EIO);
	assert_int_equal(error_prefix(NULL, "x"), -1);
	assert_int_equal(error_prefix(&(struct error){ 0 }, "x"),
			 -1); /* there is nothing to put it before */
}

static void long_texts_are_cut_and_terminated(void **state)
{
	struct error e = { 0 };
	char word[2 * ERROR_TEXT_MAX];

	(void)state;
	memset(word, 'x', sizeof(word));
	word[sizeof(word) - 1] = '\0';
	error_set(&e, -EIO, "%s", word);
	assert_int_equal(strlen(e.text), ERROR_TEXT_MAX - 1);
	error_prefix(&e, "first");
	assert_memory_equal(e.text, "first: xxx", 10);
	assert_int_equal(strlen(e.text), ERROR_TEXT_MAX - 1);
	error_prefix(&e, "%s", word);
	assert_int_equal(strlen(e.text), ERROR_TEXT_MAX - 1);
	assert_int_equal(error_errno(&e, EIO, "%s", word), -EIO);
	assert_int_equal(strlen(e.text), ERROR_TEXT_MAX - 1);
}

static void every_code_has_a_text(void **state)
{
	static const int codes[] = { E_FORMAT, E_VERSION, E_UNSUPPORTED, E_USAGE, E_LIMIT };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
		assert_string_not_equal(error_code_text(codes[i]), "unknown error");
	assert_string_equal(error_code_text(-EACCES), "Permission denied");
	assert_string_equal(error_code_text(5), "unknown error");
	assert_string_equal(error_code_text(-3999), "unknown error");
	assert_string_equal(error_code_text(INT32_MIN), "unknown error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_and_prefix_make_a_chain),
		cmocka_unit_test(errno_appends_the_systems_text),
		cmocka_unit_test(without_a_struct_only_codes_are_returned),
		cmocka_unit_test(long_texts_are_cut_and_terminated),
		cmocka_unit_test(every_code_has_a_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
