#include "perfetto/chunks.h"

#define SIZE_BYTES 3 /* of the longest length before a fragment */
#define FRAGMENT_MIN 64 /* minimum bytes for splitting a packet */

void chunk_begin(struct chunk *c, uint16_t writer, uint32_t id)
{
	store_u32(c->bytes, id);
	store_u16(c->bytes + 4, writer);
	c->packets = 0;
	c->length = CHUNK_HEADER;
}

size_t chunk_room_for(const struct chunk *c, size_t left, bool is_continuation)
{
	size_t room = CHUNK_BYTES - c->length;
	bool whole = !is_continuation && left <= CHUNK_BYTES - CHUNK_HEADER - SIZE_BYTES;

	if ((c->packets & CHUNK_PACKETS) == CHUNK_PACKETS ||
	    room < SIZE_BYTES + (whole ? left : MIN(left, FRAGMENT_MIN)))
		return 0;
	return MIN(left, room - SIZE_BYTES);
}

uint8_t *chunk_add(struct chunk *c, size_t length, size_t left, bool is_continuation)
{
	uint8_t *p;

	c->length += varint_put(c->bytes + c->length, length);
	p = c->bytes + c->length;
	c->length += length;
	c->packets++;
	c->packets |= is_continuation ? CHUNK_CONTINUED : 0;
	c->packets |= length < left ? CHUNK_CONTINUES : 0;
	return p;
}

void chunk_end(struct chunk *c)
{
	store_u16(c->bytes + 6, c->packets);
}
