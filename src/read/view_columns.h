/*
 * view_columns.h: the columns that `pitot view` shows and filters by: the table's own, columns of
 * rows that REF columns refer to ("config.grid_x"), and derived ones ("duration", "pid", "scope").
 */
#ifndef PITOT_READ_VIEW_COLUMNS_H
#define PITOT_READ_VIEW_COLUMNS_H

#include "analysis/row_scopes.h"
#include "base/json.h"
#include "base/vec.h"
#include "trace/counter_value.h"
#include "trace/trace.h"

enum view_kind {
	VIEW_STORED, /* a column of the table */
	VIEW_REFERRED, /* a column of the row that a REF column refers to */
	VIEW_DURATION, /* end_ns - start_ns */
	VIEW_PID, /* process of the row */
	VIEW_SCOPE, /* path of the row's innermost scope */
};

struct view_column {
	enum view_kind kind;
	int column; /* in the table; VIEW_DURATION: start_ns */
	int end_column; /* VIEW_DURATION: end_ns */
	int sub_column; /* VIEW_REFERRED: in the table referred to */
	const struct column_schema *schema; /* of the value; NULL for derived columns */
	char *label; /* as requested, or the column's name */
	char head[72]; /* heading in the text table, with times in seconds: "start_s" */
};

struct view_columns {
	VEC(struct view_column) items;
};

struct view_value {
	bool missing;
	uint64_t number; /* strings: their id */
};

/* A table as a view reads it. */
struct view_table {
	struct trace *trace;
	const struct table_schema *schema;
	uint64_t origin_ns; /* times are shown relative to this */
	bool full_names; /* kernel names with all parameters */
	bool always_pid; /* include pid by default even if there is only one process */
	/* scopes of its rows, loaded on demand; NULL: no scope column */
	struct row_scopes *scopes;
};

void view_columns_release(struct view_columns *v);
/* Adds all columns, duration and, with several processes, pid. Returns 0 or -ENOMEM. */
int view_columns_default(const struct view_table *t, struct view_columns *v) MUST_USE;
/*
 * Adds a column by name: "stream"; "start" for start_ns; "config.grid_x"; "config" or "name" for
 * the name of the row that config refers to; "duration"; "pid"; "scope". Returns E_USAGE with the
 * nearest name if there is none.
 */
int view_columns_add(const struct view_table *t, const char *name, struct view_columns *v,
		     struct error *e) MUST_USE;

/* Loads the data of the columns. Returns 0 or a negative code. */
int view_columns_load(const struct view_table *t, const struct view_columns *v,
		      struct error *e) MUST_USE;

struct view_value view_value(const struct view_table *t, const struct view_column *c, uint64_t row);
/*
 * For people: seconds from the origin, names of enums, texts; safe for a terminal; "-" if missing.
 */
void view_text(const struct view_table *t, const struct view_column *c, uint64_t row,
	       struct strbuf *out);
/* For scripts: integers, names of enums, texts; null if missing. */
void view_json(const struct view_table *t, const struct view_column *c, uint64_t row,
	       struct json *j);

/* Kind of the value, for conditions. */
bool view_is_time(const struct view_column *c); /* a point in time */
bool view_is_duration(const struct view_column *c); /* nanoseconds */
bool view_is_text(const struct view_column *c);
bool view_is_counter_value(const struct view_table *t, const struct view_column *c);
struct counter_value view_counter_value(const struct view_table *t, uint64_t row);
bool view_is_kernel_name(const struct view_table *t, const struct view_column *c);

#endif
