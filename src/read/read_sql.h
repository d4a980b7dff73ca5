/* read_sql.h: the rows of a statement (src/sql) in Arrow's C data interface. */
#ifndef PITOT_READ_READ_SQL_H
#define PITOT_READ_READ_SQL_H

#include "pitot/read.h"
#include "sql/sql.h"

/*
 * Runs the only statement of a text. A column is of 64-bit integers, of doubles if it has one, or
 * of texts if it has one. Without `array` the statement is only checked. 0 or a negative code.
 */
int read_sql(struct sql *sql, const char *text, const struct pitot_read_limits *limits,
	     struct ArrowSchema *schema, struct ArrowArray *array, struct error *e) MUST_USE;

#endif
