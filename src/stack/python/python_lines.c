#include "stack/python/python_code.h"

#include "base/bytes.h"

/* 3.9: pairs (bytes, lines): after that many bytes the line changes by that number, signed. */
static uint32_t lnotab_line(struct cursor c, int64_t line, uint32_t last)
{
	uint64_t address = 0;

	while (cursor_left(&c) >= 2) {
		address += cursor_u8(&c);
		if (address > last)
			break;
		line += (int8_t)cursor_u8(&c);
	}
	return line > 0 ? (uint32_t)line : 0;
}

/*
 * 3.10: pairs (bytes, lines): the line changes, then is valid for that many bytes of code; -128:
 * the bytes have no line.
 */
static uint32_t linetable_line(struct cursor c, int64_t line, uint32_t last)
{
	uint64_t end = 0;

	while (cursor_left(&c) >= 2) {
		int8_t change;

		end += cursor_u8(&c);
		change = (int8_t)cursor_u8(&c);
		if (change != -128)
			line += change;
		if (last < end)
			return change == -128 || line < 0 ? 0 : (uint32_t)line;
	}
	return 0;
}

enum { LOCATION_ONE_LINE = 10, LOCATION_NO_COLUMNS = 13, LOCATION_LONG = 14, LOCATION_NONE = 15 };

/*
 * Six bits per byte, least significant first; bit 6: more follow. The lowest bit of the number is
 * the sign.
 */
static int64_t signed_varint(struct cursor *c)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint8_t b;

	do {
		b = cursor_u8(c);
		if (shift < 36)
			v |= (uint64_t)(b & 63) << shift;
		shift += 6;
	} while (b & 64 && !c->failed);
	return v & 1 ? -(int64_t)(v >> 1) : (int64_t)(v >> 1);
}

/*
 * 3.11: entries whose first byte, the only one with bit 7 set, has a form and a number of code
 * units.
 */
static uint32_t locations_line(struct cursor c, int64_t line, uint32_t last)
{
	uint64_t end = 0;

	while (cursor_left(&c) > 0) {
		uint8_t first = cursor_u8(&c);
		unsigned form = first >> 3 & 15;

		if (form == LOCATION_LONG || form == LOCATION_NO_COLUMNS)
			line += signed_varint(&c);
		else if (form >= LOCATION_ONE_LINE && form < LOCATION_NO_COLUMNS)
			line += form - LOCATION_ONE_LINE;
		end += 2 * ((first & 7) + 1);
		if (last < end)
			return form == LOCATION_NONE || line < 0 || line > INT32_MAX
				       ? 0
				       : (uint32_t)line;
		while (cursor_left(&c) > 0 && !(*c.p & 0x80))
			cursor_u8(&c);
	}
	return 0;
}

uint32_t python_table_line(enum python_lines kind, const uint8_t *table, size_t length,
			   uint32_t first_line, uint32_t last)
{
	struct cursor c = cursor_of(table, length);

	if (kind == PYTHON_LNOTAB)
		return lnotab_line(c, first_line, last);
	return kind == PYTHON_LINETABLE ? linetable_line(c, first_line, last)
					: locations_line(c, first_line, last);
}
