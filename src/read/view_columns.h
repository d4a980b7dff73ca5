/*
 * view_columns.h: the columns that `pitot view` shows and tests: those of the table, values of the
 * rows that REF columns refer to ("config.grid_x"), and derived ones ("duration", "pid", "scope").
 */
#ifndef PITOT_READ_VIEW_COLUMNS_H
#define PITOT_READ_VIEW_COLUMNS_H

#include "analysis/scope_paths.h"
#include "base/json.h"
#include "base/vec.h"
#include "trace/counter_value.h"
#include "trace/trace.h"

/* The scope of each row of a table: the column `scope` of `pitot view`. */
struct view_scopes {
	struct nvtx_ranges ranges;
	uint32_t *paths; /* by row: of the innermost scope, or SCOPE_NONE; NULL: not loaded */
};

/* Whether rows of a table have one: calls, what calls cause, and what threads do at a time. */
bool view_scopes_known(const struct table_schema *table);
/* Once; to be released in any case. 0 or a negative code. */
int view_scopes_load(struct view_scopes *s, struct trace *t, const struct table_schema *table,
		     struct error *e) MUST_USE;
void view_scopes_release(struct view_scopes *s);

enum view_kind {
	VIEW_STORED, /* a column of the table */
	VIEW_REFERRED, /* a column of the row that a REF column refers to */
	VIEW_DURATION, /* end_ns - start_ns */
	VIEW_PID, /* process of the row */
	VIEW_SCOPE, /* path of the innermost scope around it */
};

struct view_column {
	enum view_kind kind;
	int column; /* in the table; VIEW_DURATION: of start_ns */
	int end_column; /* VIEW_DURATION: of end_ns */
	int sub_column; /* VIEW_REFERRED: in the table referred to */
	const struct column_schema *schema; /* of the value; NULL for derived ones */
	char *label; /* as requested, or the column's name */
	char head[72]; /* of the text table, with moments in seconds: "start_s" */
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
	uint64_t origin_ns; /* times are shown from here */
	bool full_names; /* kernel names with all parameters */
	bool always_pid; /* by default pid is a column, however many processes there are */
	/* of its rows, loaded when needed; NULL: there is no such column */
	struct view_scopes *scopes;
};

void view_columns_release(struct view_columns *v);
/* All columns of the table, and duration; pid when there are several processes. 0 or -ENOMEM. */
int view_columns_default(const struct view_table *t, struct view_columns *v) MUST_USE;
/*
 * Adds a column by name: "stream"; "start" for start_ns; "config.grid_x"; "config" or "name" for
 * the name of what config refers to; "duration"; "pid"; "scope". E_USAGE, with the nearest name,
 * when there is none.
 */
int view_columns_add(const struct view_table *t, const char *name, struct view_columns *v,
		     struct error *e) MUST_USE;

/* Loads what the columns need. 0 or a negative code. */
int view_columns_load(const struct view_table *t, const struct view_columns *v,
		      struct error *e) MUST_USE;

struct view_value view_value(const struct view_table *t, const struct view_column *c, uint64_t row);
/*
 * For people: seconds from the start, names of enums, texts; safe for a terminal; "-" when missing.
 */
void view_text(const struct view_table *t, const struct view_column *c, uint64_t row,
	       struct strbuf *out);
/* For scripts: integers, names of enums, texts; null when missing. */
void view_json(const struct view_table *t, const struct view_column *c, uint64_t row,
	       struct json *j);

/* Kind of the value, for conditions. */
bool view_is_time(const struct view_column *c); /* a moment */
bool view_is_duration(const struct view_column *c); /* nanoseconds */
bool view_is_text(const struct view_column *c);
bool view_is_counter_value(const struct view_table *t, const struct view_column *c);
struct counter_value view_counter_value(const struct view_table *t, uint64_t row);
bool view_is_kernel_name(const struct view_table *t, const struct view_column *c);

#endif
