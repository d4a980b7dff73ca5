/*
 * sql_source.h: a table of one recording, as virtual tables read it: columns are loaded when they
 * are first read, values are 64 bits, texts are items of one list for all tables, which are made
 * when they are first needed.
 */
#ifndef PITOT_SQL_SQL_SOURCE_H
#define PITOT_SQL_SQL_SOURCE_H

#include <sqlite3.h>

#include "analysis/callers.h"
#include "analysis/row_scopes.h"
#include "export/tables/flat_table.h"
#include "sql/sql.h"

struct sql {
	sqlite3 *db;
	struct sql_recording *recordings;
	size_t count;
	struct sql_options options;
	struct interner texts; /* of all columns */
	uint64_t deadline_ns; /* of the running statement; 0: none */
	_Atomic bool late, large; /* the deadline has passed; DuckDB has too much memory */
	bool declaring; /* a virtual table: SQLite parses a CREATE TABLE */
	struct error error; /* of a virtual table: SQLite carries only a text */
	struct callers **callers; /* by recording; NULL: not yet needed */
	struct sql_summary *summaries; /* sql_summary.c: by enum sql_summary_kind */
	struct duck *duck; /* DuckDB, which answers; NULL: SQLite does */
	struct sql_watch *watch; /* NULL: nothing needs it */
	_Atomic uint64_t calls; /* of the engine; odd while one is under way */
	_Atomic unsigned loading; /* what is done for later statements as well: it has no limits */
};

/* Whether the running statement has to stop. */
bool sql_stopped(struct sql *s);
/* Says why. Returns the code. */
int sql_stop_error(const struct sql *s, struct error *e);
/* Declares the columns of a virtual table. An SQLite result. */
int sql_declare(struct sql *s, const char *text);

enum sql_kind { SQL_FLAT, SQL_RECORDING, SQL_CALL, SQL_SCOPE, SQL_CALLER };

/* Rows by value, for joins and groups: `rows` are sorted by `keys`, then by number. */
struct sql_index {
	int64_t *keys; /* of texts: their rank in the order of texts */
	uint32_t *rows;
	size_t count;
	VEC(uint32_t) ranks; /* of texts, by item of sql.texts; 0: no row has it */
};

struct sql_column {
	enum sql_kind kind;
	const struct flat_column *flat; /* SQL_FLAT */
	const char *name, *meaning;
	bool loaded;
	uint64_t lookups; /* how often rows with one value were wanted */
	VEC(uint32_t) texts; /* by value: item of sql.texts + 1; 0: not yet made */
	struct sql_index index;
};

struct sql_source {
	struct sql *sql;
	size_t recording;
	struct trace *trace;
	const struct table_schema *schema;
	struct flat_table flat;
	VEC(struct sql_column) columns;
	struct row_scopes scopes;
	const uint32_t *calls; /* SQL_CALL, SQL_CALLER: by row; NULL: rows are calls */
};

int sql_source_init(struct sql_source *s, struct sql *sql, size_t recording, enum table_id table,
		    struct error *e) MUST_USE;
void sql_source_release(struct sql_source *s);

/* "TEXT", "INTEGER" or "REAL". */
const char *sql_column_type(const struct sql_column *c);
static inline bool sql_is_text(const struct sql_column *c)
{
	return c->kind == SQL_RECORDING || c->kind == SQL_SCOPE || c->kind == SQL_CALLER ||
	       (c->kind == SQL_FLAT && c->flat->type == FLAT_TEXT);
}
/* Whether all rows of a process have the same value. */
bool sql_is_of_process(const struct sql_column *c);

int sql_load(struct sql_source *s, size_t column, struct error *e) MUST_USE;
/*
 * Reads values of a loaded column; those of texts are for sql_text_item(). Returns how many there
 * are.
 */
size_t sql_read(const struct sql_source *s, size_t column, const struct flat_rows *rows,
		uint64_t *values, uint8_t *valid);
/*
 * Whether times of a process, whose column is loaded, are in SQL in the order of its rows: those of
 * a clock that is damaged may exceed 63 bits.
 */
bool sql_times_fit(const struct sql_source *s, size_t process);
/* The item of sql.texts + 1 of a value of a text column; 0: out of memory. */
uint32_t sql_text_item(struct sql_source *s, size_t column, uint64_t value);
/*
 * Makes the column's index, if it has none. Its order is SQLite's: NULL first, texts by their
 * bytes. 0 or a negative code.
 */
int sql_index_make(struct sql_source *s, size_t column, struct error *e) MUST_USE;

#define SQL_ROWID_BITS 40
static inline uint64_t sql_rowid(const struct sql_source *s, uint64_t row)
{
	return (uint64_t)s->recording << SQL_ROWID_BITS | row;
}

#endif
