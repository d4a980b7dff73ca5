/*
 * sql.h: recordings as SQL. Every table of the schema is a virtual table of SQLite with the columns
 * of flat_table.h, so that a query also runs in what `pitot export -o x.sqlite` writes. Beside
 * these there are:
 *
 *	recording    name of the recording; not part of `*` if there is only one
 *	rowid        number of the row; distinct over all recordings
 *	call         rowid of the api_call that caused the work
 *	scope        path of the innermost scope around the row
 *	caller       line of the program that made the call
 *
 * Nothing is copied: columns are decoded when a statement needs them, and rows are read from them
 * in chunks. Conditions on times, processes, numbers and texts are applied there.
 *
 * What was opened can only be read: an authorizer allows nothing but SELECT, the database is in
 * memory, and there are no functions that open files. Not thread-safe.
 *
 * DuckDB can answer in place of SQLite, which then still makes the tables of few rows (duckdb/).
 */
#ifndef PITOT_SQL_SQL_H
#define PITOT_SQL_SQL_H

#include <signal.h>
#include <stdbool.h>

#include "base/error.h"
#include "trace/trace.h"

struct sql;

struct sql_recording {
	const char *name; /* in column `recording` */
	const char *path;
	struct trace *trace; /* columns are loaded into it; must outlive the struct sql */
};

enum sql_engine { SQL_SQLITE, SQL_DUCKDB };

struct sql_options {
	enum sql_engine engine; /* SQL_DUCKDB: E_UNSUPPORTED without libduckdb.so */
	uint64_t timeout_ns; /* of a statement; 0: none */
	uint64_t memory_bytes; /* for sorting and grouping, of the whole process; 0: no limit */
	/* Of these two as users write them, for errors; NULL: those of the command line */
	const char *timeout_name, *memory_name;
	const volatile sig_atomic_t *cancel; /* once nonzero, statements fail; may be NULL */
	/*
	 * Called on another thread, with `user`, while a statement does not end that has to: one
	 * function of it computes. Must not return. NULL: such a statement ends with the function.
	 */
	void (*runaway)(void *user, const struct error *why);
	void *user;
};

#define SQL_MEMORY_BYTES (UINT64_C(4) << 30) /* a default that leaves room for the recording */
#define SQL_RECORDINGS_MAX 1024u

/* The strings are copied. 0 or a negative code. */
int sql_open(const struct sql_recording *recordings, size_t count,
	     const struct sql_options *options, struct sql **out, struct error *e) MUST_USE;
void sql_free(struct sql *s);
/* Of the statements from here on, in SQLite. */
void sql_set_limits(struct sql *s, uint64_t timeout_ns, uint64_t memory_bytes);
/* Says that a statement needs more memory than it may. Returns the code. */
int sql_memory_error(const struct sql *s, struct error *e);

/*
 * Prepares the first statement of a text; *rest is what follows it. Returns 1, 0 if there is no
 * statement in it, or a negative code; E_USAGE for what SQL does not allow: the error's text has
 * further lines with the statement, a caret, and the nearest name.
 */
struct sql_statement;
int sql_prepare(struct sql *s, const char *text, struct sql_statement **statement,
		const char **rest, struct error *e) MUST_USE;
/* Returns 1 with the next row, 0 at the end, -ECANCELED, -ETIMEDOUT or another negative code. */
int sql_next(struct sql_statement *statement, struct error *e) MUST_USE;
void sql_finalize(struct sql_statement *statement); /* NULL is allowed */

size_t sql_column_count(const struct sql_statement *statement);
const char *sql_column_name(const struct sql_statement *statement, size_t column);
/* Whether the column is declared as text. */
bool sql_column_is_text(const struct sql_statement *statement, size_t column);

/* A value of the current row. Its text is valid until the next sql_next(). */
enum sql_value_type { SQL_MISSING, SQL_INTEGER, SQL_REAL, SQL_TEXT };
struct sql_value {
	enum sql_value_type type;
	int64_t integer;
	double real;
	const char *text; /* any bytes */
	size_t length;
};
struct sql_value sql_value(struct sql_statement *statement, size_t column);

/*
 * Calls `visit` for each table with its meaning, in the order of the schema, summaries first, and
 * for each column of a table, or returns E_USAGE with the nearest name.
 */
struct sql_item {
	const char *name, *type, *meaning;
	uint64_t rows; /* of a table of the schema; 0: a summary or a view */
};
typedef void sql_visit(void *user, const struct sql_item *item);
void sql_tables(struct sql *s, sql_visit *visit, void *user);
int sql_columns(struct sql *s, const char *table, sql_visit *visit, void *user,
		struct error *e) MUST_USE;

#endif
