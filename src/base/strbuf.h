/*
 * strbuf.h: a growing byte string with a terminating NUL that is not counted.
 *
 * Failure is sticky: after a failed allocation `failed` is set and appends do nothing; the caller
 * checks once at the end. STRBUF_INIT is a valid empty buffer.
 */
#ifndef PITOT_BASE_STRBUF_H
#define PITOT_BASE_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>

#include "base/compiler.h"

struct strbuf {
	char *data;		/* not NULL after the first successful append */
	size_t length;
	size_t capacity;
	bool failed;
};

#define STRBUF_INIT { NULL, 0, 0, false }

/* Frees the memory and resets the buffer to empty. */
void strbuf_release(struct strbuf *s);
void strbuf_clear(struct strbuf *s);		/* length 0; keeps memory and `failed` */
/* Makes room for `extra` more bytes and the NUL; on failure returns false and sets `failed`. */
bool strbuf_reserve(struct strbuf *s, size_t extra);
void strbuf_add(struct strbuf *s, const void *bytes, size_t length);
void strbuf_adds(struct strbuf *s, const char *text);
/* Appends a text as UTF-8: U+FFFD for bytes that are none. */
void strbuf_add_utf8(struct strbuf *s, const char *text, size_t length);
/* Appends bytes as base64, with padding. */
void strbuf_add_base64(struct strbuf *s, const void *bytes, size_t length);
void strbuf_addc(struct strbuf *s, char c);
void strbuf_addu(struct strbuf *s, uint64_t v);	/* decimal */
void strbuf_addf(struct strbuf *s, const char *format, ...) PRINTF_LIKE(2, 3);
void strbuf_vaddf(struct strbuf *s, const char *format, va_list args) PRINTF_LIKE(2, 0);
const char *strbuf_text(const struct strbuf *s);	/* "" when empty; never NULL */

#define _cleanup_strbuf_ _cleanup_(strbuf_release)

#endif
