/* utf8.h: which bytes are UTF-8. */
#ifndef PITOT_BASE_UTF8_H
#define PITOT_BASE_UTF8_H

#include "base/compiler.h"

#define UTF8_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */

/*
 * Length of the character at bytes, of which `left` bytes (at least 1) may be read. 0 if the bytes
 * are not UTF-8; *bad is then the number of bytes that one replacement character stands for, as
 * Unicode recommends it.
 */
size_t utf8_length(const void *bytes, size_t left, size_t *bad);
/* The same, with the character in *code. */
size_t utf8_decode(const void *bytes, size_t left, uint32_t *code, size_t *bad);

#define UTF8_MAX 4 /* bytes of a character */

/* Writes a character, U+FFFD for what is none; returns its bytes. No lock, no allocation. */
size_t utf8_put(uint8_t out[UTF8_MAX], uint32_t character);

#endif
