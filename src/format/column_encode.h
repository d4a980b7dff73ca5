/*
 * column_encode.h: encodes the values of one column as a chunk of a block's payload.
 *
 * One statistics pass chooses the encoding: it counts the runs, the bytes that values and
 * differences need, and whether there are few distinct values.
 */
#ifndef PITOT_FORMAT_COLUMN_ENCODE_H
#define PITOT_FORMAT_COLUMN_ENCODE_H

#include <stdbool.h>

#include <zstd.h>

#include "base/strbuf.h"
#include "schema/schema.h"

#define DICTIONARY_MAX 256u

struct column_encoder {
	ZSTD_CCtx *zstd;
	struct strbuf data; /* of the current chunk, before zstd */
	uint64_t *stored; /* values after DELTA or zigzag */
	size_t rows_max;
	uint16_t *slots; /* hash table of `distinct`: index + 1 */
	uint64_t distinct[DICTIONARY_MAX];
};

/* Allocates everything for encoding columns of at most rows_max values. Returns 0 or -ENOMEM. */
int column_encoder_init(struct column_encoder *e, size_t rows_max, int level) MUST_USE;
void column_encoder_release(struct column_encoder *e);

struct column_input {
	const uint64_t *values; /* present values only; with CHUNK_BASE differences to the base */
	size_t count; /* 1 … rows_max */
	unsigned column;
	uint8_t flags; /* CHUNK_BASE, CHUNK_VALIDITY */
	bool is_signed;
};

/* Appends a chunk. Returns 0, or -ENOMEM and leaves out unchanged. */
int column_encode(struct column_encoder *e, const struct column_input *in,
		  struct strbuf *out) MUST_USE;

/* Appends a chunk of BYTES; spans[i] is offset << 32 | length of value i in `bytes`. */
int column_encode_bytes(struct column_encoder *e, unsigned column, const uint64_t *spans,
			size_t count, const uint8_t *bytes, struct strbuf *out) MUST_USE;

#endif
