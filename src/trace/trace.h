/*
 * trace.h: a recording as columns in memory, merged over its processes.
 *
 * Opening lists the segments and their blocks. trace_load decodes the requested columns of a table,
 * on all processors. Rows are ordered by process (session), then by the table's time column; rows
 * without a time come first in their process. Rows that a session repeats in each segment (schema:
 * repeated) occur once. STRING values are ids of the trace's own strings, and equal texts have
 * equal ids; a STRING id whose text was lost becomes the id of "?". REF values are row indexes of
 * the table that they refer to (TRACE_NO_ROW if the row is missing). Column `text` of table
 * `string`, the only one of type BYTES, is loaded as string ids (u32).
 *
 * Times are CLOCK_MONOTONIC of the recorded machine; of several machines, of the one that was
 * started first, as far as CLOCK_REALTIME of each shows.
 *
 * A trace is not safe for concurrent use while tables are loaded; afterwards any number of threads
 * may read it.
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
	unsigned threads; /* for decoding; 0: one per processor */
	/* folder whose symbols.<n>.pit replace those of the recording; NULL: none */
	const char *symbols;
	/*
	 * If the recording has ranks, nothing is loaded of processes with other ranks or none,
	 * except for what `pitot record` saw of them.
	 */
	bool only_rank;
	uint32_t rank;
	/*
	 * Open only the segments of one process and of its CPU sampler, and symbols: what
	 * trace_process_files returned. NULL: all segments.
	 */
	const char *process;
	/* reports the number of decoded rows; may be NULL */
	void (*progress)(void *user, uint64_t done, uint64_t total);
	void *progress_user;
};

/* One process image (session) of the recording. They are in order of rank, then of time. */
struct trace_process {
	uint64_t session;
	uint32_t pid; /* in the process's own PID namespace */
	uint32_t parent_pid; /* 0 if unknown */
	uint32_t segments, missing_segments;
	bool closed; /* its last segment was closed properly */
	/* the process has segments; else it is only known from rows of `pitot record` */
	bool inside;
	/* its segments are of a CPU sampler outside of the process, or of `import --into` */
	bool sampler;
	bool imported; /* by the latter */
	/* sampler: index of the same process as its own recorder saw it; else its own index */
	size_t subject;
	uint32_t boot_id; /* string id; equal ids share clock and process ids; 0 if unknown */
	/* of the recording of this process; not closed: the end is the last time in its blocks */
	uint64_t start_ns, end_ns;
	const char *command; /* "" if unknown */
	const char *executable;
	const char *host;
	int exit_status; /* -1 if unknown */
	/*
	 * Rank in the job, if its launcher is the best of the recording (enum job_launcher): in
	 * `srun torchrun`, Slurm's ranks are not those of the job; if none has one, in the import.
	 * TRACE_NO_RANK: none.
	 */
	uint32_t rank;
	uint32_t local_rank, world_size, node_rank; /* TRACE_NO_RANK: unknown */
	const char *job; /* "" if unknown */
	int launcher; /* enum job_launcher; -1: none */
};

#define TRACE_NO_RANK UINT32_MAX

/* Opens a recording: a directory, or one segment file. E_FORMAT if nothing in it can be read. */
int trace_open(const char *path, const struct trace_options *options, struct trace **out,
	       struct error *e) MUST_USE;
void trace_free(struct trace *t);

/* Whether only the processes with *rank were loaded; `rank` may be NULL. */
bool trace_only_rank(const struct trace *t, uint32_t *rank);

size_t trace_process_count(const struct trace *t);
/*
 * Appends what trace_options.process needs to open only this process. False, and nothing is
 * appended: it wrote no segments itself.
 */
bool trace_process_files(const struct trace *t, size_t process, struct strbuf *out);
const struct trace_process *trace_process(const struct trace *t, size_t index);
/*
 * Whether times of a process are by another clock than those of other hosts in the recording: the
 * CLOCK_REALTIME of its host, by which hosts are put on one clock, was not set or not recorded.
 */
bool trace_is_unaligned(const struct trace *t, size_t process);

/* What the OS kernels of hosts say of CLOCK_REALTIME. */
struct realtime_error {
	bool is_known; /* adjtimex was allowed, else the rest is unknown, too */
	bool unsynchronized; /* at some time */
	uint64_t bound_ns; /* at all times of the recording; UINT64_MAX: unknown */
};
/* By the loaded table `clock`. */
struct realtime_error trace_realtime_error(const struct trace *t, uint32_t boot_id);

/* CLOCK_REALTIME when CLOCK_MONOTONIC was 0, by the loaded table `clock`; 0: unknown. */
uint64_t trace_booted_ns(const struct trace *t, size_t process);

/*
 * Loads columns of a table: bit i of `columns` is column i; 0 means all. May be called again for
 * more columns. Damaged blocks are skipped and counted in trace_losses: the first load of a table
 * verifies all its checksums and decides which rows it has. Pointers to columns are valid until
 * trace_free. 0 or a negative code.
 */
int trace_load(struct trace *t, enum table_id table, uint64_t columns, struct error *e) MUST_USE;
/*
 * Frees the permutations of loaded tables whose rows were not written in order (4 bytes per row),
 * and what trace_launches_done left for columns that were not loaded.
 * Loading more columns of these tables then fails with E_USAGE; other tables can still be loaded.
 */
void trace_load_done(struct trace *t);

/*
 * Drops the blocks of a table that `before`, an earlier trace of the same recording, has. Must be
 * called before anything of the table is loaded. CPU time without samples, which only all samples
 * of a process show (cpu_span), is not added to the new ones. 0 or -ENOMEM.
 */
