/* block_build.h: encodes rows of one table as a block. */
#ifndef PITOT_FORMAT_BLOCK_BUILD_H
#define PITOT_FORMAT_BLOCK_BUILD_H

#include "format/column_encode.h"
#include "format/segment.h"

struct block_builder {
	struct column_encoder encoder;
	uint64_t *values; /* one per row */
	uint32_t *order; /* row indexes in order of time */
	uint32_t *aside; /* a part of them, while it is merged with another */
	size_t rows_max;
};

/* For blocks of at most rows_max rows; level is zstd's. Returns 0 or -ENOMEM. */
int block_builder_init(struct block_builder *b, size_t rows_max, int level) MUST_USE;
void block_builder_release(struct block_builder *b);

struct block_rows {
	const struct table_schema *table;
	void *rows; /* struct row_<table>; BYTES members hold offsets into `bytes` as pointers */
	size_t count; /* 1 … rows_max */
	const uint8_t *bytes;
};

/*
 * Appends a block with this number to out and sets *header. Sorts the rows in place by the table's
 * time column; the sort is stable, and rows without a time come first. Returns 0, or -ENOMEM and
 * leaves out unchanged.
 */
int block_build(struct block_builder *b, const struct block_rows *in, uint64_t number,
		struct strbuf *out, struct block_header *header) MUST_USE;

/* Sets the checksums of a header whose other fields are set. */
void block_header_seal(struct block_header *header, const void *payload);

#endif
