/*
 * trace_state.h: internals of a trace, shared by the files of src/trace.
 *
 * A segment belongs to a session, that is, to one writer: ids of strings, configurations and
 * functions are local to the session. A session's rows are shown under a process. Nearly every
 * session has a process of its own; rows of `pitot record` are shown under the process that it
 * started.
 *
 * catalog.c finds files and lists blocks; processes.c builds the list of processes; load.c decodes
 * blocks into columns, using strings.c (texts), refs.c (REF columns) and sort.c (order in time).
 */
#ifndef PITOT_TRACE_TRACE_STATE_H
#define PITOT_TRACE_TRACE_STATE_H

#include "base/map.h"
#include "base/vec.h"
#include "format/reader.h"
#include "trace/array.h"
#include "trace/columns.h"
#include "trace/id_table.h"
#include "trace/trace.h"

#define STRING_EMPTY 0u /* trace id of "" */
#define STRING_LOST 1u /* trace id of "?": a text that the recording does not define */

struct trace_segment {
	struct segment file;
	const char *name; /* without the folder; owned by the interner */
	uint32_t session; /* index */
	uint64_t shift_ns; /* of its times; the headers in memory have it (host_time.c) */
	/* damaged pieces outside of listed blocks; complete after trace_verify */
	uint64_t damage;
	bool repeated; /* a copy of another segment, which is ignored */
};

struct failed_file {
	const char *name, *reason;
	int code;
};

struct session {
	uint64_t id;
	uint32_t pid; /* in the segments' headers */
	uint32_t segments, missing_segments;
	uint32_t first_number; /* of its segments that are there */
	uint64_t start_ns, end_ns; /* by the headers of segments and blocks */
	bool closed;
	bool by_record; /* written by `pitot record`, not by a recorded process */
	bool is_ring; /* its first segments may have been overwritten */
	size_t process; /* index of the process under which its rows are shown */
};

enum block_state {
	BLOCK_GOOD,
	BLOCK_DAMAGED, /* its rows are not in the columns */
	BLOCK_INCOMPLETE, /* its rows are, but values of a column loaded later are missing */
};

struct block_item {
	uint32_t segment, block; /* indexes */
	uint32_t rows; /* in the table: excluding repeated rows */
	uint8_t state; /* enum block_state; while decoding, only the worker writes it */
	uint64_t row; /* its first row before sorting; valid once rows are assigned */
};

struct column_data {
	void *values; /* NULL if not loaded or without rows */
	uint8_t *valid; /* NULL: no value is missing */
	bool loaded;
	bool has_values; /* some value is not 0 */
	bool for_join; /* loaded only for trace_launches; dropped by trace_launches_done */
};

struct table_data {
	VEC(struct block_item) items; /* ordered by process, session, time */
	struct trace_table_size size;
	bool rows_assigned; /* rows, first_row, item.row and permutation are valid */
	uint64_t rows;
	uint64_t *first_row; /* one per process, then the number of rows */
	uint32_t *permutation; /* row r was decoded as row permutation[r]; NULL: identity */
	bool is_partial; /* trace_only_new has dropped blocks */
	bool order_forgotten; /* by trace_load_done: no more columns can be loaded */
	struct column_data columns[64];
	void *spare; /* 8 bytes per row, for the next column of that width; or NULL */
	union table_columns by_name; /* the pointers of `columns` */
	struct id_table *ids; /* per session: id -> row; of strings: id -> id of the trace */
	size_t ids_count;
	uint32_t *launches; /* for trace_launches */
};

struct trace {
	struct trace_options options;
	char *path;
	bool is_file; /* path is one segment */
	VEC(struct trace_segment) segments; /* ordered by session id and number */
	VEC(struct failed_file) failed;
	VEC(struct session) sessions;
	VEC(struct trace_process) processes;
	uint64_t command_ns; /* when `pitot record` started its command; UINT64_MAX: unknown */
	struct table_data tables[TABLE_END];
	struct interner strings;
	bool calls_sorted; /* calls_by_id is valid */
	uint32_t *calls_by_id; /* rows of api_call; NULL: they are in this order already */
	VEC(struct trace_loss) losses;
	int64_t realtime_offset_ns;
	VEC(uint32_t) unaligned; /* boot ids of hosts that keep their own clocks; 0: no id */
};

