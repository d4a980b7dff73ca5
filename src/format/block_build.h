/* block_build.h: turns rows of one table into a block. */
#ifndef PITOT_FORMAT_BLOCK_BUILD_H
#define PITOT_FORMAT_BLOCK_BUILD_H

#include "format/column_encode.h"
#include "format/segment.h"

struct block_builder {
	struct column_encoder encoder;
	uint64_t *values; /* one a row */
	uint32_t *order, *merged; /* rows in the order of their time */
	size_t rows_max;
};

/* For blocks of at most rows_max rows; level is zstd's. 0 or -ENOMEM. */
int block_builder_init(struct block_builder *b, size_t rows_max, int level) MUST_USE;
void block_builder_release(struct block_builder *b);

struct block_rows {
	const struct table_schema *table;
	void *rows; /* struct row_<table>; members of BYTES hold offsets into `bytes` as pointers */
	size_t count; /* 1 … rows_max */
	const uint8_t *bytes;
};

/*
 * Appends the block with this number to out, and sets *header to what was written. The rows are
 * put in order of the table's time column, where they are: rows without a time first, rows of equal
 * times as they came. 0 or -ENOMEM, and then out is as before.
 */
int block_build(struct block_builder *b, const struct block_rows *in, uint64_t number,
		struct strbuf *out, struct block_header *header) MUST_USE;

/* Sets the checksums of a header whose other fields are set. */
void block_header_seal(struct block_header *header, const void *payload);

#endif
