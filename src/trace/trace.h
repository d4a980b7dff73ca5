/*
 * trace.h: a recording as columns in memory, merged over its processes.
 *
 * Opening lists the segments and their blocks. A table is decoded when it is first asked for, only
 * the columns that are wanted, on all processors. Rows are ordered by process (session), then by
 * the table's time column; rows without a time come first in their process. Rows that a session
 * repeats from segment to segment (schema: repeated) are there once. STRING values are ids of the
 * trace's own strings and equal texts have equal ids; REF values are row indexes in the table
 * referred to (TRACE_NO_ROW when it is not there). Column `text` of table `string`, the only one of
 * type BYTES, is loaded as ids of strings (u32). A STRING id whose text is lost is that of "?".
 *
 * A trace is not safe for concurrent use while tables are being loaded; afterwards any number of
 * threads may read.
 */
#ifndef PITOT_TRACE_TRACE_H
#define PITOT_TRACE_TRACE_H

#include <stdbool.h>

#include "base/error.h"
#include "base/strbuf.h"
#include "schema/schema.h"

struct trace;

#define TRACE_NO_ROW UINT32_MAX

struct trace_options {
	unsigned threads;		/* for decoding; 0: one per processor */
	/* folder whose symbols.<n>.pit are read instead of the recording's; NULL: none */
	const char *symbols;
	/* decoded rows; may be NULL */
	void (*progress)(void *user, uint64_t done, uint64_t total);
	void *progress_user;
};

/* One process image (session) of the recording. */
struct trace_process {
	uint64_t session;
	uint32_t pid;			/* as the process sees it */
	uint32_t parent_pid;		/* 0 if unknown */
	uint32_t segments, missing_segments;
	bool closed;			/* its last segment was closed in order */
	/* has segments of its own; else it is only known from `pitot record` */
	bool inside;
	/* segments that a CPU sampler wrote about it from outside, as a process of its own: */
	bool sampler;
	/* then the process that the recorder was inside of at that time; else its own index */
	size_t of;
	/* of the recording of this process; end is the last time seen when not closed */
	uint64_t start_ns, end_ns;
	const char *command;		/* "" if unknown */
	const char *executable;
	const char *host;
	int exit_status;		/* -1 if unknown */
};

/*
 * Opens a recording: its directory, or one segment file. E_FORMAT when there is nothing that can be
 * read.
 */
int trace_open(const char *path, const struct trace_options *options, struct trace **out,
	       struct error *e) MUST_USE;
void trace_free(struct trace *t);

size_t trace_process_count(const struct trace *t);
const struct trace_process *trace_process(const struct trace *t, size_t index);

/*
 * Makes the columns available: bit i of `columns` is column i; 0 means all. May be called again for
 * more columns. Damaged blocks are left out and counted in trace_losses: the first load of a table
 * checks all its checksums, and decides which rows it has. Pointers to columns hold until
 * trace_free. 0 or a negative code.
 */
int trace_load(struct trace *t, enum table_id table, uint64_t columns, struct error *e) MUST_USE;
/*
 * Frees what further columns of loaded tables would be put into order with: 4 bytes a row where
 * rows were not written in order. Loading such columns is E_USAGE then; other tables can be loaded.
 */
void trace_load_done(struct trace *t);
/* COLUMN_BITS(kernel, start_ns, end_ns): up to 16 columns */
#define COLUMN_BITS(table, ...)                                                                    \
	COLUMN_BITS_CHOOSE(__VA_ARGS__, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, )   \
	(table, __VA_ARGS__)
#define COLUMN_BITS_CHOOSE(_1, _2, _3, _4, _5, _6, _7, _8, _9, _10, _11, _12, _13, _14, _15, _16,  \
			   count, ...)                                                             \
	COLUMN_BITS_##count
#define COLUMN_BIT(table, column) (UINT64_C(1) << COLUMN_##table##_##column)
#define COLUMN_BITS_1(table, a) COLUMN_BIT(table, a)
#define COLUMN_BITS_2(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_1(table, __VA_ARGS__))
#define COLUMN_BITS_3(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_2(table, __VA_ARGS__))
#define COLUMN_BITS_4(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_3(table, __VA_ARGS__))
#define COLUMN_BITS_5(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_4(table, __VA_ARGS__))
#define COLUMN_BITS_6(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_5(table, __VA_ARGS__))
#define COLUMN_BITS_7(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_6(table, __VA_ARGS__))
#define COLUMN_BITS_8(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_7(table, __VA_ARGS__))
#define COLUMN_BITS_9(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_8(table, __VA_ARGS__))
#define COLUMN_BITS_10(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_9(table, __VA_ARGS__))
#define COLUMN_BITS_11(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_10(table, __VA_ARGS__))
#define COLUMN_BITS_12(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_11(table, __VA_ARGS__))
#define COLUMN_BITS_13(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_12(table, __VA_ARGS__))
#define COLUMN_BITS_14(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_13(table, __VA_ARGS__))
#define COLUMN_BITS_15(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_14(table, __VA_ARGS__))
#define COLUMN_BITS_16(table, a, ...) (COLUMN_BIT(table, a) | COLUMN_BITS_15(table, __VA_ARGS__))

