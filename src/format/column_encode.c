/* Vectorizes the loops over a column's values; clang does that at -O2 already. */
#if defined(__OPTIMIZE__) && !defined(__clang__)
#pragma GCC optimize("O3")
#endif

#include "format/column_encode.h"

#include <errno.h>

#include "arch/processor.h"
#include "base/bytes.h"
#include "format/segment.h"

#define SLOT_BITS 10 /* hash slots, four for each value of a full dictionary */
#define SLOTS (1u << SLOT_BITS)
#define CHUNK_HEADER_MAX (2 + 1 + 3 * VARINT_MAX)
#define COMPRESS_MIN 48u /* smaller data do not pay for a zstd frame */
#define WINDOW_LOG 17 /* covers the eight planes of a full block */

/* Makes room in e->data for any encoding but BYTES. */
static int reserve_data(struct column_encoder *e)
{
	strbuf_clear(&e->data);
	if (strbuf_reserve(&e->data, 16 * e->rows_max + (DICTIONARY_MAX + 2) * VARINT_MAX))
		return 0;
	e->data.failed = false;
	return -ENOMEM;
}

int column_encoder_init(struct column_encoder *e, size_t rows_max, int level)
{
	*e = (struct column_encoder){ .rows_max = rows_max };
	e->zstd = ZSTD_createCCtx();
	e->stored = malloc(rows_max * sizeof(*e->stored));
	e->slots = malloc(SLOTS * sizeof(*e->slots));
	if (!e->zstd || !e->stored || !e->slots || reserve_data(e) < 0)
		goto fail;
	if (ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_compressionLevel, level)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_windowLog, WINDOW_LOG)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_contentSizeFlag, 0)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_checksumFlag, 0)) ||
	    ZSTD_isError(ZSTD_CCtx_setParameter(e->zstd, ZSTD_c_dictIDFlag, 0)))
		goto fail;
	return 0;
fail:
	column_encoder_release(e);
	return -ENOMEM;
}

void column_encoder_release(struct column_encoder *e)
{
	ZSTD_freeCCtx(e->zstd);
	free(e->stored);
	free(e->slots);
	strbuf_release(&e->data);
	*e = (struct column_encoder){ 0 };
}

static bool is_zigzag(const struct column_input *in)
{
	return in->is_signed || (in->flags & CHUNK_BASE);
}

/* Returns the number of bytes that hold all bits of `bits`; at least 1. */
static unsigned byte_width(uint64_t bits)
{
	return bits ? (71 - (unsigned)__builtin_clzll(bits)) / 8 : 1;
}

struct column_stats {
	size_t runs, delta_runs;
	unsigned width, delta_width;
};

/*
 * Also stores the zigzag differences in e->stored[1 …], which most columns need next. No step
 * depends on the previous one, so that the loop can be vectorized.
 */
ALWAYS_INLINE struct column_stats measure(struct column_encoder *e, const struct column_input *in)
{
	const uint64_t *restrict v = in->values;
	uint64_t *restrict stored = e->stored;
	uint64_t bits = 0, delta_bits = 0, runs = 1, delta_runs = 1;
	size_t count = in->count; /* a store to `stored` could change in->count */

	for (size_t i = 1; i < count; i++) {
		uint64_t delta = zigzag((int64_t)(v[i] - v[i - 1]));

		stored[i] = delta;
		delta_bits |= delta;
		runs += delta != 0;
	}
	for (size_t i = 2; i < count; i++)
		delta_runs += stored[i] != stored[i - 1];
	if (is_zigzag(in))
		for (size_t i = 0; i < count; i++)
			bits |= zigzag((int64_t)v[i]);
	else
		for (size_t i = 0; i < count; i++)
			bits |= v[i];
	return (struct column_stats){ runs, delta_runs, byte_width(bits), byte_width(delta_bits) };
}

