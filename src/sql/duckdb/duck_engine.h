/*
 * duck_engine.h: a database of DuckDB with the tables of sql.h. Tables of the schema are table
 * functions over the columns in memory, which threads of DuckDB read in chunks; tables and views of
 * few rows are what SQLite says of them; views with names of other tools, and functions, are
 * DuckDB's own.
 *
 * What was opened can only be read: DuckDB's parser says what a statement consists of before it is
 * prepared, and only SELECT with known table functions is. The database is in memory, without
 * access to files, extensions and settings, and without temporary files.
 */
#ifndef PITOT_SQL_DUCK_ENGINE_H
#define PITOT_SQL_DUCK_ENGINE_H

#include <pthread.h>

#include "sql/duckdb/duck_api.h"
#include "sql/sql_functions.h"
#include "sql/sql_source.h"

#define DUCK_TABLE_FUNCTION "pitot_table"
#define DUCK_TYPES 3 /* of columns: BIGINT, DOUBLE, VARCHAR */

struct duck_summary;

/* A table of the schema. */
struct duck_table {
	struct sql_source *sources; /* by recording */
	size_t column_count;
	struct texts *texts; /* by recording, then by column */
	struct duck_summary **distinct; /* by column; NULL: not made */
};

struct duck {
	struct sql *sql;
	void *database, *connection;
	/* Hidden columns are there if the statement, or a view in it, names them. */
	bool has_rowid, has_recording;
	struct duck_table *tables[TABLE_MAX + 1]; /* NULL: not yet needed */
	VEC(struct duck_summary *) summaries;
	VEC(const char *) views; /* that exist */
	VEC(const char *) distinct; /* tables that are views in the statement */
	struct kernel_names *short_names, *full_names;
	/*
	 * Columns are loaded under the write lock. Threads that read rows have the read lock; the
	 * lock of texts is taken after it, for sql.texts and names of kernels.
	 */
	pthread_rwlock_t loads;
	pthread_mutex_t texts;
};

int duck_open(struct sql *s, struct duck **out, struct error *e) MUST_USE;
void duck_close(struct duck *d);
/* Of any thread. A statement that begins forgets it. */
void duck_interrupt(struct duck *d);

/* duck_statement.c: as functions of sql.h. */
struct duck_statement;
int duck_prepare(struct duck *d, const char *text, struct duck_statement **out, const char **rest,
		 struct error *e) MUST_USE;
int duck_next(struct duck_statement *t, struct error *e) MUST_USE;
void duck_finalize(struct duck_statement *t);
size_t duck_column_count(const struct duck_statement *t);
const char *duck_column_name(const struct duck_statement *t, size_t column);
bool duck_column_is_text(const struct duck_statement *t, size_t column);
struct sql_value duck_value(struct duck_statement *t, size_t column);
/* Runs a statement of ours. 0 or a negative code. */
int duck_execute(struct duck *d, const char *text, struct error *e) MUST_USE;
/* Whether statements with functions that reach outside are refused. */
bool duck_can_refuse(struct duck *d);

/*
 * duck_distinct.c: makes views of tables for a statement that aggregates; `words` is what it
 * consists of, with views. 0 or a negative code.
 */
int duck_distinct_prepare(struct duck *d, const char *text, const char *words,
			  struct error *e) MUST_USE;

/* duck_tables.c, duck_functions.c: register theirs. 0 or a negative code. */
int duck_tables_add(struct duck *d, struct error *e) MUST_USE;
void duck_tables_free(struct duck *d);
int duck_functions_add(struct duck *d, struct error *e) MUST_USE;
/* The caller has the write lock. 0 or a negative code. */
int duck_table_find(struct duck *d, enum table_id id, struct duck_table **out,
		    struct error *e) MUST_USE;
/* Makes the views that a statement names, and decides on hidden columns. */
int duck_tables_prepare(struct duck *d, const char *text, struct error *e) MUST_USE;

/* duck_summary.c: tables and views that SQLite fills. */
union duck_cell {
	int64_t integer;
	double real;
	struct duck_text text;
};

struct duck_summary {
	char *name;
	bool made;
	size_t count; /* columns */
	struct duck_summary_column {
		char *name;
		int type; /* enum duck_type */
	} * columns;
	VEC(union duck_cell) cells; /* row by row */
	VEC(uint8_t) valid; /* of each cell */
};

/* Finds it, or adds it; *out is NULL if there is no such table or view. 0 or a negative code. */
int duck_summary_find(struct duck *d, const char *name, struct duck_summary **out,
		      struct error *e) MUST_USE;
/* Computes its rows, once. The caller has the write lock. 0 or a negative code. */
int duck_summary_make(struct duck *d, struct duck_summary *s, struct error *e) MUST_USE;
void duck_summary_free(struct duck_summary *s);

/* A text of an interner, which lives as long as the database. */
static inline struct duck_text duck_text(const struct interned *text)
{
	struct duck_text t = { .length = text->length };

	if (t.length > sizeof(t.bytes))
		t.text = text->text;
	memcpy(t.bytes, text->text, MIN((size_t)t.length, sizeof(t.prefix)));
	if (t.length <= sizeof(t.bytes))
		memcpy(t.bytes, text->text, t.length);
	return t;
}

#endif
