/*
 * column_decode.h: parses the chunks of a payload and turns their data back into numbers. Every
 * byte may be hostile.
 */
#ifndef PITOT_FORMAT_COLUMN_DECODE_H
#define PITOT_FORMAT_COLUMN_DECODE_H

#include <zstd.h>

#include "base/bytes.h"
#include "base/strbuf.h"

struct chunk {
	uint64_t column;
	uint8_t flags;
	uint64_t seed;
	size_t decoded_bytes;
	const uint8_t *data; /* NULL: no chunk */
	size_t stored_bytes;
};

/* Reads the next chunk of a payload; its block has `rows` rows. 0, or E_FORMAT. */
int chunk_next(struct cursor *payload, size_t rows, struct chunk *chunk) MUST_USE;

struct column_decoder {
	ZSTD_DCtx *zstd; /* made when first needed */
	struct strbuf data;
};

void column_decoder_release(struct column_decoder *d);

/*
 * The `count` values of a chunk that is not of BYTES, with DELTA and zigzag undone, BASE not. 0,
 * E_FORMAT or -ENOMEM.
 */
int column_decode(struct column_decoder *d, const struct chunk *chunk, size_t count, bool is_signed,
		  uint64_t *values) MUST_USE;

/* The data of a chunk after zstd: *data is the decoder's or the file's. */
int chunk_data(struct column_decoder *d, const struct chunk *chunk, struct cursor *data) MUST_USE;

#endif