/* Returns the index of v in the dictionary, adding it if it is new, or -1 when that is full. */
static int dictionary_index(struct column_encoder *e, uint64_t v, unsigned *count)
{
	size_t slot = v * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SLOT_BITS);

	while (e->slots[slot]) {
		if (e->distinct[e->slots[slot] - 1] == v)
			return e->slots[slot] - 1;
		slot = (slot + 1) % SLOTS;
	}
	if (*count == DICTIONARY_MAX)
		return -1;
	e->distinct[(*count)++] = v;
	e->slots[slot] = (uint16_t)*count;
	return (int)*count - 1;
}

/* ENCODING_DICTIONARY. False when there are too many values or `limit` bytes are too few. */
static bool try_dictionary(struct column_encoder *e, const uint64_t *values, size_t count,
			   size_t limit)
{
	uint8_t *start = (uint8_t *)e->data.data, *p = start;
	uint8_t *indexes = start + 8 * e->rows_max; /* stored here while the dictionary grows */
	unsigned distinct = 0;

	memset(e->slots, 0, SLOTS * sizeof(*e->slots));
	for (size_t i = 0; i < count; i++) {
		int index = dictionary_index(e, values[i], &distinct);

		if (index < 0)
			return false;
		indexes[i] = (uint8_t)index;
	}
	p += varint_put(p, distinct);
	for (unsigned i = 0; i < distinct; i++)
		p += varint_put(p, e->distinct[i]);
	if ((size_t)(p - start) + count >= limit)
		return false;
	memmove(p, indexes, count);
	e->data.length = (size_t)(p - start) + count;
	return true;
}

static void put_run(struct column_encoder *e, size_t length, uint64_t value)
{
	uint8_t *p = (uint8_t *)e->data.data + e->data.length;

	p += varint_put(p, length);
	p += varint_put(p, value);
	e->data.length = (size_t)(p - (uint8_t *)e->data.data);
}

static void put_runs(struct column_encoder *e, const uint64_t *values, size_t count)
{
	for (size_t i = 0; i < count;) {
		size_t first = i++;

		while (i < count && values[i] == values[first])
			i++;
		put_run(e, i - first, values[first]);
	}
}

ALWAYS_INLINE void put_planes(struct column_encoder *e, const uint64_t *restrict values,
			      size_t count, unsigned width)
{
	uint8_t *restrict p = (uint8_t *)e->data.data;

	*p++ = (uint8_t)width;
	for (unsigned shift = 0; shift < 8 * width; shift += 8, p += count)
		for (size_t i = 0; i < count; i++)
			p[i] = (uint8_t)(values[i] >> shift);
	e->data.length = 1 + width * count;
}

/*
 * Compresses the data in pieces with separate entropy tables, because the planes of a column have
 * little in common. Returns the size, or 0 when compression saves nothing.
 */
static size_t compress(struct column_encoder *e, uint8_t *to, size_t capacity, size_t piece)
{
	ZSTD_outBuffer out = { to, capacity, 0 };
	size_t done = 0, left = 1;

	ZSTD_CCtx_reset(e->zstd, ZSTD_reset_session_only);
	while (done < e->data.length) {
		size_t end = MIN(e->data.length, done + piece + (done == 0));
		ZSTD_inBuffer in = { e->data.data + done, end - done, 0 };
		bool last = end == e->data.length;

		do {
			left = ZSTD_compressStream2(e->zstd, &out, &in,
						    last ? ZSTD_e_end : ZSTD_e_flush);
		} while (!ZSTD_isError(left) && left && out.pos < out.size);
		if (left)
			return 0;
		done = end;
	}
	return out.pos < e->data.length ? out.pos : 0;
}

