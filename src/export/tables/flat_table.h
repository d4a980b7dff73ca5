/*
 * flat_table.h: tables of a recording for formats of tables, which know nothing of processes, ids
 * and clocks. Columns are: what identifies the process; the row's number in tables that others
 * refer to; the table's own columns, with texts in place of ids and names in place of the numbers
 * of enums; after a reference, the name of what it refers to; and durations. Times are those of
 * CLOCK_REALTIME. Only columns at the end may ever be added.
 */
#ifndef PITOT_EXPORT_FLAT_TABLE_H
#define PITOT_EXPORT_FLAT_TABLE_H

#include "base/map.h"
#include "base/output.h"
#include "base/vec.h"
#include "export/exporter.h"

#define FLAT_ROWS ((size_t)128 << 10) /* of a chunk */

enum flat_type {
	FLAT_TIME, /* nanoseconds since the epoch */
	FLAT_I64,
	FLAT_U64,
	FLAT_I32,
	FLAT_U32, /* also narrower ones */
	FLAT_F64,
	FLAT_TEXT, /* values are numbers, for flat_text() */
};

enum flat_source {
	FLAT_JOB,
	FLAT_HOST,
	FLAT_RANK,
	FLAT_PID,
	FLAT_SESSION,
	FLAT_ROW,
	FLAT_STORED,
	FLAT_NAME, /* of the row that the column refers to */
	FLAT_DURATION,
	FLAT_GIVEN, /* a column of flat_given.h */
	FLAT_READING, /* the value of a counter or a metric, as a double */
	FLAT_MEMORY, /* of a row that is in no recording */
};

struct flat_column {
	char name[64];
	enum flat_type type;
	enum flat_source source;
	int column; /* in the table; -1: none */
	bool maybe; /* values can be missing */
	bool is_end; /* an end that start and duration give */
	const char *meaning;
};

/* Rows in memory, of flat_given.h. */
enum given_kind { GIVEN_NONE, GIVEN_INTEGER, GIVEN_REAL, GIVEN_TEXT };

struct given_column {
	VEC(uint64_t) values; /* bits of a number, or the id of a text */
	VEC(uint8_t) kinds; /* enum given_kind */
};

struct given_rows {
	struct given_column *columns;
	struct interner texts;
};

/* Rows that are in no recording. Times are those of CLOCK_REALTIME, texts are ids of `texts`. */
struct flat_memory {
	const char *name; /* of the table */
	size_t row_values; /* 64-bit words of a row: bits of its missing values, and its values */
	const uint64_t *rows;
	const struct interner *texts;
};

struct flat_table {
	const struct flat_memory *memory; /* if set, there is no trace, and there are no options */
	const struct given_rows *given; /* instead of those of a trace, or NULL */
	struct trace *trace;
	const struct export_options *options;
	const struct export_result *result; /* of the tables before this one */
	const struct table_schema *schema;
	VEC(struct flat_column) columns;
	uint64_t rows; /* in the window of the options */
	uint64_t next, taken; /* private to flat_next(): its row, and how many there were */
	size_t process;
	bool windowed;
	const size_t *partitions; /* of the processes; NULL: there are none */
	size_t partition; /* that is written */
	int64_t offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC */
};

/*
 * Loads a table. Returns 1, or 0 if it has no rows or is not for exports, or a negative code;
 * release in any case. The result is that of the tables before, and is kept.
 */
int flat_table_init(struct flat_table *f, struct trace *t, const struct export_options *options,
		    const struct export_result *result, enum table_id table,
		    struct error *e) MUST_USE;
/* Makes a table of rows in memory, without columns; they are added with flat_memory_column(). */
void flat_memory_init(struct flat_table *f, const struct flat_memory *memory, uint64_t rows);
/* Adds the next column. 0 or -ENOMEM. */
int flat_memory_column(struct flat_table *f, const char *name, enum flat_type type, bool maybe,
		       const char *meaning) MUST_USE;
/* The name of the table. */
const char *flat_name(const struct flat_table *f);
/* Chooses the rows of processes with a number in a list of all. Returns 1, or 0: there are none. */
int flat_select(struct flat_table *f, const size_t *partitions, size_t partition);
/* The first process whose rows are written; NULL: there is none. */
const struct trace_process *flat_first_process(const struct flat_table *f);
void flat_table_release(struct flat_table *f);

/*
 * Lists the columns of a table without loading it: for readers that choose columns and rows
 * themselves. Release in any case. 0 or a negative code.
 */
int flat_describe(struct flat_table *f, struct trace *t, enum table_id table,
		  struct error *e) MUST_USE;
/* Loads what a column needs. 0 or a negative code. */
int flat_load(const struct flat_table *f, const struct flat_column *c, struct error *e) MUST_USE;
/*
 * The first row of a process at or after a time (CLOCK_MONOTONIC) of the loaded time column, by
 * which its rows are in order.
 */
uint64_t flat_row_at(const struct flat_table *f, size_t process, uint64_t time_ns);

/* Sets the next rows to write, at most FLAT_ROWS; false: there are no more. */
bool flat_next(struct flat_table *f, uint64_t *first, size_t *count);
/* Reports that the rows of flat_next() are written. Returns 0, or -ECANCELED if that is wanted. */
int flat_progress(const struct flat_table *f) MUST_USE;

/* Rows in their order, or those of a list. */
struct flat_rows {
	uint64_t first; /* without a list */
	const uint32_t *list;
	size_t count;
};
/*
 * Reads the values of rows: 64 bits each, 32-bit ones sign-extended if they are signed; valid[i] is
 * 0 where there is none, and its value is 0. Returns how many there are.
 */
size_t flat_read(const struct flat_table *f, const struct flat_column *c, const struct flat_rows *r,
		 uint64_t *values, uint8_t *valid);
/* The values of all columns of some rows, by column. */
struct flat_chunk {
	size_t columns;
	struct flat_rows rows;
	uint64_t **values;
	uint8_t **valid;
};
int flat_chunk_init(struct flat_chunk *c, const struct flat_table *f, struct error *e) MUST_USE;
/* Reads the next rows. Returns 1, 0 after the last ones, or -ECANCELED. */
int flat_chunk_next(struct flat_chunk *c, struct flat_table *f) MUST_USE;
void flat_chunk_release(struct flat_chunk *c);
/* The text of a value; any bytes. Valid until the next call with the same `room`. */
const char *flat_text(const struct flat_table *f, const struct flat_column *c, uint64_t value,
		      struct strbuf *room, size_t *length);
/*
 * Writes a file for each table into a folder, which is created; what was written is removed after
 * an error. The path of a file is FOLDER/TABLE and the suffix; of a partition
 * FOLDER/TABLE/job=J/host=H/rank=R/TABLE and the suffix, without columns of these names in it.
 */
typedef int flat_write_table(struct flat_table *f, struct output *output, struct error *e);
int flat_write_folder(struct trace *t, const struct export_options *options, const char *path,
		      const char *suffix, flat_write_table *write, struct export_result *result,
		      struct error *e) MUST_USE;
/* Write the rows of one table. */
flat_write_table parquet_write_table, arrow_write_table;
/*
 * Writes a table into a Parquet file, which gets its name when it is complete. Returns 0 or a
 * negative code. In parquet.c.
 */
int parquet_write_file(struct flat_table *f, const char *path, uint64_t *bytes,
		       struct error *e) MUST_USE;
/* Fails if options restrict the export in a way that formats of tables do not know. */
int flat_check_options(const struct export_options *options, const char *format, struct error *e);

#endif
