/*
 * writer.h: takes rows from sources and passes them to any number of sinks (sink.h).
 *
 * The writer interns texts and kernel configurations, and stores the rows that later rows refer to,
 * so that it can repeat them to sinks in each epoch. Not thread-safe. The collector uses it inside
 * the target: it never prints, never exits, and keeps accepting rows after an error of a sink.
 */
#ifndef PITOT_FORMAT_WRITER_H
#define PITOT_FORMAT_WRITER_H

#include <stdbool.h>

#include "base/error.h"
#include "base/folder.h"
#include "format/sink.h"
#include "schema/schema.h"

struct journal;
struct writer;

#define RING_PARTS 8u /* segments of a full ring */

struct writer_options {
	/*
	 * Limit of memory for texts between two flushes; further texts become "?" (loss
	 * string_limit). 0: 64 MiB. An eighth of it ends an epoch.
	 */
	size_t string_bytes_max;
	uint32_t string_length_max; /* longer ones are truncated (loss string_limit); 0: 64 KiB */

	/* For recordings, see recording_sink.c: */
	const char *directory; /* must exist */
	struct folder_id folder; /* which one it is; zeros: unknown */
	const char *launcher; /* who creates segments that this process cannot; NULL or "": none */
	const char *prefix; /* of segment names; NULL: the process id */
	uint64_t session; /* id of the session; 0: random */
	/* To continue a session that another process began: */
	uint32_t pid; /* of its segments; 0: this process */
	uint32_t number; /* of the first segment in the session */
	uint32_t first_string, first_config; /* ids not used in the session; 0: none is */

	/* zeroed memory for the rows that are not stored yet; NULL: none (journal.h) */
	struct journal *journal;
	uint64_t journal_bytes; /* its size without the struct, a multiple of 8 */
	uint64_t segment_bytes; /* size at which a new segment begins; 0: 64 MiB */
	/*
	 * The oldest segments are removed while ended ones have more bytes than that together; 0:
	 * none is. A segment has an eighth of them, unless segment_bytes says otherwise.
	 */
	uint64_t ring_bytes;
	/* Limit of all segments; the sink then stops (loss size_limit). 0: no limit. */
	uint64_t max_bytes;
	int compression_level; /* zstd level; 0: 1 */
	/*
	 * Writes on a separate thread: a stalled disk blocks nobody, and rows are lost (loss
	 * disk_slow).
	 */
	bool background;
	/* Time of the rows, for losses; to be used on the writer's thread. NULL: CLOCK_MONOTONIC */
	const uint64_t *now_ns;
};

struct writer_stats {
	uint64_t rows; /* accepted */
	/* Sums over all sinks: */
	uint64_t bytes; /* written to all segments */
	uint64_t blocks;
	/*
	 * Accepted but not on disk because of disk_full, write_error, disk_slow, size_limit or
	 * no_memory.
	 */
	uint64_t lost_rows;
	/* errno that prevents writing now, EFBIG for max_bytes, or 0 */
	int error;
	uint64_t writes, write_ns; /* number and duration of writes of blocks */
};

/* Returns a writer without sinks, or NULL when there is no memory. */
struct writer *writer_new(const struct writer_options *options) MUST_USE;

/* Opens a writer with one sink, a recording. Returns 0 and *out, or a negative errno. */
int writer_open(const struct writer_options *options, struct writer **out,
		struct error *e) MUST_USE;

/*
 * Attaches a sink and takes ownership of it. If rows were appended before, a new epoch begins, and
 * the caller must request new ids.
 */
void writer_attach(struct writer *w, struct sink *sink);
/*
 * Seals the sink, which belongs to the caller from then on: it has to be closed with the result of
 * this, on any thread.
 */
int writer_detach(struct writer *w, struct sink *sink) MUST_USE;
/* Closes and frees a detached sink. Returns 0, or a negative errno when it lost rows. */
int writer_close_sink(struct sink *sink, int sealed);

/*
 * Returns the number of the epoch, from 1. It changes in writer_flush() and writer_attach() only;
 * then callers that store ids must request them again. An id of an earlier epoch keeps its meaning,
 * but is undefined in a segment that is read alone.
 */
uint32_t writer_epoch(const struct writer *w);
/*
 * Postpones new epochs, for at most WRITER_HOLD_FLUSHES flushes, because the stacks of rows in this
 * epoch are not known yet.
 */
#define WRITER_HOLD_FLUSHES 64u
void writer_hold_epoch(struct writer *w, bool hold);

/*
 * Returns the id of a text, for STRING members. Never fails: without memory it returns the id of
 * "?" and counts a loss. NULL is the same as "", whose id is 0.
 */
uint32_t writer_string(struct writer *w, const char *text, size_t length);

/*
 * Returns the id of a kernel configuration. Equal rows, ignoring row->id and missing values, have
 * equal ids in an epoch. row->name must come from writer_string(). Without memory returns
 * UINT32_MAX and counts a loss.
 */
uint32_t writer_kernel_config(struct writer *w, const struct row_kernel_config *row);

/*
 * Defines the api_function `id` for rows that follow. `row` is used by the first call with this id;
 * it may be NULL later.
 */
void writer_api_function(struct writer *w, uint32_t id, const struct row_api_function *row);

/*
 * Registers the owner of the call stacks that rows refer to in a column `stack`. `need` is called
 * before a row with stack `id` (not 0) is passed on, and must append the rows that define the stack
 * if they were not appended in this epoch. NULL: none.
 */
typedef void writer_need_stack(void *context, struct writer *w, uint32_t id);
void writer_on_stack(struct writer *w, writer_need_stack *need, void *context);

/*
 * Appends a row (struct row_<table>). Never fails; losses are counted. Rows of tables that later
 * rows refer to are stored and repeated according to their traits (schema/tables.h).
 */
void writer_append(struct writer *w, enum table_id table, const void *row);

/* Passes a row to one sink only, without storing it. */
void writer_append_to(struct writer *w, struct sink *sink, enum table_id table, const void *row);

/*
 * Seals all sinks. Returns 0 when all rows are stored, 1 while that is in progress, or a negative
 * errno when rows are being lost.
 */
int writer_flush(struct writer *w);
/* Returns the negative errno with which a sink has ended by itself (sink_ops.failure), or 0. */
int writer_failure(const struct writer *w);

void writer_stats(const struct writer *w, struct writer_stats *stats);

/* Flushes, closes all sinks and frees. Returns 0 or a negative errno. *w may be NULL. */
int writer_close(struct writer **w);

/*
 * Frees without flushing and without waiting. In the child of a fork descriptors are closed and
 * memory stays, because another thread may have been using it.
 */
void writer_abandon(struct writer **w);

/*
 * Creates a recording's sink and its first segment, with the first free number and O_EXCL, so that
 * process images with one pid do not collide. Returns 0 and *out, or a negative errno: the
 * directory is missing, read-only or full.
 */
int recording_sink_new(const struct writer_options *options, struct sink **out,
		       struct error *e) MUST_USE;

#endif
