/*
 * raw_buffer.h: a strbuf that is written into without a check at each step, for writers of millions of small pieces.
 *
 * raw_reserve first, for all that is written until the next one. When there is no memory the buffer is marked as failed
 * and begun anew, so that what follows lands in the RAW_SPARE bytes that it always has; the caller looks at `failed` once
 * in a while.
 */
#ifndef PITOT_EXPORT_RAW_BUFFER_H
#define PITOT_EXPORT_RAW_BUFFER_H

#include <string.h>

#include "base/strbuf.h"

#define RAW_SPARE ((size_t)64 << 10) /* more than is ever written between two reservations */

/* Makes a buffer fit for the functions below. False without memory: then it must not be used. */
static inline bool raw_init(struct strbuf *s)
{
	return strbuf_reserve(s, RAW_SPARE);
}

/* False (and s->failed) without memory. */
static inline bool raw_reserve(struct strbuf *s, size_t bytes)
{
	if (likely(strbuf_reserve(s, bytes)))
		return true;
	s->length = 0;
	return false;
}

static inline void raw_add(struct strbuf *s, const void *bytes, size_t length)
{
	memcpy(s->data + s->length, bytes, length);
	s->length += length;
}

#endif
