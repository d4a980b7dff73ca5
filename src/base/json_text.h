/*
 * json_text.h: writes JSON piece by piece into a raw buffer (raw_buffer.h), for millions of objects
 * of the same few shapes. The caller writes commas and brackets; base/json.h does that by itself.
 */
#ifndef PITOT_BASE_JSON_TEXT_H
#define PITOT_BASE_JSON_TEXT_H

#include "base/json.h"
#include "base/raw_buffer.h"

#define NUMBER_MAX 24 /* bytes of the longest number */

#define TEXT(s, literal) raw_add((s), (literal), sizeof(literal) - 1)

/* Writes the digits of v so that they end at `end`. Returns their start. */
static inline char *digits_before(char *end, uint64_t v)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
				    "25262728293031323334353637383940414243444546474849"
				    "50515253545556575859606162636465666768697071727374"
				    "75767778798081828384858687888990919293949596979899";

	while (v >= 100) {
		end -= 2;
		memcpy(end, &pairs[2 * (v % 100)], 2);
		v /= 100;
	}
	if (v >= 10) {
		end -= 2;
		memcpy(end, &pairs[2 * v], 2);
	} else {
		*--end = (char)('0' + v);
	}
	return end;
}

static inline void text_u64(struct strbuf *s, uint64_t v)
{
	char digits[NUMBER_MAX], *start = digits_before(digits + sizeof(digits), v);

	raw_add(s, start, (size_t)(digits + sizeof(digits) - start));
}

static inline void text_i64(struct strbuf *s, int64_t v)
{
	if (v < 0)
		TEXT(s, "-");
	text_u64(s, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

/* ,"key":number */
#define TEXT_U64(s, key, v) (TEXT((s), ",\"" key "\":"), text_u64((s), (v)))
#define TEXT_I64(s, key, v) (TEXT((s), ",\"" key "\":"), text_i64((s), (v)))

/* Appends a time as microseconds with three decimals. */
static inline void text_us(struct strbuf *s, uint64_t ns)
{
	char digits[NUMBER_MAX], *end = digits + sizeof(digits), *start;
	uint32_t rest = (uint32_t)(ns % 1000);

	*--end = (char)('0' + rest % 10);
	*--end = (char)('0' + rest / 10 % 10);
	*--end = (char)('0' + rest / 100);
	*--end = '.';
	start = digits_before(end, ns / 1000);
	raw_add(s, start, (size_t)(digits + sizeof(digits) - start));
}

/* Appends a string with quotes and escapes. */
static inline void text_string(struct strbuf *s, const char *text, size_t length)
{
	TEXT(s, "\"");
	json_escape(s, text, length);
	raw_reserve(s, 0);
	TEXT(s, "\"");
}

#endif
