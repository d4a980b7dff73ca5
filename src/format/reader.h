/*
 * reader.h: reads segments, also unfinished ones. Their contents are untrusted.
 *
 * Damaged blocks are skipped: the reader searches for the next header with a correct checksum.
 * Skipped bytes are counted. A file that shrinks or changes while it is read is damage, too.
 */
#ifndef PITOT_FORMAT_READER_H
#define PITOT_FORMAT_READER_H

#include <stdbool.h>

#include "base/error.h"
#include "format/segment.h"
#include "schema/schema.h"

struct block_ref {
	uint64_t offset; /* of the header, in the file */
	struct block_header header; /* verified; header_crc may be 0 */
};

struct segment {
	const uint8_t *bytes; /* of the caller; NULL: they are in the file */
	size_t size; /* of the file, when it was last read */
	struct segment_header header;
	struct block_ref *blocks; /* in file order, unknown tables included */
	size_t block_count;
	bool lists_all; /* `blocks` includes padding and index */
	bool closed; /* ends with a valid trailer and index */
	uint64_t skipped_bytes; /* damaged bytes, and an incomplete block at the end */
	uint64_t damaged_blocks; /* number of damaged places */
	bool truncated; /* ends inside a block: after a crash, or while it is being written */
	uint64_t missing_bytes; /* of that block, if its header is there */
	uint64_t parsed_bytes; /* where segment_refresh() continues */
	char *path; /* NULL: the caller owns bytes */
	uint64_t device, inode; /* identity of the file */
	bool stays_open; /* in fd; otherwise the file is opened for each read */
	int fd;
};

/*
 * Opens a file and lists its blocks without verifying payloads. Returns 0, E_FORMAT when it is not
 * a segment, E_VERSION, or -errno.
 */
int segment_open(const char *path, struct segment *s, struct error *e) MUST_USE;
/* Lists the blocks of a segment in memory, which must outlive it. For tests and fuzzers. */
int segment_open_bytes(const void *bytes, size_t size, struct segment *s, struct error *e) MUST_USE;
/*
 * Lists the blocks that were appended. Returns their number (0 when the file is gone or
 * was replaced) or a negative code.
 */
int segment_refresh(struct segment *s, struct error *e) MUST_USE;
void segment_release(struct segment *s);
/* Reads bytes of the file, from any thread. Returns false when they are not there. */
bool segment_read(const struct segment *s, uint64_t offset, void *to, size_t size);
/*
 * Lists all blocks of an open segment, padding and index included, by their headers and regardless
 * of its index. damaged_blocks counts damage outside of payloads: bytes that are neither a block,
 * nor the trailer, nor an incomplete block at the end. `all` has no contents, which are those of
 * `s`, and is released with segment_release(). Returns 0 or -ENOMEM.
 */
int segment_walk(const struct segment *s, struct segment *all, struct error *e) MUST_USE;

/* Whether the payload matches its checksum. */
bool block_verify(const struct segment *s, const struct block_ref *b);

/* Decoded BYTES: value i is data[offsets[i]] … data[offsets[i + 1]]. */
struct bytes_column {
	uint32_t *offsets; /* rows + 1 */
	uint8_t *data;
};

/*
 * The destination of a decoded column. The caller provides arrays for the block's rows, with the
 * column's width; `valid` (one byte per row) may be NULL. Missing values are written as 0.
 */
struct column_target {
	int column; /* index in the table's schema */
	void *values; /* for BYTES: struct bytes_column *, whose arrays the caller must free */
	uint8_t *valid; /* set to 0 or 1 for every row */
	/* in: the values of the column's base, 0 where missing; NULL: they are decoded */
	const uint64_t *base;
	bool zeroed; /* in: values are 0 already, so zeros need not be written */
	bool has_missing; /* out: some row has no value */
	bool all_missing; /* out: no row has a value */
	bool all_zero; /* out: every value is 0 or missing */
};

/* Scratch memory of block_decode(), reused between calls; one per thread. */
struct decoder;
struct decoder *decoder_new(void);
void decoder_free(struct decoder *d);

/*
 * Decodes the target columns of a block of a known table. A column that the block lacks is missing
 * in all rows. A payload that does not match its checksum, and values too large for the column's
 * width, are E_FORMAT. Returns 0 or a negative code; then the targets' contents are undefined
 * (BYTES targets own nothing).
 */
int block_decode(struct decoder *d, const struct segment *s, const struct block_ref *b,
		 struct column_target *targets, size_t target_count) MUST_USE;

#endif
