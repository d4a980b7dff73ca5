/* sql_rows.h: writes the rows of a statement as a table, CSV, JSON, Parquet or Arrow. */
#ifndef PITOT_CLI_SQL_ROWS_H
#define PITOT_CLI_SQL_ROWS_H

#include "base/output.h"
#include "cli/ui.h"
#include "sql/sql.h"

enum sql_format { SQL_TABLE, SQL_CSV, SQL_JSON, SQL_PARQUET, SQL_ARROW };

struct sql_rows {
	const struct context *context;
	enum sql_format format;
	uint64_t limit; /* of the rows; UINT64_MAX: all */
	struct output *file; /* NULL: standard output */
	bool is_terminal; /* or GitHub's runner, which would obey what is in texts */
};

/*
 * Runs a prepared statement and writes its rows. *left_out: there are more than the limit. Returns
 * EXIT_DONE, or another exit status after printing an error; 128 + n after signal n.
 */
int sql_rows_write(const struct sql_rows *r, struct sql_statement *statement,
		   bool *left_out) MUST_USE;

#endif