/* Appends the chunk whose data is in e->data. Each `piece` bytes get an entropy table. */
static int put_chunk(struct column_encoder *e, unsigned column, uint8_t flags, uint64_t seed,
		     size_t piece, struct strbuf *out)
{
	uint8_t header[CHUNK_HEADER_MAX], *p = header, *data;
	size_t length = e->data.length, stored = 0;

	if (!strbuf_reserve(out, sizeof(header) + length)) {
		out->failed = false;
		return -ENOMEM;
	}
	data = (uint8_t *)out->data + out->length + sizeof(header);
	if (length >= COMPRESS_MIN)
		stored = compress(e, data, length, piece);
	p += varint_put(p, column);
	*p++ = stored ? flags | CHUNK_ZSTD : flags;
	if (flags & CHUNK_DELTA)
		p += varint_put(p, seed);
	p += varint_put(p, length);
	p += varint_put(p, stored ? stored : length);
	strbuf_add(out, header, (size_t)(p - header));
	if (stored)
		memmove(out->data + out->length, data, stored);
	else
		memcpy(out->data + out->length, e->data.data, length);
	out->length += stored ? stored : length;
	return 0;
}

/* Returns the values to encode. measure() has already stored the differences. */
ALWAYS_INLINE const uint64_t *
values_to_encode(struct column_encoder *e, const struct column_input *in, bool delta, uint64_t seed)
{
	const uint64_t *v = in->values;

	if (delta)
		e->stored[0] = zigzag((int64_t)(v[0] - seed));
	else if (!is_zigzag(in))
		return v;
	else
		for (size_t i = 0; i < in->count; i++)
			e->stored[i] = zigzag((int64_t)v[i]);
	return e->stored;
}

ALWAYS_INLINE int encode(struct column_encoder *e, const struct column_input *in,
			 struct strbuf *out)
{
	struct column_stats s = measure(e, in);
	size_t run_bytes = s.runs * (2 + s.width),
	       delta_run_bytes = s.delta_runs * (2 + s.delta_width);
	bool delta = s.delta_width < s.width || delta_run_bytes < run_bytes / 4;
	unsigned width = delta ? s.delta_width : s.width;
	size_t plane_bytes = 1 + width * in->count, runs;
	const uint64_t *values;
	uint8_t flags = in->flags;
	uint64_t seed = 0;

	if (run_bytes <= 16)
		delta = false;
	runs = delta ? delta_run_bytes : run_bytes;
	if (delta) {
		flags |= CHUNK_DELTA;
		seed = in->count > 1 ? 2 * in->values[0] - in->values[1] : in->values[0];
	}
	if (reserve_data(e) < 0)
		return -ENOMEM;
	values = values_to_encode(e, in, delta, seed);
	if (runs <= 32 || runs < in->count / 8 || runs < plane_bytes / 16) {
		if (s.runs == 1)
			put_run(e, in->count, values[0]);
		else
			put_runs(e, values, in->count);
		return put_chunk(e, in->column, flags | ENCODING_RUNS, seed, SIZE_MAX / 2, out);
	}
	if (width > 1 && try_dictionary(e, values, in->count, plane_bytes))
		return put_chunk(e, in->column, flags | ENCODING_DICTIONARY, seed, SIZE_MAX / 2,
				 out);
	put_planes(e, values, in->count, width);
	return put_chunk(e, in->column, flags | ENCODING_PLANES, seed, in->count, out);
}

WIDE_VECTORS static int encode_wide(struct column_encoder *e, const struct column_input *in,
				    struct strbuf *out)
{
	return encode(e, in, out);
}

int column_encode(struct column_encoder *e, const struct column_input *in, struct strbuf *out)
{
	if (arch_has_wide_vectors())
		return encode_wide(e, in, out);
	return encode(e, in, out);
}

int column_encode_bytes(struct column_encoder *e, unsigned column, const uint64_t *spans,
			size_t count, const uint8_t *bytes, struct strbuf *out)
{
	strbuf_clear(&e->data);
	for (size_t i = 0; i < count; i++) {
		uint8_t length[VARINT_MAX];

		strbuf_add(&e->data, length, varint_put(length, (uint32_t)spans[i]));
	}
	for (size_t i = 0; i < count; i++)
		strbuf_add(&e->data, bytes + (spans[i] >> 32), (uint32_t)spans[i]);
	if (e->data.failed) {
		e->data.failed = false;
		return -ENOMEM;
	}
	return put_chunk(e, column, ENCODING_BYTES, 0, SIZE_MAX / 2, out);
}
