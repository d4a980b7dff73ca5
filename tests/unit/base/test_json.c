#include "base/json.h"

#include <string.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/comma_locale.h"

static void assert_escaped(const char *text, size_t length, const char *expected)
{
	struct strbuf s = STRBUF_INIT;

	json_escape(&s, text, length);
	assert_false(s.failed);
	assert_string_equal(strbuf_text(&s), expected);
	strbuf_release(&s);
}

#define ESCAPED(text, expected) assert_escaped(text, sizeof(text) - 1, expected)
#define BAD "\xef\xbf\xbd"

static void escapes(void **state)
{
	(void)state;
	ESCAPED("", "");
	ESCAPED("void f<int>(char)", "void f<int>(char)");
	ESCAPED("\"a\b\"", "\\\"a\\b\\\"");
	ESCAPED("\b\t\n\v\f\r", "\\b\\t\\n\\u000b\\f\\r");
	ESCAPED("\0\x01\x1f\x7f", "\\u0000\\u0001\\u001f\\u007f");
	ESCAPED("[##[a] #[ ##", "[##\\u005ba] #[ ##"); /* obeyed by GitHub's runner */
	ESCAPED("\xc2\x9b\u202e\u2066\U000e0041x", "\\u009b\\u202e\\u2066\\udb40\\udc41x");
}

static void valid_utf_8_stays(void **state)
{
	(void)state;
	ESCAPED("\xc2\xa0 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf",
		"\xc2\xa0 \xdf\xbf \xe0\xa0\x80 \xed\x9f\xbf \xee\x80\x80 \xef\xbf\xbf");
	ESCAPED("\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf", "\xf0\x90\x80\x80 \xf4\x8f\xbf\xbf");
}

static void invalid_utf_8_is_replaced(void **state)
{
	(void)state;
	ESCAPED("a\x80z", "a" BAD "z");
	ESCAPED("\xff\xfe", BAD BAD);
	ESCAPED("\xc0\xaf", BAD BAD); /* overlong '/' */
	ESCAPED("\xc1\xbf", BAD BAD);
	ESCAPED("\xe0\x9f\xbf", BAD BAD BAD); /* overlong */
	ESCAPED("\xf0\x8f\xbf\xbf", BAD BAD BAD BAD); /* overlong */
	ESCAPED("\xed\xa0\x80", BAD BAD BAD); /* surrogate */
	ESCAPED("\xf4\x90\x80\x80", BAD BAD BAD BAD); /* beyond U+10FFFF */
	ESCAPED("\xf5", BAD);
	ESCAPED("\xe2\x82", BAD); /* cut at the end: one replacement for what was there */
	ESCAPED("\xe2\x82z", BAD "z");
	ESCAPED("\xf0\x9f\x98\"", BAD "\\\"");
	ESCAPED("\xe2\xe2\x82\xac", BAD "\xe2\x82\xac");
}

/* Whatever the bytes, the result is ASCII or valid UTF-8 without control characters. */
static void any_two_bytes_give_valid_text(void **state)
{
	struct strbuf once = STRBUF_INIT, twice = STRBUF_INIT;

	(void)state;
	for (unsigned i = 0; i < 65536; i++) {
		char b[2] = { (char)(i >> 8), (char)i };

		strbuf_clear(&once);
		strbuf_clear(&twice);
		json_escape(&once, b, 2);
		json_escape(&twice, once.data, once.length);
		for (size_t k = 0; k < once.length; k++)
			assert_true((unsigned char)once.data[k] >= 0x20);
		if (!memchr(once.data, '\\', once.length))
			assert_string_equal(once.data, twice.data);
	}
	strbuf_release(&once);
	strbuf_release(&twice);
}

static void build(struct json *j)
{
	json_object(j);
	json_key_string(j, "name", "a\"b");
	json_key_string(j, "none", NULL);
	json_key(j, "rows");
	json_array(j);
	json_u64(j, UINT64_MAX);
	json_i64(j, INT64_MIN);
	json_bool(j, false);
	json_null(j);
	json_object(j);
	json_end(j);
	json_array(j);
	json_array(j);
	json_end(j);
	json_end(j);
	json_end(j);
	json_key_bool(j, "yes", true);
	json_key_u64(j, "u", 0);
	json_key_i64(j, "i", -1);
	json_key(j, "f");
	json_fixed(j, 1234, 3);
	json_key(j, "b");
	json_bytes(j, "x\0y", 3);
	json_end(j);
}

static void compact(void **state)
{
	struct strbuf s = STRBUF_INIT;
	struct json j = JSON_INIT(&s);

	(void)state;
	build(&j);
	assert_string_equal(
		s.data, "{\"name\": \"a\\\"b\", \"none\": null, \"rows\": [18446744073709551615, "
			"-9223372036854775808, false, null, {}, [[]]], \"yes\": true, \"u\": 0, "
			"\"i\": -1, \"f\": 1.234, \"b\": \"x\\u0000y\"}");
	assert_int_equal(j.depth, 0);
	strbuf_release(&s);
}

