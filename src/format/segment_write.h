/*
 * segment_write.h: creates a segment file, appends to it, and closes it with an index and a
 * trailer.
 *
 * Each segment has a reserve after its header: padding that is overwritten by a block of table
 * `loss` when nothing can be appended, because overwriting needs no disk space.
 */
#ifndef PITOT_FORMAT_SEGMENT_WRITE_H
#define PITOT_FORMAT_SEGMENT_WRITE_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/folder.h"
#include "base/own_fd.h"
#include "base/strbuf.h"
#include "format/segment.h"

#define RESERVE_BYTES 1072u /* header and payload of the padding */
#define SEGMENT_START_BYTES (sizeof(struct segment_header) + RESERVE_BYTES)
#define SEGMENT_NAME_MAX 64
#define INDEX_BLOCKS_MAX 16384u /* blocks of a segment; then the next one begins */

struct segment_file {
	const char *directory; /* of segment_identity */
	struct folder_id folder;
	char name[SEGMENT_NAME_MAX];
	struct own_fd own;
	uint64_t end; /* offset after the last complete block */
	struct index_entry *index; /* room for INDEX_BLOCKS_MAX */
	/* can exceed the index's capacity: no index is written then, and readers walk */
	size_t block_count;
	struct index_entry reserve_entry; /* of the loss block in the reserve */
	bool reserve_used;
};

struct segment_identity {
	/* of the file's name; valid as long as the file is open */
	const char *directory, *prefix;
	struct folder_id folder; /* of the directory */
	const char *launcher; /* text of LAUNCHER_VARIABLE; NULL: none */
	uint64_t session;
	uint32_t pid, number; /* number of the segment in the session */
};

/*
 * Creates the file with the first free number from *file_number on, sets *file_number to the next
 * number, and writes header and reserve. f->index must be allocated. Returns 0, or a negative code
 * without leaving a file.
 */
int segment_file_create(struct segment_file *f, const struct segment_identity *id,
			uint32_t *file_number, struct error *e) MUST_USE;

/* Removes the file with that number, which has ended. */
void segment_file_remove(const struct segment_identity *id, uint32_t number);

/*
 * Writes at the end. Returns the number of bytes written; if it is less than length, *error is an
 * errno.
 */
size_t segment_file_write(struct segment_file *f, const void *bytes, size_t length, int *error);
/* Accepts the first `good` of the last `written` bytes as complete blocks; truncates the rest. */
void segment_file_accept(struct segment_file *f, size_t good, size_t written);
/* Adds a block to the index. */
void segment_file_index(struct segment_file *f, const struct block_header *header, uint64_t offset);
/* Writes a complete block into the reserve. */
int segment_file_write_reserve(struct segment_file *f, const void *block, size_t length);
/* Returns the size of index and trailer of a segment with `blocks` blocks and a used reserve. */
size_t segment_file_end_bytes(size_t blocks);
/* Writes index and trailer, and closes the file. `buffer` is scratch memory. */
int segment_file_finish(struct segment_file *f, struct strbuf *buffer);
/*
 * Gives the calling helper thread a descriptor table of its own with the file in it; the program's
 * table keeps it, too. Returns false where the operating system has no such thing.
 */
bool segment_file_own_table(struct segment_file *f);
/* Closes the descriptor, but does not free f->index. */
void segment_file_release(struct segment_file *f);

#endif
