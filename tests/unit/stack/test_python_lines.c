/*
 * Line tables of code objects: what CPython wrote for small functions, by hand, and bytes that
 * break the format.
 */
#include "support/cmocka_tests.h"

#include <string.h>

#include "stack/python/python_code.h"

#define LINE(kind, table, first, last) python_table_line(kind, table, sizeof(table), first, last)

static void test_lnotab(void **state)
{
	/*
	 * Line 10 for 6 bytes, 12 for 4, back to 11 for 2, then 300 lines on in steps of at most
	 * 127.
	 */
	static const uint8_t table[] = { 6, 2, 4, 0xff, 2, 127, 0, 127, 0, 46 };

	(void)state;
	assert_int_equal(LINE(PYTHON_LNOTAB, table, 10, 0), 10);
	assert_int_equal(LINE(PYTHON_LNOTAB, table, 10, 5), 10);
	assert_int_equal(LINE(PYTHON_LNOTAB, table, 10, 6), 12);
	assert_int_equal(LINE(PYTHON_LNOTAB, table, 10, 10), 11);
	assert_int_equal(LINE(PYTHON_LNOTAB, table, 10, 11), 11);
	assert_int_equal(LINE(PYTHON_LNOTAB, table, 10, 12), 311);
	assert_int_equal(LINE(PYTHON_LNOTAB, table, 10, 60000), 311);
	assert_int_equal(python_table_line(PYTHON_LNOTAB, table, 0, 10, 4), 10);
	/* Before the first line of a file is none. */
	assert_int_equal(LINE(PYTHON_LNOTAB, ((uint8_t[]){ 2, 0xfe }), 2, 2), 0);
	assert_int_equal(LINE(PYTHON_LNOTAB, ((uint8_t[]){ 2, 0xfd }), 2, 2), 0);
}

static void test_linetable(void **state)
{
	/* Line 5 for 4 bytes, 6 for 2, none for 2, 5 for 254 and 6 more, 305 for 2. */
	static const uint8_t table[] = {
		4, 0, 2, 1, 2, 0x80, 254, 0xff, 6, 0, 0, 127, 0, 127, 2, 46
	};

	(void)state;
	assert_int_equal(LINE(PYTHON_LINETABLE, table, 5, 0), 5);
	assert_int_equal(LINE(PYTHON_LINETABLE, table, 5, 4), 6);
	assert_int_equal(LINE(PYTHON_LINETABLE, table, 5, 6), 0);
	assert_int_equal(LINE(PYTHON_LINETABLE, table, 5, 8), 5);
	assert_int_equal(LINE(PYTHON_LINETABLE, table, 5, 267), 5);
	assert_int_equal(LINE(PYTHON_LINETABLE, table, 5, 268), 305);
	assert_int_equal(LINE(PYTHON_LINETABLE, table, 5, 270), 0);
}

#define ENTRY(form, units) (0x80 | (form) << 3 | ((units)-1))

static void test_locations(void **state)
{
	static const uint8_t table[] = {
		ENTRY(0, 2),  0x12, /* line 7, 2 units */
		ENTRY(11, 1), 0x05, 0x09, /* 8, 1 */
		ENTRY(13, 8), 0x41, 0x01, /* 8 - 32: none, 8; 0x41 0x01 is 65, that is -32 */
		ENTRY(14, 1), 0x40, 0x50, 0x02, 1, 1, 1, /* + (0 | 16 << 6 | 2 << 12) / 2 = 4608 */
		ENTRY(15, 1), /* no line */
		ENTRY(12, 3), 0x01, 0x02, /* + 2 */
	};

	(void)state;
	assert_int_equal(LINE(PYTHON_LOCATIONS, table, 7, 0), 7);
	assert_int_equal(LINE(PYTHON_LOCATIONS, table, 7, 3), 7);
	assert_int_equal(LINE(PYTHON_LOCATIONS, table, 7, 4), 8);
	assert_int_equal(LINE(PYTHON_LOCATIONS, table, 7, 6), 0);
	assert_int_equal(LINE(PYTHON_LOCATIONS, table, 7, 21), 0);
	assert_int_equal(LINE(PYTHON_LOCATIONS, table, 7, 22), 8 - 32 + 4608);
	assert_int_equal(LINE(PYTHON_LOCATIONS, table, 7, 24), 0);
	assert_int_equal(LINE(PYTHON_LOCATIONS, table, 7, 26), 8 - 32 + 4608 + 2);
	assert_int_equal(LINE(PYTHON_LOCATIONS, table, 7, 32), 0);
	assert_int_equal(LINE(PYTHON_LOCATIONS, table, 107, 6), 76);
}

/* Any bytes: an answer in time, and nothing read beyond them (the sanitizer sees that). */
static void test_broken_tables(void **state)
{
	uint64_t seed = 88172645463325252u;

	(void)state;
	for (unsigned round = 0; round < 20000; round++) {
		size_t length = round % 40;
		uint8_t *table = malloc(length ? length : 1);

		assert_non_null(table);
		for (size_t i = 0; i < length; i++) {
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			table[i] = round % 3 ? (uint8_t)seed : (uint8_t)seed | 0xc0;
		}
		for (int kind = PYTHON_LNOTAB; kind <= PYTHON_LOCATIONS; kind++) {
			uint32_t line =
				python_table_line(kind, table, length, (uint32_t)(seed >> 33),
						  (uint32_t)(seed >> 20) & 255);

			assert_true(line <= INT32_MAX);
		}
		free(table);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lnotab),
		cmocka_unit_test(test_linetable),
		cmocka_unit_test(test_locations),
		cmocka_unit_test(test_broken_tables),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
