/* leb128.h: signed LEB128, and unsigned LEB128 of any length, as DWARF has them. */
#ifndef PITOT_SYMBOL_LEB128_H
#define PITOT_SYMBOL_LEB128_H

#include "base/bytes.h"

/* Bits beyond 64 are dropped. */
static inline uint64_t cursor_uleb(struct cursor *c)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint8_t b;

	do {
		b = cursor_u8(c);
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
	} while (b & 0x80);
	return v;
}

static inline int64_t cursor_sleb(struct cursor *c)
{
	uint64_t v = 0;
	unsigned shift = 0;
	uint8_t b;

	do {
		b = cursor_u8(c);
		if (shift < 64)
			v |= (uint64_t)(b & 0x7f) << shift;
		shift += 7;
	} while (b & 0x80);
	if (shift < 64 && b & 0x40)
		v |= ~UINT64_C(0) << shift;
	return (int64_t)v;
}

/* The text up to the next NUL, which is consumed too; NULL when there is none. */
static inline const char *cursor_text(struct cursor *c)
{
	const uint8_t *text = c->p;
	const uint8_t *end = c->failed ? NULL : memchr(text, 0, cursor_left(c));

	if (!end) {
		c->failed = true;
		return NULL;
	}
	c->p = end + 1;
	return (const char *)text;
}

#endif
