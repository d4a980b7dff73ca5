#include "base/pb.h"

#include "base/bytes.h"

enum { WIRE_VARINT = 0, WIRE_LENGTH = 2 };

#define OPEN_BYTES 4
#define MESSAGE_MAX (((size_t)1 << 28) - 1)

/* The caller has reserved room for it. */
static void put_varint(struct strbuf *b, uint64_t v)
{
	b->length += varint_put((uint8_t *)b->data + b->length, v);
}

static bool put_tag(struct strbuf *b, uint32_t field, unsigned wire, size_t room)
{
	if (!strbuf_reserve(b, VARINT_MAX + room))
		return false;
	put_varint(b, (uint64_t)field << 3 | wire);
	return true;
}

static void put_end(struct strbuf *b)
{
	b->data[b->length] = '\0';
}

void pb_varint(struct strbuf *b, uint32_t field, uint64_t value)
{
	if (!put_tag(b, field, WIRE_VARINT, VARINT_MAX))
		return;
	put_varint(b, value);
	put_end(b);
}

void pb_int(struct strbuf *b, uint32_t field, int64_t value)
{
	pb_varint(b, field, (uint64_t)value);
}

void pb_bytes(struct strbuf *b, uint32_t field, const void *bytes, size_t length)
{
	if (length > PTRDIFF_MAX / 2) {
		b->failed = true;
		return;
	}
	if (!put_tag(b, field, WIRE_LENGTH, VARINT_MAX + length))
		return;
	put_varint(b, length);
	strbuf_add(b, bytes, length);
}

size_t pb_open(struct strbuf *b, uint32_t field)
{
	if (!put_tag(b, field, WIRE_LENGTH, OPEN_BYTES))
		return 0;
	memset(b->data + b->length, 0, OPEN_BYTES);
	b->length += OPEN_BYTES;
	put_end(b);
	return b->length;
}

void pb_close(struct strbuf *b, size_t token)
{
	size_t length;
	char *p;

	if (b->failed)
		return;
	length = b->length - token;
	if (length > MESSAGE_MAX) {
		b->failed = true;
		return;
	}
	p = b->data + token - OPEN_BYTES;
	for (unsigned i = 0; i < OPEN_BYTES; i++)
		p[i] = (char)(((length >> (7 * i)) & 0x7f) | (i < OPEN_BYTES - 1 ? 0x80 : 0));
}
