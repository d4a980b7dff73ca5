/*
 * read_table.h: implements pitot_read_table: selects columns and rows, and builds their schema and
 * arrays in Arrow's C data interface. An array holds a reference to its recording, and so does each
 * of its children, because consumers may separate them.
 */
#ifndef PITOT_READ_READ_TABLE_H
#define PITOT_READ_READ_TABLE_H

#include "export/export_stacks.h"
#include "pitot/read.h"
#include "read/view_where.h"

/* Call stacks as lists of frames: the column "stack.frames". */
struct stack_frames {
	uint64_t first, count; /* items of `names` */
};

struct read_stacks {
	struct export_stacks export;
	struct interner texts; /* names of frames, in UTF-8 */
	VEC(uint32_t) names; /* items of `texts`; outermost frame of each stack first */
	VEC(struct stack_frames) stacks; /* distinct stacks */
	uint32_t *stack_of_row; /* per row: item of `stacks`, or TRACE_NO_ROW; NULL: not loaded */
};

/* Whether rows of a table, or the calls that caused them, have stacks. */
bool read_stacks_available(const struct table_schema *table);
/* Call once, with *s zeroed; release *s in any case. Returns 0 or a negative code. */
int read_stacks_load(struct read_stacks *s, struct trace *t, const struct table_schema *table,
		     struct error *e) MUST_USE;
void read_stacks_release(struct read_stacks *s);

#define READ_COLUMNS_MAX 256u

/* The form in which a value of view_columns.h is returned. */
enum read_form {
	READ_AS_STORED,
	READ_SHORT, /* short name of a kernel */
	READ_FULL,
	READ_ROW, /* REF: the row number */
	READ_FRAMES, /* of a stack: list of its frames' names */
};

struct read_table {
	struct view_table view;
	struct view_columns columns;
	uint8_t forms[READ_COLUMNS_MAX]; /* enum read_form, per column */
	struct view_where where;
	struct row_scopes scopes;
	bool without_scopes; /* the trace lacks ranges */
	struct read_stacks stacks;
	bool windowed; /* only rows with since_ns <= time < until_ns, CLOCK_MONOTONIC */
	uint64_t since_ns, until_ns;
};

/*
 * Resolves the columns and conditions without decoding anything. *r must be zeroed except for
 * without_scopes; call read_table_release in any case.
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

/* Returns E_USAGE with the nearest name. */
int read_table_unknown(const char *name, struct error *e);

void arrow_schema_release(struct ArrowSchema *s);
/* Returns 0 or -ENOMEM. */
int read_table_schema(const struct read_table *r, struct ArrowSchema *out) MUST_USE;
/* Decodes the table. The arrays hold references to `recording`. Returns 0 or a negative code. */
int read_table_array(struct read_table *r, struct pitot_recording *recording,
		     struct ArrowArray *out, struct error *e) MUST_USE;

/* read.c */
void recording_ref(struct pitot_recording *r);
/* Returns the result, and describes it in *out if it is a failure. */
int read_finish(int result, const struct error *e, struct pitot_read_error *out);

#endif
