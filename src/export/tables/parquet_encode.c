#include "export/tables/parquet_encode.h"

#include <string.h>

#include "base/bytes.h"

#define BLOCK 128u
#define MINIBLOCKS 4u
#define MINIBLOCK (BLOCK / MINIBLOCKS)
#define GROUP 8u /* values that are packed together */

static void add_varint(struct strbuf *out, uint64_t v)
{
	uint8_t bytes[VARINT_MAX];

	strbuf_add(out, bytes, varint_put(bytes, v));
}

/* Adds `count` (at most 32) values of `width` bits, the first in the lowest bits. */
static void add_packed(struct strbuf *out, const uint64_t *values, size_t count, unsigned width)
{
	uint8_t bytes[MINIBLOCK * 8 + 8];
	unsigned __int128 bits = 0;
	unsigned used = 0;
	size_t length = 0;

	for (size_t i = 0; i < count; i++) {
		bits |= (unsigned __int128)values[i] << used;
		used += width;
		for (; used >= 8; used -= 8) {
			bytes[length++] = (uint8_t)bits;
			bits >>= 8;
		}
	}
	if (used)
		bytes[length++] = (uint8_t)bits;
	strbuf_add(out, bytes, length);
}

/* Returns how many values from `at` on are equal. */
static size_t run_length(const uint32_t *values, size_t at, size_t count)
{
	size_t end = at + 1;

	while (end < count && values[end] == values[at])
		end++;
	return end - at;
}

/* Packs groups of 8 values up to the next long run. Returns where that begins. */
static size_t add_groups(struct strbuf *out, const uint32_t *values, size_t at, size_t count,
			 unsigned width)
{
	size_t end = at;
	uint64_t group[GROUP];

	do
		end += GROUP;
	while (end < count && run_length(values, end, count) < GROUP);
	end = MIN(end, count);
	add_varint(out, (end - at + GROUP - 1) / GROUP << 1 | 1);
	for (; at < end; at += GROUP) {
		for (size_t i = 0; i < GROUP; i++)
			group[i] = at + i < end ? values[at + i] : 0;
		add_packed(out, group, GROUP, width);
	}
	return end;
}

void parquet_hybrid(struct strbuf *out, const uint32_t *values, size_t count, unsigned width)
{
	for (size_t at = 0; at < count;) {
		size_t run = run_length(values, at, count);

		if (run < GROUP && run < count - at) {
			at = add_groups(out, values, at, count, width);
			continue;
		}
		add_varint(out, run << 1);
		strbuf_add(out, &values[at], (width + 7) / 8); /* little-endian */
		at += run;
	}
}

static unsigned bits_of(uint64_t v)
{
	return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

/* Adds a block of deltas. */
static void add_block(struct strbuf *out, uint64_t *deltas, size_t count)
{
	uint8_t widths[MINIBLOCKS] = { 0 };
	int64_t least = (int64_t)deltas[0];

	for (size_t i = 1; i < count; i++)
		least = MIN(least, (int64_t)deltas[i]);
	for (size_t i = 0; i < BLOCK; i++) {
		uint64_t v = i < count ? deltas[i] - (uint64_t)least : 0;

		deltas[i] = v;
		widths[i / MINIBLOCK] = (uint8_t)MAX(widths[i / MINIBLOCK], bits_of(v));
	}
	add_varint(out, zigzag(least));
	strbuf_add(out, widths, sizeof(widths));
	for (size_t m = 0; m < MINIBLOCKS && m * MINIBLOCK < count; m++)
		add_packed(out, deltas + m * MINIBLOCK, MINIBLOCK, widths[m]);
}

void parquet_delta(struct strbuf *out, const uint64_t *values, size_t count, bool is_32)
{
	uint64_t deltas[BLOCK];

	add_varint(out, BLOCK);
	add_varint(out, MINIBLOCKS);
	add_varint(out, count);
	add_varint(out, !count ? 0 : zigzag(is_32 ? (int32_t)values[0] : (int64_t)values[0]));
	for (size_t at = 1; at < count; at += BLOCK) {
		size_t n = MIN(count - at, (size_t)BLOCK);

		for (size_t i = 0; i < n; i++) {
			uint64_t delta = values[at + i] - values[at + i - 1];

			deltas[i] = is_32 ? (uint64_t)(int64_t)(int32_t)delta : delta;
		}
		add_block(out, deltas, n);
		/* 32 bits: the sum wraps, so differences above 2^31 have 32 bits, too. */
	}
}

/* ---- Thrift ---- */

static void add_field(struct thrift *t, int field, enum thrift_type type)
{
	int *last = &t->last[t->depth];

	if (!field)
		return;
	strbuf_addc(t->out, (char)((field - *last) << 4 | (int)type)); /* they are near */
	*last = field;
}

void thrift_bool(struct thrift *t, int field, bool value)
{
	add_field(t, field, value ? THRIFT_TRUE : THRIFT_FALSE);
}

void thrift_byte(struct thrift *t, int field, uint8_t value)
{
	add_field(t, field, THRIFT_BYTE);
	strbuf_addc(t->out, (char)value);
}

void thrift_i32(struct thrift *t, int field, int32_t value)
{
	add_field(t, field, THRIFT_I32);
	add_varint(t->out, zigzag(value));
}

void thrift_i64(struct thrift *t, int field, int64_t value)
{
	add_field(t, field, THRIFT_I64);
	add_varint(t->out, zigzag(value));
}

void thrift_binary(struct thrift *t, int field, const void *bytes, size_t length)
{
	add_field(t, field, THRIFT_BINARY);
	add_varint(t->out, length);
	strbuf_add(t->out, bytes, length);
}

void thrift_text(struct thrift *t, int field, const char *text)
{
	thrift_binary(t, field, text, strlen(text));
}

void thrift_open(struct thrift *t, int field)
{
	add_field(t, field, THRIFT_STRUCT);
	t->last[++t->depth] = 0;
}

void thrift_close(struct thrift *t)
{
	strbuf_addc(t->out, 0);
	t->depth--;
}

void thrift_list(struct thrift *t, int field, enum thrift_type items, size_t count)
{
	add_field(t, field, THRIFT_LIST);
	strbuf_addc(t->out, (char)(MIN(count, (size_t)15) << 4 | (unsigned)items));
	if (count >= 15)
		add_varint(t->out, count);
}

void thrift_item_i32(struct thrift *t, int32_t value)
{
	add_varint(t->out, zigzag(value));
}

void thrift_item_text(struct thrift *t, const char *text)
{
	thrift_text(t, 0, text);
}