int trace_only_new(struct trace *t, enum table_id table, const struct trace *before) MUST_USE;

/* Number of rows; before the table is loaded, repeated rows count too (see trace_load_repeated). */
uint64_t trace_rows(const struct trace *t, enum table_id table);
/* First row of a process in a loaded table; for trace_process_count the number of rows. */
uint64_t trace_first_row(const struct trace *t, enum table_id table, size_t process);
/* Process of a row of a loaded table. O(log n). */
size_t trace_row_process(const struct trace *t, enum table_id table, uint64_t row);

/*
 * Values of a loaded column: an array of trace_rows values of the column's C type; NULL if the
 * column is not loaded or the table is empty. For columns that are chosen at run time; for others
 * see trace/columns.h. The typed variants assert the width.
 */
const void *trace_column(const struct trace *t, enum table_id table, int column);
const uint8_t *trace_u8(const struct trace *t, enum table_id table, int column);
/* U32, I32, STRING, REF */
const uint32_t *trace_u32(const struct trace *t, enum table_id table, int column);
/* U64, I64, TIME */
const uint64_t *trace_u64(const struct trace *t, enum table_id table, int column);
/* One byte per row, 0 where the value is missing; NULL if no value is missing. */
const uint8_t *trace_valid(const struct trace *t, enum table_id table, int column);
/* Whether some value of a loaded column is neither missing nor 0. */
bool trace_has_values(const struct trace *t, enum table_id table, int column);
/* Any value as 64 bits, sign-extended; sets *missing, which may be NULL. Slow: for printing. */
uint64_t trace_value(const struct trace *t, enum table_id table, int column, uint64_t row,
		     bool *missing);

/*
 * Fills a struct row_<table> with all columns but BYTES. Values that are missing or not loaded are
 * 0 and marked as missing; a reference to nothing is TRACE_NO_ROW.
 */
void trace_row(const struct trace *t, enum table_id table, uint64_t row, void *out);

/* Text of a string id; never NULL; NUL-terminated, any other bytes may occur. Id 0 is "". */
const char *trace_string(const struct trace *t, uint32_t id);
size_t trace_string_length(const struct trace *t, uint32_t id);
uint32_t trace_string_count(const struct trace *t);

/*
 * Appends the path of a file in the recording's folder. Appends nothing and returns false if the
 * name leads out of the folder.
 */
bool trace_file_path(const struct trace *t, const char *name, struct strbuf *out);

/*
 * From the start of the command or the first event, whichever is earlier, to the last start of an
 * event or the last end of a process. Reads block headers only. 0, 0 for an empty recording.
 */
void trace_span(const struct trace *t, uint64_t *start_ns, uint64_t *end_ns);

/*
 * Converts CLOCK_MONOTONIC to CLOCK_REALTIME, by the clock table or the segment headers. If these
 * are damaged, the result is arbitrary.
 */
int64_t trace_unix_ns(const struct trace *t, uint64_t monotonic_ns);

/*
 * All known losses: rows of table `loss` plus what the reader found (damaged_file, truncated_file,
 * missing_segment). Loads what it needs. The trace owns the array; it is valid until the next call.
 * Damage inside blocks is known for loaded tables, and for all tables after trace_verify.
 */
struct trace_loss {
	size_t process; /* trace_process_count if it belongs to no process */
	enum loss_reason reason;
	uint64_t count;
	uint64_t start_ns, end_ns;
	const char *detail; /* "" if none */
};
int trace_losses(struct trace *t, const struct trace_loss **losses, size_t *count,
		 struct error *e) MUST_USE;
/* Number of rows of a process in tables of events, which need not be loaded. */
uint64_t trace_process_events(const struct trace *t, size_t process);

/*
 * Loads the tables with repeated rows, so that trace_rows counts no row twice; skips huge tables.
 */
int trace_load_repeated(struct trace *t, struct error *e) MUST_USE;

/* Sizes on disk, for `pitot info`. */
struct trace_table_size {
	uint64_t rows, blocks, bytes; /* rows include repeated ones, bytes include headers */
};
void trace_table_size(const struct trace *t, enum table_id table, struct trace_table_size *size);
uint64_t trace_file_bytes(const struct trace *t);
size_t trace_segment_count(const struct trace *t);
/* Segments without an end: of a crash, cut while they were copied, or still growing. */
struct trace_cut {
	size_t segments;
	uint64_t partial_bytes; /* of blocks that are not complete */
	uint64_t missing_bytes; /* of them, as far as it is known */
};
struct trace_cut trace_cut(const struct trace *t);
/*
 * Verifies all checksums. Returns the number of damaged blocks, headers and files, or a negative
 * code.
 */
int64_t trace_verify(struct trace *t, struct error *e) MUST_USE;

/*
 * For each row of a table with a `correlation` column (kernel, memcpy, memset, synchronization,
 * graph_launch, cuda_event, allocation) the row of api_call that launched it, or TRACE_NO_ROW: a
 * join on (process, correlation). Loads what it needs. The trace owns the array.
 */
int trace_launches(struct trace *t, enum table_id table, const uint32_t **calls,
		   struct error *e) MUST_USE;
/*
 * Frees the order of calls that trace_launches found (4 bytes per call, unless they are in order),
 * and lets other columns have the memory of correlation ids that only it loaded (8 bytes per row).
 * Call it after the last trace_launches.
 */
void trace_launches_done(struct trace *t);

#endif
