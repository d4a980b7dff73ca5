/*
 * proto_read.h: protobuf messages that a peer has sent, field by field. The cursor of base/bytes.h
 * bounds all reading: at the first byte that is wrong it fails, and there are no more fields.
 */
#ifndef PITOT_PERFETTO_PROTO_READ_H
#define PITOT_PERFETTO_PROTO_READ_H

#include "base/bytes.h"

enum {
	PROTO_READ_VARINT = 0,
	PROTO_READ_FIXED64 = 1,
	PROTO_READ_BYTES = 2,
	PROTO_READ_FIXED32 = 5
};

struct proto_field {
	uint64_t number;
	unsigned wire;
	uint64_t value; /* of a number; else 0 */
	const uint8_t *bytes; /* of a length-delimited field; for a varint its own */
	size_t length;
};

/*
 * The next field of a message. false: there is none, or the message is broken, and then c->failed
 * is set.
 */
static inline bool proto_next(struct cursor *c, struct proto_field *f)
{
	uint64_t tag, length;

	if (c->failed || !cursor_left(c))
		return false;
	tag = cursor_varint(c);
	*f = (struct proto_field){ .number = tag >> 3, .wire = tag & 7, .bytes = c->p };
	if (f->wire == PROTO_READ_VARINT) {
		f->value = cursor_varint(c);
		f->length = (size_t)(c->p - f->bytes);
	} else if (f->wire == PROTO_READ_FIXED64) {
		f->value = cursor_u64(c);
	} else if (f->wire == PROTO_READ_FIXED32) {
		f->value = cursor_u32(c);
	} else if (f->wire == PROTO_READ_BYTES) {
		length = cursor_varint(c);
		f->bytes = cursor_bytes(c, length);
		f->length = f->bytes ? (size_t)length : 0;
	} else {
		c->failed = true; /* groups are not used */
	}
	if (!f->number)
		c->failed = true;
	return !c->failed;
}

/* The fields of a message inside a message; none when the field is no message. */
static inline struct cursor proto_message(const struct proto_field *f)
{
	return cursor_of(f->bytes, f->wire == PROTO_READ_BYTES ? f->length : 0);
}

/* The varints of a field of repeated numbers: one, or several that are packed. */
static inline struct cursor proto_numbers(const struct proto_field *f)
{
	return cursor_of(f->bytes, f->length);
}

#endif
