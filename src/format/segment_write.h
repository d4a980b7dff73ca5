/*
 * segment_write.h: the file under a writer: created, appended to, closed with an index and a
 * trailer.
 *
 * Each segment has a reserve behind its header: padding that is overwritten by a block of the table
 * `loss` when nothing can be appended any more, because overwriting needs no room on the disk.
 */
#ifndef PITOT_FORMAT_SEGMENT_WRITE_H
#define PITOT_FORMAT_SEGMENT_WRITE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "format/segment.h"

#define RESERVE_BYTES 1072u /* header and payload of the padding */
#define SEGMENT_START_BYTES (sizeof(struct segment_header) + RESERVE_BYTES)
#define INDEX_BLOCKS_MAX 16384u /* blocks of a segment; then the next one is begun */

struct segment_file {
	char *path;
	int fd;
	dev_t device; /* identity of the file: a target may close and reuse our descriptor */
	ino_t inode;
	uint64_t end; /* offset behind the last whole block */
	struct index_entry *index; /* room for INDEX_BLOCKS_MAX */
	/* more than there is room for: then there will be no index, and readers walk */
	size_t block_count;
	struct index_entry reserve_entry; /* of the loss block in the reserve */
	bool reserve_used;
};

struct segment_identity {
	const char *directory, *prefix; /* of the file's name */
	uint64_t session;
	uint32_t pid, number; /* number of the segment in the session */
};

/*
 * Creates the file with the first free number from *file_number on, which is set to the one after,
 * and writes header and reserve. f->index must be allocated. 0 or a negative errno; then there is
 * no file.
 */
int segment_file_create(struct segment_file *f, const struct segment_identity *id,
			uint32_t *file_number, struct error *e) MUST_USE;

/*
 * Writes at the end. Returns how many bytes were written; fewer than length: *error is set to an
 * errno.
 */
size_t segment_file_write(struct segment_file *f, const void *bytes, size_t length, int *error);
/* Of the bytes written last the first `good` are whole blocks; what is behind them is cut off. */
void segment_file_accept(struct segment_file *f, size_t good, size_t written);
/* Adds a block to the index. */
void segment_file_index(struct segment_file *f, const struct block_header *header, uint64_t offset);
/* Puts a whole block into the reserve. */
int segment_file_reserve(struct segment_file *f, const void *block, size_t length);
/* Bytes of index and trailer of a segment with `blocks` blocks; a used reserve is included. */
size_t segment_file_end_bytes(size_t blocks);
/* Writes index and trailer, and closes. buffer is scratch. */
int segment_file_finish(struct segment_file *f, struct strbuf *buffer);
/* Closes the descriptor, if it still is ours. */
void segment_file_close(struct segment_file *f);
/* Closes the descriptor and frees the path. Keeps f->index. */
void segment_file_forget(struct segment_file *f);

#endif
