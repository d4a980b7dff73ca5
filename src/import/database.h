/*
 * database.h: reads a SQLite database that others wrote: by descriptor, never writing, without its
 * journals. Tables and columns may be missing, and any value may be of any type.
 *
 *	struct query q = { 0 };
 *	rc = query_open(&q, d, "KERNEL", columns, ARRAY_SIZE(columns), "ORDER BY 1", e);
 *	while (rc >= 0 && (rc = query_next(&q)) > 0)
 *		use(query_integer(&q, 0, &value));
 *	query_close(&q);
 */
#ifndef PITOT_IMPORT_DATABASE_H
#define PITOT_IMPORT_DATABASE_H

#include <sqlite3.h>

#include "base/strbuf.h"
#include "import/importer.h"

struct database {
	sqlite3 *db;
	char vfs_name[40];
	sqlite3_vfs vfs;
	int fd; /* the input's */
	uint64_t size; /* bytes of the database */
	_Atomic uint64_t read; /* bytes that were read so far */
	_Atomic uint64_t steps; /* of SQLite's machine, since the last query was opened */
	const struct import_options *options;
	struct strbuf queried; /* "|KERNEL|MEMCPY|": tables that were selected from */
};

/* Whether the input is a database with such a table or view. */
bool database_sniff(const struct input *in, const char *table);

/* Opens the input's database. Returns 0 or a negative code; close in any case. */
int database_open(struct database *d, struct input *in, const char *path,
		  const struct import_options *options, struct error *e) MUST_USE;
void database_close(struct database *d);
/* Makes a further connection to it, for another thread. Returns SQLITE_OK or an error. */
int database_connect(struct database *d, sqlite3 **db);
/* Whether there is such a table or view. */
bool database_has(struct database *d, const char *table);
/* Whether there is such a table, and no view. */
bool database_has_table(struct database *d, const char *table);

#define QUERY_COLUMNS_MAX 48
#define QUERY_ROWS 1024 /* of a batch */

enum query_type { QUERY_NULL, QUERY_INTEGER, QUERY_REAL, QUERY_TEXT, QUERY_OTHER };

/* Rows that were read, column after column: that is faster than asking SQLite for each value. */
struct query_batch {
	uint32_t rows;
	int result; /* of the step after the last row: SQLITE_ROW, SQLITE_DONE or an error */
	bool goes_on; /* the next batch is by the same reader */
	uint64_t read; /* bytes of the file, when it was complete */
	struct strbuf texts;
	uint8_t *types; /* enum query_type, [row * columns + column] */
	int64_t *values; /* reals as bits; of texts, offset << 32 | length */
};

struct query {
	struct database *d;
	sqlite3_stmt *statement; /* NULL: the table is missing, and has no rows */
	uint64_t rows; /* read so far */
	/*
	 * SQLITE_… with which the reading has ended early; 0: none. SQLITE_TOOBIG: more rows than
	 * bytes; SQLITE_INTERRUPT: too many steps.
	 */
	int failure;

	/* Private: */
	int columns;
	uint32_t row; /* in the batch */
	struct query_batch own, *batch; /* the one that is being used */
	const char *table; /* if the statement selects all rows of one in the order of its rowids */
	uint64_t expected; /* rows of the table, if its rowids have no gap; 0: unknown */
	struct query_reader *readers; /* threads that read ahead */
	unsigned reader_count, turn;
};

struct query_source {
	const char *table;
	/* A second table, whose column id is column `on` of the first; NULL: none. Rows without one
	 * have NULL in its columns. */
	const char *join, *on;
};

/*
 * Selects columns. One of a list "a|b" is the first that the table has; a column that is missing
 * altogether is NULL. Columns of the second table begin with +. `rest` is SQL, may be NULL. Returns
 * 0 or a negative code.
 */
int query_select(struct query *q, struct database *d, const struct query_source *source,
		 const char *const *columns, size_t count, const char *rest,
		 struct error *e) MUST_USE;
/* The same for one table. */
int query_open(struct query *q, struct database *d, const char *table, const char *const *columns,
	       size_t count, const char *rest, struct error *e) MUST_USE;
/* The same with a complete statement. */
int query_sql(struct query *q, struct database *d, const char *sql, struct error *e) MUST_USE;
/* Rows are read by other threads from now on; until the end there must be no other query. */
void query_read_ahead(struct query *q);
/* Returns 1 for a row, 0 at the end or at damage (failure), or -ECANCELED or -ENOMEM. */
int query_next(struct query *q) MUST_USE;
void query_close(struct query *q);

static inline enum query_type query_value(const struct query *q, int column, int64_t *value)
{
	size_t at = (size_t)q->row * (size_t)q->columns + (size_t)column;

	*value = q->batch->values[at];
	return q->batch->types[at];
}

/* The integer, or `otherwise` for NULL and other types. */
static inline int64_t query_number(const struct query *q, int column, int64_t otherwise)
{
	int64_t value;

	return query_value(q, column, &value) == QUERY_INTEGER ? value : otherwise;
}

/* A text until the next row, with a NUL; NULL if the value is none. */
const char *query_text(const struct query *q, int column, size_t *length);

/* For database_reader.c: */
int query_batch_init(struct query_batch *b, int columns) MUST_USE;
void query_batch_release(struct query_batch *b);
void query_batch_begin(struct query_batch *b);
bool query_batch_is_full(const struct query_batch *b);
void query_batch_end(const struct query *q, struct query_batch *b, int result);
void query_batch_value(struct query_batch *b, sqlite3_value *v, size_t at);
/* Gets the next batch of the readers. */
void query_readers_next(struct query *q);
void query_readers_stop(struct query *q);

#endif
