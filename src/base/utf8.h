/* utf8.h: validates, decodes and encodes UTF-8. */
#ifndef PITOT_BASE_UTF8_H
#define PITOT_BASE_UTF8_H

#include <stdbool.h>

#include "base/compiler.h"

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/*
 * Returns the length of the character at `bytes`, of which `left` bytes (at least 1) may be read,
 * or 0 when they are not UTF-8. *bad is then the number of bytes that one replacement character
 * stands for, as recommended by Unicode.
 */
size_t utf8_length(const void *bytes, size_t left, size_t *bad);
/* Same as utf8_length(), and sets *code to the character. */
size_t utf8_decode(const void *bytes, size_t left, uint32_t *code, size_t *bad);

/*
 * Whether a terminal obeys the character, or it hides or reorders others: controls (C0, C1, DEL),
 * bidi controls, zero width, separators of lines, tags. Names of others are escaped there.
 */
bool utf8_is_harmful(uint32_t character);

#define UTF8_MAX 4 /* bytes of a character */

/* Writes a character, or U+FFFD if it is invalid. Returns its length. Async-signal-safe. */
size_t utf8_put(uint8_t out[UTF8_MAX], uint32_t character);

#endif