static void pretty(void **state)
{
	struct strbuf s = STRBUF_INIT;
	struct json j = JSON_PRETTY(&s);

	(void)state;
	build(&j);
	assert_string_equal(s.data, "{\n"
				    "  \"name\": \"a\\\"b\",\n"
				    "  \"none\": null,\n"
				    "  \"rows\": [\n"
				    "    18446744073709551615,\n"
				    "    -9223372036854775808,\n"
				    "    false,\n"
				    "    null,\n"
				    "    {},\n"
				    "    [\n"
				    "      []\n"
				    "    ]\n"
				    "  ],\n"
				    "  \"yes\": true,\n"
				    "  \"u\": 0,\n"
				    "  \"i\": -1,\n"
				    "  \"f\": 1.234,\n"
				    "  \"b\": \"x\\u0000y\"\n"
				    "}");
	strbuf_release(&s);
}

static void fixed_point(void **state)
{
	static const struct {
		int64_t value;
		unsigned decimals;
		const char *text;
	} cases[] = {
		{ 1234, 3, "1.234" },
		{ 1000, 3, "1.000" },
		{ 5, 3, "0.005" },
		{ -5, 3, "-0.005" },
		{ 0, 2, "0.00" },
		{ 7, 0, "7" },
		{ -12345, 1, "-1234.5" },
		{ INT64_MIN, 18, "-9.223372036854775808" },
		{ INT64_MAX, 9, "9223372036.854775807" },
		{ 10, 2, "0.10" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct strbuf s = STRBUF_INIT;
		struct json j = JSON_INIT(&s);

		json_fixed(&j, cases[i].value, cases[i].decimals);
		assert_string_equal(s.data, cases[i].text);
		strbuf_release(&s);
	}
}

static void doubles_are_read_back(void **state)
{
	static const struct {
		double value;
		const char *text;
	} cases[] = {
		{ 0.5, "0.5" },
		{ 0, "0" },
		{ -0.1, "-0.1" },
		{ 0.1 + 0.2, "0.30000000000000004" },
		{ 1.0 / 3, "0.3333333333333333" },
		{ -1e300, "-1e+300" },
		{ 5e-324, "4.94065645841247e-324" },
		{ 9007199254740993.0, "9007199254740992" },
		{ INFINITY, "null" },
		{ -INFINITY, "null" },
		{ NAN, "null" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct strbuf s = STRBUF_INIT;
		struct json j = JSON_INIT(&s);

		json_double(&j, cases[i].value);
		assert_string_equal(s.data, cases[i].text);
		strbuf_release(&s);
	}
}

static void doubles_have_a_point_in_every_locale(void **state)
{
	struct strbuf s = STRBUF_INIT;
	struct json j = JSON_INIT(&s);
	char text[8];

	(void)state;
	if (!comma_locale_set())
		skip();
	snprintf(text, sizeof(text), "%.1f", 0.5);
	json_array(&j);
	json_double(&j, -0.5);
	json_double(&j, 3);
	json_double(&j, 0.1);
	json_double(&j, 1.5e300);
	json_end(&j);
	setlocale(LC_NUMERIC, "C");
	assert_string_equal(text, "0,5");
	assert_string_equal(s.data, "[-0.5, 3, 0.1, 1.5e+300]");
	strbuf_release(&s);
}

static void misuse_fails_instead_of_writing_nonsense(void **state)
{
	struct strbuf s = STRBUF_INIT;
	struct json j = JSON_INIT(&s);

	(void)state;
	for (unsigned i = 0; i < JSON_DEPTH_MAX; i++)
		json_array(&j);
	assert_false(s.failed);
	json_array(&j);
	assert_true(s.failed);
	strbuf_release(&s);
	j = (struct json)JSON_INIT(&s);
	json_end(&j);
	assert_true(s.failed);
	strbuf_release(&s);
	json_fixed(&j, 1, 19);
	assert_true(s.failed);
	strbuf_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(escapes),
		cmocka_unit_test(valid_utf_8_stays),
		cmocka_unit_test(invalid_utf_8_is_replaced),
		cmocka_unit_test(any_two_bytes_give_valid_text),
		cmocka_unit_test(compact),
		cmocka_unit_test(pretty),
		cmocka_unit_test(fixed_point),
		cmocka_unit_test(doubles_are_read_back),
		cmocka_unit_test(doubles_have_a_point_in_every_locale),
		cmocka_unit_test(misuse_fails_instead_of_writing_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
