/* sql_error.h: what a statement has that SQL or the recording has not, and where. */
#ifndef PITOT_SQL_SQL_ERROR_H
#define PITOT_SQL_SQL_ERROR_H

#include "sql/sql_source.h"

/*
 * Describes SQLite's last error in a statement: its message with the nearest name, and on two more
 * lines the statement's line and a caret. Returns E_USAGE.
 */
int sql_error(struct sql *s, const char *text, struct error *e);

#endif
