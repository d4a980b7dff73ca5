/* column_decode.h: parses the chunks of a payload and decodes their values. Input is untrusted. */
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

/* Reads the next chunk of the payload of a block with `rows` rows. Returns 0 or E_FORMAT. */
int chunk_next(struct cursor *payload, size_t rows, struct chunk *chunk) MUST_USE;

struct column_decoder {
	ZSTD_DCtx *zstd; /* created on first use */
	struct strbuf data;
};

void column_decoder_release(struct column_decoder *d);

/*
 * Decodes `count` values of any type but BYTES. DELTA and zigzag are undone, BASE is not. Returns
 * 0, E_FORMAT or -ENOMEM.
 */
int column_decode(struct column_decoder *d, const struct chunk *chunk, size_t count, bool is_signed,
		  uint64_t *values) MUST_USE;

/* Decompresses the data of a chunk. *data points into the decoder or into the file. */
int chunk_data(struct column_decoder *d, const struct chunk *chunk, struct cursor *data) MUST_USE;

#endif
