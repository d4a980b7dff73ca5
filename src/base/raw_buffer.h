/*
 * raw_buffer.h: a strbuf that is written into without a check at each step, for writers of millions
 * of small pieces.
 *
 * Every reservation leaves RAW_ROOM bytes behind what it is for. Texts (json_text.h, proto.h)
 * reserve for themselves, so fixed shapes need no reservation of their own: one at the beginning of
 * each event is enough, and one before a list of any length. Without memory the buffer is marked as
 * failed and begun anew, so that what follows lands in the RAW_ROOM bytes that it always has; the
 * caller checks `failed` once in a while.
 */
#ifndef PITOT_BASE_RAW_BUFFER_H
#define PITOT_BASE_RAW_BUFFER_H

#include <string.h>

#include "base/strbuf.h"

#define RAW_ROOM ((size_t)64 << 10) /* more than is ever written between two reservations */

/*
 * False (and s->failed) without memory. A buffer whose first reservation failed must not be used.
 */
static inline bool raw_reserve(struct strbuf *s, size_t bytes)
{
	if (likely(strbuf_reserve(s, bytes + RAW_ROOM)))
		return true;
	s->length = 0;
	return false;
}

static inline bool raw_init(struct strbuf *s)
{
	return raw_reserve(s, 0);
}

static inline void raw_add(struct strbuf *s, const void *bytes, size_t length)
{
	memcpy(s->data + s->length, bytes, length);
	s->length += length;
}

#endif
