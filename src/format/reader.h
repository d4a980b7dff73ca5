/*
 * reader.h: reads segments. Needs nothing but the bytes up to where it reads; every byte may be
 * hostile.
 *
 * A damaged block is skipped: the reader looks for the next header whose checksum is right. What
 * was skipped is counted, never silently lost.
 */
#ifndef PITOT_FORMAT_READER_H
#define PITOT_FORMAT_READER_H

#include <stdbool.h>

#include "base/error.h"
#include "format/segment.h"
#include "schema/schema.h"

struct block_ref {
	uint64_t offset; /* of the header, in the file */
	struct block_header header; /* checked; header_crc may be 0 */
};

struct segment {
	const uint8_t *bytes; /* the mapped file */
	size_t size;
	struct segment_header header;
	struct block_ref *blocks; /* in file order, also of unknown tables */
	size_t block_count;
	bool lists_all; /* blocks has padding and index, too */
	bool closed; /* has a good trailer and index */
	uint64_t skipped_bytes; /* damaged bytes passed over, and an incomplete block at the end */
	uint64_t damaged_blocks; /* pieces of damage passed over */
	bool truncated; /* ends within a block: a crash, or a writer that is writing right now */
	uint64_t parsed_bytes; /* where segment_refresh goes on */
	char *path; /* of the mapped file, which is not kept open; NULL: bytes are the caller's */
	uint64_t device, inode; /* what was mapped */
};

/*
 * Maps the file and lists its blocks (payload checksums are not looked at). 0; E_FORMAT for no
 * segment; E_VERSION; -errno.
 */
int segment_open(const char *path, struct segment *s, struct error *e) MUST_USE;
/* Lists the blocks of a segment in memory, which must outlive it: for tests and fuzzers. */
int segment_open_bytes(const void *bytes, size_t size, struct segment *s, struct error *e) MUST_USE;
/*
 * Maps what was appended since and lists the new blocks. Returns the number of new blocks (none
 * where the file is gone, or another has its name) or a negative code.
 */
int segment_refresh(struct segment *s, struct error *e) MUST_USE;
void segment_release(struct segment *s);
/*
 * Tells the system that the file's pages need not stay in this process's memory; they can be read
 * as before.
 */
void segment_drop_pages(const struct segment *s);
/*
 * Lists all blocks of an open segment by their headers, padding and index included, whatever its
 * index says. damaged_blocks counts the damage outside of payloads: what is neither a block nor the
 * trailer, nor the beginning of one at the end. `all` reads the bytes of `s`; released with
 * segment_release. 0 or -ENOMEM.
 */
int segment_walk(const struct segment *s, struct segment *all, struct error *e) MUST_USE;

/* Whether the block's payload matches its checksum. */
bool block_verify(const struct segment *s, const struct block_ref *b);

/* Decoded BYTES: value i is data[offsets[i]] … data[offsets[i + 1]]. */
struct bytes_column {
	uint32_t *offsets; /* rows + 1 */
	uint8_t *data;
};

/*
 * Where a column of a block is decoded to. The caller provides arrays with room for the block's
 * rows, of the column's width; `valid` (one byte a row) may be NULL when the caller does not care.
 * Missing values are written as 0.
 */
struct column_target {
	int column; /* index in the table's schema */
	void *values; /* for BYTES: struct bytes_column *; the caller frees what it gets there */
	uint8_t *valid; /* set to 0 or 1 for every row */
	bool zeroed; /* values are 0 already: nothing is written where all are */
	bool has_missing; /* out: at least one row has no value */
	bool all_missing; /* out: no row has */
	bool all_zero; /* out: every value is 0 or missing */
};

/* Scratch memory that block_decode reuses between calls; one per thread. */
struct decoder;
struct decoder *decoder_new(void);
void decoder_free(struct decoder *d);

/*
 * Decodes the wanted columns of a block of a known table. A column that the block does not have is
 * all missing. Values too large for the column's width are E_FORMAT. Does not check the payload's
 * checksum unless `verify`. Returns 0 or a negative code; then the targets' contents are undefined
 * (BYTES targets own nothing).
 */
int block_decode(struct decoder *d, const struct segment *s, const struct block_ref *b,
		 struct column_target *targets, size_t target_count, bool verify) MUST_USE;

#endif