/*
 * Leaves out the blocks of a table that were on disk when `before`, the same recording, was opened.
 * Before anything of the table is loaded. 0 or -ENOMEM.
 */
int trace_only_new(struct trace *t, enum table_id table, const struct trace *before) MUST_USE;

/* Also before loading, but with repeated rows then: trace_load_repeated. */
uint64_t trace_rows(const struct trace *t, enum table_id table);
/*
 * First row of the table that belongs to process p; p = trace_process_count gives the end. After
 * trace_load.
 */
uint64_t trace_first_row(const struct trace *t, enum table_id table, size_t process);
/* Process of a row (binary search over trace_first_row). */
size_t trace_row_process(const struct trace *t, enum table_id table, uint64_t row);

/*
 * A loaded column's values: an array of the column's C type (schema width), trace_rows long;
 * NULL if not loaded or if the table is empty. For columns that are not known before the program
 * runs; those that are: trace/columns.h. The typed forms check the width with an assertion.
 */
const void *trace_column(const struct trace *t, enum table_id table, int column);
const uint8_t *trace_u8(const struct trace *t, enum table_id table, int column);
/* U32, I32, STRING, REF */
const uint32_t *trace_u32(const struct trace *t, enum table_id table, int column);
/* U64, I64, TIME */
const uint64_t *trace_u64(const struct trace *t, enum table_id table, int column);
/* One byte a row: 0 where the value is missing. NULL when no value is missing. */
const uint8_t *trace_valid(const struct trace *t, enum table_id table, int column);
/* Any value as 64 bits, sign-extended; *missing (may be NULL) tells. Slow: for printing. */
uint64_t trace_value(const struct trace *t, enum table_id table, int column, uint64_t row,
		     bool *missing);

/*
 * All columns but BYTES as a struct row_<table>: what is missing, or not loaded, is 0 and marked.
 * Slow: for definitions.
 */
void trace_row(const struct trace *t, enum table_id table, uint64_t row, void *out);

/*
 * Text of a string id of this trace; never NULL; NUL-terminated, may hold any other bytes. Id 0 is
 * "".
 */
const char *trace_string(const struct trace *t, uint32_t id);
size_t trace_string_length(const struct trace *t, uint32_t id);
uint32_t trace_string_count(const struct trace *t);

/*
 * Appends the path of a file in the recording's folder, by its name there. False, and nothing, for
 * what leads out of the folder.
 */
bool trace_file_path(const struct trace *t, const char *name, struct strbuf *out);

/*
 * From the start of the command, or the first event where that is earlier, to the last start of an
 * event or the last end of a process (block headers; no loading). 0, 0 when empty.
 */
void trace_span(const struct trace *t, uint64_t *start_ns, uint64_t *end_ns);

/*
 * CLOCK_REALTIME at a time of CLOCK_MONOTONIC, from the clock table or the segment headers.
 * Nonsense of damaged ones.
 */
int64_t trace_unix_ns(const struct trace *t, uint64_t monotonic_ns);

/*
 * Everything known to be missing: rows of table `loss` plus what reading found (damaged_file,
 * truncated_file, missing_segment). Loads what it needs. The array belongs to the trace, until the
 * next call. Damage inside blocks is known for tables that have been loaded, and for all after
 * trace_verify.
 */
struct trace_loss {
	size_t process;			/* trace_process_count where it belongs to none */
	enum loss_reason reason;
	uint64_t count;
	uint64_t start_ns, end_ns;
	const char *detail;		/* "" if none */
};
int trace_losses(struct trace *t, const struct trace_loss **losses, size_t *count,
		 struct error *e) MUST_USE;

/*
 * Loads all tables that have repeated rows, so that trace_rows counts none twice; but none that is
 * too large.
 */
int trace_load_repeated(struct trace *t, struct error *e) MUST_USE;

/* For `pitot info`: files and bytes. */
struct trace_table_size {
	uint64_t rows, blocks, bytes;	/* on disk: rows with repeated ones, bytes with headers */
};
void trace_table_size(const struct trace *t, enum table_id table, struct trace_table_size *size);
uint64_t trace_file_bytes(const struct trace *t);
size_t trace_segment_count(const struct trace *t);
/*
 * Checks every checksum of every segment. Returns the number of damaged blocks, headers and files,
 * or a negative code.
 */
int64_t trace_verify(struct trace *t, struct error *e) MUST_USE;

/*
 * The api_call row that launched each row of a table with a `correlation` column (kernel, memcpy,
 * memset, synchronization, graph_launch, cuda_event, allocation): an array of trace_rows row
 * indexes, TRACE_NO_ROW where there is none. Joined on (process, correlation). Loads what it needs;
 * belongs to the trace.
 */
int trace_launches(struct trace *t, enum table_id table, const uint32_t **calls,
		   struct error *e) MUST_USE;
/*
 * Frees what trace_launches would find the launches of further tables with: 8 bytes a call, and 8 a
 * row for correlation ids that nobody else has loaded.
 */
void trace_launches_done(struct trace *t);

#endif
