/*
 * read_table.h: a table as pitot_read_table hands it over: which columns and rows, then their
 * schema and arrays in Arrow's C data interface. An array refers to its recording, and so does each
 * of its children: consumers move them apart.
 */
#ifndef PITOT_READ_READ_TABLE_H
#define PITOT_READ_READ_TABLE_H

#include "pitot/read.h"
#include "read/read_stacks.h"
#include "read/view_where.h"

#define READ_COLUMNS_MAX 256u

/* What becomes of a value that view_columns.h knows. */
enum read_form {
	READ_AS_IT_IS,
	READ_SHORT, /* name of a kernel */
	READ_FULL,
	READ_ROW, /* REF: the number of the row */
	READ_FRAMES, /* of a stack: the list of its frames' names */
};

struct read_table {
	struct view_table view;
	struct view_columns columns;
	uint8_t forms[READ_COLUMNS_MAX]; /* enum read_form, of each column */
	struct view_where where;
	struct view_scopes scopes;
	bool without_scopes; /* ranges are missing from the trace */
	struct read_stacks stacks;
	bool windowed; /* only rows with since_ns <= time < until_ns, CLOCK_MONOTONIC */
	uint64_t since_ns, until_ns;
};

/*
 * Finds the columns and conditions; decodes nothing. *r is zeroed before but for without_scopes,
 * and read_table_release always needed.
 */
int read_table_init(struct read_table *r, struct trace *t, const struct pitot_read_query *query,
		    struct error *e) MUST_USE;
void read_table_release(struct read_table *r);

static inline bool read_is_text(const struct read_table *r, size_t column)
{
	return view_is_text(&r->columns.items.data[column]);
}

static inline bool read_is_enum(const struct read_table *r, size_t column)
{
	const struct column_schema *schema = r->columns.items.data[column].schema;

	return schema && schema->type == COLUMN_TYPE_ENUM;
}

/* E_USAGE, with the nearest name. */
int read_table_unknown(const char *name, struct error *e);

/* 0 or -ENOMEM. */
int read_table_schema(const struct read_table *r, struct ArrowSchema *out) MUST_USE;
/* Decodes. Arrays hold a reference to `recording`. 0 or a negative code. */
int read_table_array(struct read_table *r, struct pitot_recording *recording,
		     struct ArrowArray *out, struct error *e) MUST_USE;

/* read.c */
void recording_ref(struct pitot_recording *r);

#endif
