#include "format/column_decode.h"

#include <errno.h>

#include "base/error.h"
#include "format/segment.h"

/* The largest data of `rows` values: runs of one value each, and a full dictionary. */
static uint64_t data_bytes_max(size_t rows, uint8_t flags)
{
	if (CHUNK_ENCODING(flags) == ENCODING_BYTES)
		return BLOCK_BYTES_MAX;
	return rows * (3 + VARINT_MAX) + 258 * VARINT_MAX;
}

int chunk_next(struct cursor *payload, size_t rows, struct chunk *chunk)
{
	uint64_t decoded, stored;

	*chunk = (struct chunk){ .column = cursor_varint(payload), .flags = cursor_u8(payload) };
	if (chunk->flags & CHUNK_DELTA)
		chunk->seed = cursor_varint(payload);
	decoded = cursor_varint(payload);
	stored = cursor_varint(payload);
	if (payload->failed || stored > cursor_left(payload) || chunk->flags & CHUNK_UNUSED ||
	    decoded > data_bytes_max(rows, chunk->flags) ||
	    (!(chunk->flags & CHUNK_ZSTD) && decoded != stored))
		return E_FORMAT;
	chunk->decoded_bytes = (size_t)decoded;
	chunk->stored_bytes = (size_t)stored;
	chunk->data = cursor_bytes(payload, chunk->stored_bytes);
	return 0;
}

void column_decoder_release(struct column_decoder *d)
{
	ZSTD_freeDCtx(d->zstd);
	strbuf_release(&d->data);
	d->zstd = NULL;
}

int chunk_data(struct column_decoder *d, const struct chunk *chunk, struct cursor *data)
{
	size_t n;

	*data = cursor_of(chunk->data, chunk->stored_bytes);
	if (!(chunk->flags & CHUNK_ZSTD))
		return 0;
	if (!d->zstd)
		d->zstd = ZSTD_createDCtx();
	strbuf_clear(&d->data);
	if (!d->zstd || !strbuf_reserve(&d->data, chunk->decoded_bytes)) {
		d->data.failed = false;
		return -ENOMEM;
	}
	n = ZSTD_decompressDCtx(d->zstd, d->data.data, chunk->decoded_bytes, chunk->data,
				chunk->stored_bytes);
	if (ZSTD_isError(n) || n != chunk->decoded_bytes)
		return E_FORMAT;
	*data = cursor_of(d->data.data, n);
	return 0;
}

static int decode_runs(struct cursor *data, size_t count, uint64_t *values)
{
	size_t done = 0;

	while (done < count) {
		uint64_t run = cursor_varint(data), value = cursor_varint(data);

		if (data->failed || run == 0 || run > count - done)
			return E_FORMAT;
		for (size_t end = done + (size_t)run; done < end; done++)
			values[done] = value;
	}
	return cursor_left(data) ? E_FORMAT : 0;
}

static int decode_planes(struct cursor *data, size_t count, uint64_t *values)
{
	unsigned width = cursor_u8(data);
	const uint8_t *plane = data->p;

	if (data->failed || width < 1 || width > 8 || cursor_left(data) != width * count)
		return E_FORMAT;
	for (size_t i = 0; i < count; i++)
		values[i] = plane[i];
	for (unsigned shift = 8; shift < 8 * width; shift += 8) {
		plane += count;
		for (size_t i = 0; i < count; i++)
			values[i] |= (uint64_t)plane[i] << shift;
	}
	return 0;
}

static int decode_dictionary(struct cursor *data, size_t count, uint64_t *values)
{
	uint64_t items[256], n = cursor_varint(data);
	const uint8_t *indexes;

	if (data->failed || n < 1 || n > ARRAY_SIZE(items))
		return E_FORMAT;
	for (size_t i = 0; i < n; i++)
		items[i] = cursor_varint(data);
	indexes = cursor_bytes(data, count);
	if (!indexes || cursor_left(data))
		return E_FORMAT;
	for (size_t i = 0; i < count; i++) {
		if (indexes[i] >= n)
			return E_FORMAT;
		values[i] = items[indexes[i]];
	}
	return 0;
}

static void undo(const struct chunk *chunk, size_t count, bool is_signed, uint64_t *values)
{
	uint64_t last = chunk->seed;

	if (chunk->flags & CHUNK_DELTA) {
		for (size_t i = 0; i < count; i++) {
			last += (uint64_t)unzigzag(values[i]);
			values[i] = last;
		}
	} else if (is_signed || (chunk->flags & CHUNK_BASE)) {
		for (size_t i = 0; i < count; i++)
			values[i] = (uint64_t)unzigzag(values[i]);
	}
}

int column_decode(struct column_decoder *d, const struct chunk *chunk, size_t count, bool is_signed,
		  uint64_t *values)
{
	struct cursor data;
	int rc = chunk_data(d, chunk, &data);

	if (rc < 0)
		return rc;
	switch (CHUNK_ENCODING(chunk->flags)) {
	case ENCODING_RUNS:
		rc = decode_runs(&data, count, values);
		break;
	case ENCODING_PLANES:
		rc = decode_planes(&data, count, values);
		break;
	case ENCODING_DICTIONARY:
		rc = decode_dictionary(&data, count, values);
		break;
	default:
		rc = E_FORMAT;
	}
	if (rc == 0)
		undo(chunk, count, is_signed, values);
	return rc;
}
