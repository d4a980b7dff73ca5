#include "export/tables/flatbuffer.h"

#include <string.h>

#include "base/bytes.h"

#define FIELDS_MAX 8u

static void add_zeros(struct strbuf *b, size_t count)
{
	if (strbuf_reserve(b, count)) {
		memset(b->data + b->length, 0, count + 1);
		b->length += count;
	}
}

/* Pads so that what comes `before` bytes later is at a multiple of 8. */
static void pad(struct strbuf *b, size_t before)
{
	add_zeros(b, (8 - (b->length + before) % 8) % 8);
}

/* Before each table stands the list of where its fields are. */
size_t fb_table(struct strbuf *b, const char *sizes)
{
	size_t count = strlen(sizes), list_bytes = 4 + 2 * count, end = 4, list;
	uint16_t head[2 + FIELDS_MAX] = { (uint16_t)list_bytes };
	int32_t distance = (int32_t)list_bytes;

	for (size_t i = 0; i < count; i++) {
		size_t size = (size_t)(sizes[i] - '0');

		if (!size)
			continue;
		end = (end + size - 1) / size * size;
		head[2 + i] = (uint16_t)end;
		end += size;
	}
	head[1] = (uint16_t)end;
	pad(b, list_bytes);
	list = b->length;
	strbuf_add(b, head, list_bytes);
	add_zeros(b, end);
	if (!b->failed)
		memcpy(b->data + list + list_bytes, &distance, sizeof(distance));
	return list + list_bytes;
}

size_t fb_field(const struct strbuf *b, size_t table, unsigned field)
{
	if (b->failed)
		return 0;
	return table + load_u16(b->data + table - load_u32(b->data + table) + 4 + 2 * field);
}

void fb_set(struct strbuf *b, size_t table, unsigned field, const void *value, size_t size)
{
	if (!b->failed)
		memcpy(b->data + fb_field(b, table, field), value, size);
}

size_t fb_vector(struct strbuf *b, size_t count, size_t item_bytes)
{
	uint32_t length = (uint32_t)count;
	size_t place;

	pad(b, sizeof(length));
	place = b->length;
	strbuf_add(b, &length, sizeof(length));
	add_zeros(b, count * item_bytes);
	return place;
}

size_t fb_text(struct strbuf *b, const char *text)
{
	size_t length = strlen(text), place = fb_vector(b, length + 1, 1);

	if (!b->failed) {
		store_u32(b->data + place, (uint32_t)length); /* the NUL is not counted */
		memcpy(b->data + place + 4, text, length);
	}
	return place;
}

void fb_link(struct strbuf *b, size_t from, size_t to)
{
	if (!b->failed)
		store_u32(b->data + from, (uint32_t)(to - from));
}
