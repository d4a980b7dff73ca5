#include "base/json_text.h"

#include <inttypes.h>
#include <stdio.h>

#include "support/cmocka_tests.h"

static void check(struct strbuf *s, const char *expected)
{
	assert_int_equal(s->length, strlen(expected));
	assert_memory_equal(s->data, expected, s->length);
	strbuf_clear(s);
}

static const uint64_t numbers[] = { 0,     1,      9,      10,         99,         100,
				    101,   999,    1000,   1001,       9999,       10000,
				    99999, 100000, 123456, UINT32_MAX, 1000000000, UINT64_MAX };

static void test_integers(void **state)
{
	struct strbuf s = STRBUF_INIT;
	char expected[32];

	(void)state;
	assert_true(raw_init(&s));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		snprintf(expected, sizeof(expected), "%" PRIu64, numbers[i]);
		text_u64(&s, numbers[i]);
		check(&s, expected);
		snprintf(expected, sizeof(expected), "%" PRId64, (int64_t)numbers[i]);
		text_i64(&s, (int64_t)numbers[i]);
		check(&s, expected);
	}
	text_i64(&s, INT64_MIN);
	check(&s, "-9223372036854775808");
	strbuf_release(&s);
}

static void test_microseconds_have_three_decimals(void **state)
{
	struct strbuf s = STRBUF_INIT;
	char expected[32];

	(void)state;
	assert_true(raw_init(&s));
	for (size_t i = 0; i < ARRAY_SIZE(numbers); i++) {
		snprintf(expected, sizeof(expected), "%" PRIu64 ".%03u", numbers[i] / 1000,
			 (unsigned)(numbers[i] % 1000));
		text_us(&s, numbers[i]);
		check(&s, expected);
	}
	strbuf_release(&s);
}

static void test_strings_are_escaped(void **state)
{
	struct strbuf s = STRBUF_INIT;

	(void)state;
	assert_true(raw_init(&s));
	text_string(&s, "a\"b\\\n\xff\0z", 8);
	check(&s, "\"a\\\"b\\\\\\n\xef\xbf\xbd\\u0000z\"");
	text_string(&s, "", 0);
	check(&s, "\"\"");
	strbuf_release(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_integers),
		cmocka_unit_test(test_microseconds_have_three_decimals),
		cmocka_unit_test(test_strings_are_escaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
