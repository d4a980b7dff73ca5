/*
 * proto.h: writes protobuf fields straight into a strbuf, for writers of millions of small
 * messages.
 *
 * Only texts and bytes check for room (raw_buffer.h). A nested message starts with a length of one
 * byte and is moved up when it turns out to need more. Lengths are therefore minimal, and messages
 * up to 127 bytes, nearly all of them, are never moved.
 */
#ifndef PITOT_BASE_PROTO_H
#define PITOT_BASE_PROTO_H

#include "base/bytes.h"
#include "base/raw_buffer.h"

#define PROTO_FIELD_MAX (5 + VARINT_MAX) /* a tag and a number */

enum proto_wire { PROTO_VARINT = 0, PROTO_FIXED64 = 1, PROTO_LENGTH = 2 };

static inline void proto_raw(struct strbuf *s, uint64_t v)
{
	s->length += varint_put((uint8_t *)s->data + s->length, v);
}

ALWAYS_INLINE void proto_tag(struct strbuf *s, uint32_t field, enum proto_wire wire)
{
	uint32_t tag = field << 3 | wire;
	uint8_t *p = (uint8_t *)s->data + s->length;

	if (tag < 0x80) {
		p[0] = (uint8_t)tag;
		s->length += 1;
	} else if (tag < 0x4000) {
		p[0] = (uint8_t)(tag | 0x80);
		p[1] = (uint8_t)(tag >> 7);
		s->length += 2;
	} else {
		proto_raw(s, tag);
	}
}

ALWAYS_INLINE void proto_uint(struct strbuf *s, uint32_t field, uint64_t v)
{
	proto_tag(s, field, PROTO_VARINT);
	proto_raw(s, v);
}

/* int32 and int64; ten bytes when negative. */
ALWAYS_INLINE void proto_int(struct strbuf *s, uint32_t field, int64_t v)
{
	proto_uint(s, field, (uint64_t)v);
}

static inline void proto_fixed64(struct strbuf *s, uint32_t field, uint64_t v)
{
	proto_tag(s, field, PROTO_FIXED64);
	raw_add(s, &v, sizeof(v));
}

static inline void proto_double(struct strbuf *s, uint32_t field, double v)
{
	proto_tag(s, field, PROTO_FIXED64);
	raw_add(s, &v, sizeof(v));
}

/* Opens a nested message. Returns the token for proto_close(). */
ALWAYS_INLINE size_t proto_open(struct strbuf *s, uint32_t field)
{
	proto_tag(s, field, PROTO_LENGTH);
	return ++s->length;
}

void proto_close_long(struct strbuf *s, size_t token);

ALWAYS_INLINE void proto_close(struct strbuf *s, size_t token)
{
	size_t length = s->length - token;

	if (likely(length < 0x80))
		s->data[token - 1] = (char)length;
	else
		proto_close_long(s, token);
}

/*
 * Decodes the first `max` pairs of lower-case hex digits. Returns the number of bytes, 0 when the
 * text is not hexadecimal.
 */
size_t hex_decode(const char *text, uint8_t *bytes, size_t max);

/* Appends bytes that are valid field contents. */
void proto_bytes(struct strbuf *s, uint32_t field, const void *bytes, size_t length);
/* Appends a text; invalid UTF-8 becomes U+FFFD. */
void proto_text(struct strbuf *s, uint32_t field, const char *text, size_t length);
/* Appends a text that is known to be ASCII, such as a literal. */
void proto_string(struct strbuf *s, uint32_t field, const char *text);

#endif
