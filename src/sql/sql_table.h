/* sql_table.h: the tables of the schema as virtual tables of SQLite. */
#ifndef PITOT_SQL_SQL_TABLE_H
#define PITOT_SQL_SQL_TABLE_H

#include "sql/sql_source.h"

/* Registers a table. 0 or a negative code. */
int sql_table_add(struct sql *s, enum table_id table, struct error *e) MUST_USE;

/* Stores the first error of a statement, and returns an SQLite result for it. */
int sql_table_failed(struct sql *s, int rc, const struct error *e);

#endif
