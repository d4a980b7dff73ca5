#include "base/bytes.h"

#include <string.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

/* Vectors of RFC 3720, B.4. */
static void checksums_of_rfc_3720(void **state)
{
	static const uint8_t read_command[48] = {
		0x01, 0xc0, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00,
		0x00, 0x00, 0x00, 0x14, 0x00, 0x00, 0x00, 0x18, 0x28, 0x00, 0x00, 0x00,
		0x00, 0x00, 0x00, 0x00, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
	};
	uint8_t b[32];

	(void)state;
	memset(b, 0, sizeof(b));
	assert_int_equal(crc32c(0, b, sizeof(b)), 0x8a9136aa);
	memset(b, 0xff, sizeof(b));
	assert_int_equal(crc32c(0, b, sizeof(b)), 0x62a8ab43);
	for (unsigned i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)i;
	assert_int_equal(crc32c(0, b, sizeof(b)), 0x46dd794e);
	for (unsigned i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(31 - i);
	assert_int_equal(crc32c(0, b, sizeof(b)), 0x113fdb5c);
	assert_int_equal(crc32c(0, read_command, sizeof(read_command)), 0xd9963a56);
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
	assert_int_equal(crc32c(0, NULL, 0), 0);
}

/* Bit by bit, as the definition has it. */
static uint32_t crc_of_definition(const uint8_t *p, size_t length)
{
	uint32_t crc = UINT32_MAX;

	while (length--) {
		crc ^= *p++;
		for (unsigned bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78 : 0);
	}
	return ~crc;
}

static void checksums_of_any_alignment_length_and_pieces(void **state)
{
	uint8_t b[100];

	(void)state;
	for (unsigned i = 0; i < sizeof(b); i++)
		b[i] = (uint8_t)(i * 37 + 11);
	for (size_t from = 0; from < 9; from++) {
		for (size_t length = 0; length + from <= sizeof(b); length++) {
			uint32_t expected = crc_of_definition(b + from, length);
			size_t first = length / 3;

			assert_int_equal(crc32c(0, b + from, length), expected);
			assert_int_equal(crc32c_tables(0, b + from, length), expected);
			assert_int_equal(crc32c(crc32c(0, b + from, first), b + from + first,
						length - first),
					 expected);
		}
	}
}

static void varints_come_back(void **state)
{
	uint8_t b[VARINT_MAX];

	(void)state;
	for (unsigned bit = 0; bit < 64; bit++) {
		for (int d = -1; d <= 1; d++) {
			uint64_t v = (UINT64_C(1) << bit) + (uint64_t)d;
			size_t n = varint_put(b, v);
			struct cursor c = cursor_of(b, n), cut = cursor_of(b, n - 1);

			assert_true(cursor_varint(&c) == v);
			assert_false(c.failed);
			assert_int_equal(cursor_left(&c), 0);
			assert_int_equal(cursor_varint(&cut), 0);
			assert_true(cut.failed);
			assert_true(unzigzag(zigzag((int64_t)v)) == (int64_t)v);
		}
	}
	assert_int_equal(varint_put(b, UINT64_MAX), VARINT_MAX);
	assert_int_equal(zigzag(-1), 1);
	assert_int_equal(zigzag(1), 2);
	assert_true(zigzag(INT64_MIN) == UINT64_MAX);
}

static void varints_that_are_too_long_fail(void **state)
{
	static const uint8_t eleven[] = { 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
					  0x80, 0x80, 0x80, 0x80, 0x00 };
	static const uint8_t bit_64[] = {
		0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02
	};
	struct cursor c = cursor_of(eleven, sizeof(eleven));

	(void)state;
	assert_int_equal(cursor_varint(&c), 0);
	assert_true(c.failed);
	c = cursor_of(bit_64, sizeof(bit_64));
	assert_int_equal(cursor_varint(&c), 0);
	assert_true(c.failed);
}

static void cursors_stop_at_the_end_and_stay_failed(void **state)
{
	static const uint8_t b[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	struct cursor c = cursor_of(b, sizeof(b));

	(void)state;
	assert_int_equal(cursor_u8(&c), 1);
	assert_int_equal(cursor_u16(&c), 0x0302);
	assert_int_equal(cursor_u32(&c), 0x07060504);
	assert_true(cursor_u64(&c) == UINT64_C(0x0f0e0d0c0b0a0908));
	assert_false(c.failed);
	assert_int_equal(cursor_u8(&c), 0);
	assert_true(c.failed);
	c = cursor_of(b, 3);
	assert_int_equal(cursor_u32(&c), 0);
	assert_int_equal(cursor_u8(&c), 0);
	assert_null(cursor_bytes(&c, 0));
	assert_int_equal(cursor_left(&c), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(checksums_of_rfc_3720),
		cmocka_unit_test(checksums_of_any_alignment_length_and_pieces),
		cmocka_unit_test(varints_come_back),
		cmocka_unit_test(varints_that_are_too_long_fail),
		cmocka_unit_test(cursors_stop_at_the_end_and_stay_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
