/* leb128.h: signed LEB128, and unsigned LEB128 of any length, as used by DWARF. */
#ifndef PITOT_BASE_LEB128_H
#define PITOT_BASE_LEB128_H

#include <string.h>

#include "base/bytes.h"

/* Drops bits beyond 64. *bits is the number of bits read, *last the last byte. */
static inline uint64_t cursor_leb(struct cursor *c, unsigned *bits, uint8_t *last)
{
	uint64_t v = 0;

	*bits = 0;
	do {
		*last = cursor_u8(c); /* 0 after the end */
		if (*bits < 64)
			v |= (uint64_t)(*last & 0x7f) << *bits;
		*bits += 7;
	} while (*last & 0x80);
	return v;
}

static inline uint64_t cursor_uleb(struct cursor *c)
{
	unsigned bits;
	uint8_t last;

	return cursor_leb(c, &bits, &last);
}

static inline int64_t cursor_sleb(struct cursor *c)
{
	unsigned bits;
	uint8_t last;
	uint64_t v = cursor_leb(c, &bits, &last);

	if (bits < 64 && last & 0x40)
		v |= ~UINT64_C(0) << bits;
	return (int64_t)v;
}

/* Consumes a NUL-terminated text and returns it, or NULL when the NUL is missing. */
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
