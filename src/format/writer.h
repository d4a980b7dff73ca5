/*
 * writer.h: writes the segments of one process into a recording's directory.
 *
 * Rows are gathered per table; a full table is sealed into a block, and writer_flush() seals what
 * is there and appends all sealed blocks with one write(2). One thread at a time. Used inside the
 * target by the collector: it never prints, never exits, and after an error on the disk it goes on
 * taking rows and counts what it lost.
 */
#ifndef PITOT_FORMAT_WRITER_H
#define PITOT_FORMAT_WRITER_H

#include <stdbool.h>

#include "base/error.h"
#include "schema/schema.h"

struct writer;

struct writer_options {
	const char *directory; /* exists; of the recording */
	const char *prefix; /* "record", or NULL for the process id */
	uint64_t segment_bytes; /* a new segment is begun after this many; 0: 64 MiB */
	/* Of all segments of this writer; then it stops (loss size_limit); 0: no limit. */
	uint64_t max_bytes;
	size_t string_bytes_max; /* memory for texts: older ones are forgotten; 0: 8 MiB */
	uint32_t string_length_max; /* longer strings are cut (loss string_limit); 0: 64 KiB */
	int compression_level; /* zstd; 0: 1 */
};

struct writer_stats {
	uint64_t rows; /* taken */
	uint64_t bytes; /* written, all segments */
	uint64_t blocks;
	/* Taken but not on disk because of disk_full, write_error, size_limit, no_memory. */
	uint64_t lost_rows;
	int error; /* errno of the failure that stopped writing, EFBIG for max_bytes, or 0 */
	uint64_t writes, write_ns; /* times that blocks were written, and how long that took */
};

/*
 * Creates the first segment (the first free number, with O_EXCL, so that several process images of
 * one pid do not meet). 0 and *out, or a negative errno: the directory is missing, read-only or
 * full.
 */
int writer_open(const struct writer_options *options, struct writer **out,
		struct error *e) MUST_USE;

/*
 * Id of a text, to be used in STRING members; never given to another text. The text is written
 * before the rows that refer to it, into each segment with such rows for as long as it is
 * remembered: until texts of half of string_bytes_max have been added after it. So an id may be
 * kept, but a caller that meets many texts should ask again. Never fails: on lack of memory it is
 * the id of the text "?", and counted. NULL is the same as "", whose id is 0.
 */
uint32_t writer_string(struct writer *w, const char *text, size_t length);

/*
 * Id of a kernel configuration: equal rows (row->id and values that are missing are ignored) get
 * equal ids. The row is written again in each segment that refers to it. row->name must come from
 * writer_string. It is remembered until 16384 others have been added after it; then it gets a new
 * id. On lack of memory UINT32_MAX, and counted.
 */
uint32_t writer_kernel_config(struct writer *w, const struct row_kernel_config *row);

/* Whether the id would still be given to its configuration, which so will be kept for long. */
bool writer_has_kernel_config(const struct writer *w, uint32_t id);

/*
 * Notes that rows about to be appended refer to the api_function with this id: its row is in every
 * segment that needs it. `row` is remembered at the first call with this id and may be NULL later.
 * At most 4096 functions.
 */
void writer_api_function(struct writer *w, uint32_t id, const struct row_api_function *row);

/*
 * Who keeps the call stacks that rows refer to with a column `stack`. `need` is called before a row
 * that refers to stack `id` (not 0) is taken: what the stack consists of must be in the segment that
 * writer_segment() says, by writer_append_referred(). One at a time; NULL: nobody.
 */
typedef void writer_need_stack(void *context, struct writer *w, uint32_t id);
void writer_on_stack(struct writer *w, writer_need_stack *need, void *context);
/* Which segment rows go to: 1, 2 … It changes in writer_append and writer_flush only. */
uint32_t writer_segment(const struct writer *w);
/* Takes a row of stack_node or stack. Never writes. Called by `need`, or at any other time. */
void writer_append_referred(struct writer *w, enum table_id table, const void *row);
/*
 * No new segment for now, at most for WRITER_HOLD_FLUSHES: there are rows in it whose stack will only
 * be known in a moment.
 */
#define WRITER_HOLD_FLUSHES 64u
void writer_hold_segment(struct writer *w, bool hold);

/*
 * Takes a row (struct row_<table>). May seal a block and write. Never fails; loss is counted. Rows of tables that
 * later rows refer to (devices, streams, threads …) are repeated in later segments: writer_repeat.c.
 */
void writer_append(struct writer *w, enum table_id table, const void *row);

/*
 * Seals all tables and writes. Returns 0 or a negative errno (also when writing had stopped
 * before).
 */
int writer_flush(struct writer *w);

void writer_stats(const struct writer *w, struct writer_stats *stats);

/* Flush, index, trailer; frees. Orderly end. Returns 0 or a negative errno. *w may be NULL. */
int writer_close(struct writer **w);

/* Frees and closes the descriptor without writing anything: for the child of a fork. */
void writer_abandon(struct writer **w);

#endif
