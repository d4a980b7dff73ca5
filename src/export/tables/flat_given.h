/*
 * flat_given.h: rows in memory, such as those of an SQL statement, as a table for formats of tables
 * (flat_table.h). A column has one type: the least that has all of its values without change,
 * of integer, real and text.
 */
#ifndef PITOT_EXPORT_FLAT_GIVEN_H
#define PITOT_EXPORT_FLAT_GIVEN_H

#include "export/tables/flat_table.h"

#define FLAT_GIVEN_BYTES_MAX ((size_t)1 << 30)

struct flat_given {
	struct flat_table table; /* after flat_given_finish() */
	struct table_schema schema; /* of which only the name is used */
	struct given_rows rows;
	size_t column_count;
};

/* `name`: of the table. 0 or -ENOMEM; release in any case. */
int flat_given_init(struct flat_given *g, const char *name, size_t columns) MUST_USE;
/* Names a column; empty, equal and long names are changed. */
int flat_given_name(struct flat_given *g, size_t column, const char *name) MUST_USE;
/* Add a value to a column. Return 0, -ENOMEM, or E_LIMIT beyond FLAT_GIVEN_BYTES_MAX. */
int flat_given_number(struct flat_given *g, size_t column, enum given_kind kind,
		      uint64_t bits) MUST_USE;
int flat_given_text(struct flat_given *g, size_t column, const char *text, size_t length) MUST_USE;
/* Chooses the types, after which g->table can be written. All columns have equally many values. */
int flat_given_finish(struct flat_given *g) MUST_USE;
void flat_given_release(struct flat_given *g);

#endif
