/*
 * proto_read.h: decodes protobuf messages field by field. The cursor of base/bytes.h
 * bounds all reading; at the first malformed byte it fails and no more fields follow.
 */
#ifndef PITOT_BASE_PROTO_READ_H
#define PITOT_BASE_PROTO_READ_H

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
	const uint8_t *bytes; /* of a length-delimited field, or of a varint itself */
	size_t length;
};

/*
 * Reads the next field. Returns false at the end, or if the message is malformed (c->failed is then
 * set).
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

/* Returns the fields of a nested message; none if the field is not a message. */
static inline struct cursor proto_message(const struct proto_field *f)
{
	return cursor_of(f->bytes, f->wire == PROTO_READ_BYTES ? f->length : 0);
}

/* Returns the varints of a repeated numeric field: one, or several packed ones. */
static inline struct cursor proto_numbers(const struct proto_field *f)
{
	return cursor_of(f->bytes, f->length);
}

#endif
