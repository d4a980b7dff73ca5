/*
 * strbuf.h: a growing string of bytes, always terminated by a NUL that is not counted.
 *
 * Failure is sticky: once an allocation fails, `failed` is set, later appends do nothing, and the
 * caller checks once at the end. STRBUF_INIT is a valid empty buffer.
 */
#ifndef PITOT_BASE_STRBUF_H
#define PITOT_BASE_STRBUF_H

#include <stdarg.h>
#include <stdbool.h>

#include "base/compiler.h"

struct strbuf {
	char *data;		/* never NULL after the first append that worked */
	size_t length;
	size_t capacity;
	bool failed;
};

#define STRBUF_INIT { NULL, 0, 0, false }

/* frees the memory; the struct is an empty buffer again */
void strbuf_release(struct strbuf *s);
void strbuf_clear(struct strbuf *s);		/* length 0, keeps memory and `failed` */
/* room for extra more bytes (and NUL); false sets failed */
bool strbuf_reserve(struct strbuf *s, size_t extra);
void strbuf_add(struct strbuf *s, const void *bytes, size_t length);
void strbuf_adds(struct strbuf *s, const char *text);
void strbuf_addc(struct strbuf *s, char c);
void strbuf_addu(struct strbuf *s, uint64_t v);	/* decimal */
void strbuf_addf(struct strbuf *s, const char *format, ...) PRINTF_LIKE(2, 3);
void strbuf_vaddf(struct strbuf *s, const char *format, va_list args) PRINTF_LIKE(2, 0);
const char *strbuf_text(const struct strbuf *s);	/* "" when empty; never NULL */

#define _cleanup_strbuf_ _cleanup_(strbuf_release)

#endif
