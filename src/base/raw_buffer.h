/*
 * raw_buffer.h: a strbuf that is written without checking each step, for writers of millions of
 * small pieces.
 *
 * Every reservation leaves RAW_ROOM bytes beyond what was requested. Texts (json_text.h, proto.h)
 * reserve for themselves, so one reservation is enough before each event, and one before a list of
 * any length. When memory is exhausted, the buffer is marked as failed and cleared, so that further
 * writes land in the RAW_ROOM bytes that it always has. The caller checks `failed` once in a while.
 */
#ifndef PITOT_BASE_RAW_BUFFER_H
#define PITOT_BASE_RAW_BUFFER_H

#include <string.h>

#include "base/strbuf.h"

#define RAW_ROOM ((size_t)64 << 10) /* more than is ever written between two reservations */

/* Without memory returns false and sets s->failed. Not usable after a failed first reservation. */
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

/*
 * Adds the first bytes of a small array. Copies all of it, whose size is a constant, because
 * compilers copy a length that is known to be small by a slow string instruction.
 */
#define raw_add_part(s, array, used)                                                               \
	do {                                                                                       \
		memcpy((s)->data + (s)->length, (array), sizeof(array));                           \
		(s)->length += (used);                                                             \
	} while (0)

#endif
