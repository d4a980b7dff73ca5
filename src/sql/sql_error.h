/* sql_error.h: what a statement has that SQL or the recording has not, and where. */
#ifndef PITOT_SQL_SQL_ERROR_H
#define PITOT_SQL_SQL_ERROR_H

#include "sql/sql_source.h"

#define SQL_ONLY_SELECT "only SELECT is allowed: a recording is never changed"

struct sql_problem {
	const char *message;
	const char *table, *column; /* that there is not; NULL: it is another problem */
	int64_t offset; /* in the statement; -1: not known */
};

/*
 * Describes a problem of a statement: its message with the nearest name, and on two more lines the
 * statement's line and a caret. Returns E_USAGE.
 */
int sql_describe(struct sql *s, const char *text, const struct sql_problem *p, struct error *e);

/* Finds a word of a text, in any case of letters; NULL: it is not there. */
const char *sql_find_word(const char *text, const char *word);

/* Describes SQLite's last error in a statement. Returns E_USAGE. */
int sql_error(struct sql *s, const char *text, struct error *e);

#endif