/* catalog.c */
/* Opens the segments. E_FORMAT if none can be read. */
int catalog_open(struct trace *t, struct error *e) MUST_USE;
/* Groups the segments by session. Until processes_build each session is its own process. */
int catalog_sessions(struct trace *t) MUST_USE;
/* Lists the blocks of each table in the order of the processes; discards loaded columns. */
int catalog_blocks(struct trace *t) MUST_USE;
void catalog_release(struct trace *t);
void table_release(struct table_data *table);

/* processes.c */
int processes_build(struct trace *t, struct error *e) MUST_USE;

/* host_time.c */
/*
 * Decides how far the times of each segment are shifted. 1: some are, so that sessions and
 * processes must be built again; 0: none is, or a negative code.
 */
int host_time_align(struct trace *t, struct error *e) MUST_USE;
/* Shifts decoded times other than 0; `valid` NULL: no value is missing. */
void host_time_shift(uint64_t *times, const uint8_t *valid, size_t count, uint64_t by_ns);

/* strings.c */
/* Id of a text in the trace, or -ENOMEM or E_LIMIT. */
int64_t trace_intern(struct trace *t, const char *text, size_t length);
/* Copy of a text that lives as long as the trace; "?" if there is no memory for it. */
const char *trace_copy_text(struct trace *t, const char *text);
/* Loads table string. */
int strings_decode(struct trace *t, struct error *e) MUST_USE;

/* refs.c */
/* Builds tables[target].ids. */
int refs_load(struct trace *t, enum table_id target, struct error *e) MUST_USE;

/* load.c */
/* Stores a decoded column; the table takes ownership of its arrays. */
void table_set_column(struct table_data *table, const struct table_schema *schema, int column,
		      struct column_data data);
/* Assigns rows of the table to its blocks. E_LIMIT if there are too many. */
int rows_assign(struct trace *t, struct table_data *table, struct error *e) MUST_USE;
/* Undoes rows_assign, dedup_rows and sort_rows after a failure. */
void rows_unassign(struct trace *t, enum table_id id);
const struct session *item_session(const struct trace *t, const struct block_item *item);

/* dedup_rows.c */
struct row_column {
	uint8_t *values;
	uint8_t *valid; /* NULL: no value is missing */
	uint8_t width;
};
/* Drops the rows r with dropped[r]; the same conditions as for dedup_rows. */
int rows_drop(struct trace *t, struct table_data *table, const struct row_column *columns,
	      size_t count, const uint8_t *dropped, struct error *e) MUST_USE;
/*
 * Drops the rows of a table that repeat an earlier row of their session. The blocks must be decoded
 * and not yet sorted; `columns` are all columns of the table.
 */
int dedup_rows(struct trace *t, struct table_data *table, const struct row_column *columns,
	       size_t count, struct error *e) MUST_USE;

/* cpu_samples.c */
/* Whether some process may be sampled by timers and from outside: 1, 0 or a negative code. */
int cpu_samples_overlap(struct trace *t, struct error *e) MUST_USE;
/* Drops the rows of cpu_sample that do not count; the same conditions as for dedup_rows. */
int cpu_samples_resolve(struct trace *t, const struct row_column *columns,
			struct error *e) MUST_USE;

/* sort.c */
/* Finds the permutation that sorts each process's rows by time; NULL if they are sorted already. */
int sort_rows(const uint64_t *times, const uint64_t *first_row, size_t processes,
	      uint32_t **permutation) MUST_USE;
/* Permutes an array in place. */
int sort_apply(void *values, size_t width, const uint32_t *permutation, uint64_t rows) MUST_USE;

#endif
