/*
 * writer.h: where sources put their rows: one stream of rows, handed to any number of sinks
 * (sink.h).
 *
 * The writer interns texts and kernel configurations, and keeps the rows that later rows refer to,
 * so that each sink can be told again at the beginning of each epoch. One thread at a time. Used
 * inside the target by the collector: it never prints, never exits, and after an error of a sink it
 * goes on taking rows.
 */
#ifndef PITOT_FORMAT_WRITER_H
#define PITOT_FORMAT_WRITER_H

#include <stdbool.h>

#include "base/error.h"
#include "format/sink.h"
#include "schema/schema.h"

struct writer;

struct writer_options {
	/*
	 * Memory for texts between two flushes, more are "?" (loss string_limit); 0: 64 MiB. An
	 * eighth of it ends an epoch.
	 */
	size_t string_bytes_max;
	uint32_t string_length_max; /* longer strings are cut (loss string_limit); 0: 64 KiB */

	/* Of the recording: recording_sink.c. */
	const char *directory; /* exists */
	const char *prefix; /* of the segments' names; NULL: the process id */
	uint64_t session; /* of the segments; 0: random */
	uint64_t segment_bytes; /* a new segment is begun after this many; 0: 64 MiB */
	/* Of all segments of this sink; then it stops (loss size_limit); 0: no limit. */
	uint64_t max_bytes;
	int compression_level; /* zstd; 0: 1 */
	/*
	 * A thread of its own writes: a disk that stalls holds nobody up, and loses rows (loss
	 * disk_slow).
	 */
	bool background;
};

struct writer_stats {
	uint64_t rows; /* taken */
	/* Of all sinks: */
	uint64_t bytes; /* written, all segments */
	uint64_t blocks;
	/*
	 * Taken but not on disk because of disk_full, write_error, disk_slow, size_limit,
	 * no_memory.
	 */
	uint64_t lost_rows;
	/* errno of the failure for which nothing is written now, EFBIG for max_bytes, or 0 */
	int error;
	uint64_t writes, write_ns; /* times that blocks were written, and how long that took */
};

/* A writer without sinks; NULL: no memory. */
struct writer *writer_new(const struct writer_options *options) MUST_USE;

/* A writer with one sink, the recording that the options say. 0 and *out, or a negative errno. */
int writer_open(const struct writer_options *options, struct writer **out,
		struct error *e) MUST_USE;

/*
 * Hands rows to the sink from now on, which is the writer's then. A sink that comes later than the
 * first rows begins an epoch: ids that were got before are not to be used any more.
 */
void writer_attach(struct writer *w, struct sink *sink);
/* Seals and closes that sink. 0 or a negative errno: it lost something. */
int writer_detach(struct writer *w, struct sink *sink);

/*
 * Number of the epoch, from 1. Whoever keeps ids asks for them again when it has changed, which is
 * only by writer_flush and writer_attach. An id of an earlier epoch still means what it meant, but
 * not in a segment that is read alone.
 */
uint32_t writer_epoch(const struct writer *w);
/*
 * No new epoch for now, at most for WRITER_HOLD_FLUSHES: there are rows in this one whose stack
 * will only be known in a moment.
 */
#define WRITER_HOLD_FLUSHES 64u
void writer_hold_epoch(struct writer *w, bool hold);

/*
 * Id of a text, to be used in STRING members. Never fails: on lack of memory it is the id of the
 * text "?", and counted. NULL is the same as "", whose id is 0.
 */
uint32_t writer_string(struct writer *w, const char *text, size_t length);

/*
 * Id of a kernel configuration: equal rows (row->id and values that are missing are ignored) get
 * equal ids in an epoch. row->name must come from writer_string. On lack of memory UINT32_MAX, and
 * counted.
 */
uint32_t writer_kernel_config(struct writer *w, const struct row_kernel_config *row);

/*
 * Notes that rows about to be appended refer to the api_function with this id. `row` counts at the
 * first call with this id and may be NULL later.
 */
void writer_api_function(struct writer *w, uint32_t id, const struct row_api_function *row);

/*
 * Who keeps the call stacks that rows refer to with a column `stack`. `need` is called before a row
 * that refers to stack `id` (not 0) is handed on: the rows of what the stack consists of must have
 * been appended in this epoch. NULL: nobody.
 */
typedef void writer_need_stack(void *context, struct writer *w, uint32_t id);
void writer_on_stack(struct writer *w, writer_need_stack *need, void *context);

/*
 * Takes a row (struct row_<table>). Never fails; loss is counted. Rows of tables that later rows
 * refer to are kept and repeated as their traits say (schema/tables.h).
 */
void writer_append(struct writer *w, enum table_id table, const void *row);

/* Takes a row for one of the sinks alone, and keeps nothing of it. */
void writer_append_to(struct writer *w, struct sink *sink, enum table_id table, const void *row);

/*
 * Seals all sinks. 0: everything is kept; 1: it is under way; or a negative errno: rows are being
 * lost.
 */
int writer_flush(struct writer *w);

void writer_stats(const struct writer *w, struct writer_stats *stats);

/* Flush, and an orderly end of all sinks; frees. Returns 0 or a negative errno. *w may be NULL. */
int writer_close(struct writer **w);

/*
 * Lets go without keeping anything, and waits for nobody. In the child of a fork descriptors are
 * closed and memory stays: another thread may have been in the middle of it.
 */
void writer_abandon(struct writer **w);

/*
 * Creates the first segment (the first free number, with O_EXCL, so that several process images of
 * one pid do not meet). 0 and *out, or a negative errno: the directory is missing, read-only or
 * full.
 */
int recording_sink_new(const struct writer_options *options, struct sink **out,
		       struct error *e) MUST_USE;

#endif
