/* text_table.h: rows of text printed as aligned columns. */
#ifndef PITOT_REPORT_TEXT_TABLE_H
#define PITOT_REPORT_TEXT_TABLE_H

#include "base/vec.h"
#include "report/text.h"

struct text_column {
	const char *head; /* "" for none; a column without head and text takes no room */
	bool left; /* aligned to the left; else to the right */
	bool flexible; /* cut when the line would be too long; at most one */
	bool optional; /* left out when the line would be too long, before anything is cut */
};

#define RIGHT(head)                                                                                \
	{                                                                                          \
		head, false, false, false                                                          \
	}
#define LEFT(head)                                                                                 \
	{                                                                                          \
		head, true, false, false                                                           \
	}
#define FLEXIBLE(head)                                                                             \
	{                                                                                          \
		head, true, true, false                                                            \
	}
#define OPTIONAL_RIGHT(head)                                                                       \
	{                                                                                          \
		head, false, false, true                                                           \
	}
#define OPTIONAL(head)                                                                             \
	{                                                                                          \
		head, true, false, true                                                            \
	}

/*
 * Cells are added one after the other, row by row. Failure to allocate shows when the table is
 * printed.
 */
struct text_table {
	const struct text_column *columns;
	size_t column_count;
	struct strbuf text; /* of all cells, with a NUL between them */
	VEC(size_t) cells; /* offsets in text */
	size_t *widths; /* of the columns as printed so far; never shrink, but to 0 */
	bool headless; /* no line of heads */
	bool failed;
};

#define TEXT_TABLE_INIT(table_columns)                                                             \
	{                                                                                          \
		.columns = (table_columns), .column_count = ARRAY_SIZE(table_columns)              \
	}

void text_table_release(struct text_table *t);
/* Begins a cell, whose text is appended to what this returns. */
struct strbuf *text_table_begin(struct text_table *t);
/* One cell; the text is copied and must be safe; or made so. */
void text_table_add(struct text_table *t, const char *text);
void text_table_safe(struct text_table *t, const char *text);
void text_table_addf(struct text_table *t, const char *format, ...) PRINTF_LIKE(2, 3);
/* Numbers as people read them. */
void text_table_duration(struct text_table *t, uint64_t ns);
void text_table_count(struct text_table *t, uint64_t n);
void text_table_bytes(struct text_table *t, uint64_t bytes);
void text_table_percent(struct text_table *t, uint64_t part, uint64_t whole);
/* The rest of the current row as empty cells. */
void text_table_end_row(struct text_table *t);
/* After a whole row: a line of its own below it, dim, starting at a column. */
void text_table_note(struct text_table *t, size_t column, const char *text);
/* Forgets the rows after they were printed; what follows is aligned with them and has no heads. */
void text_table_clear(struct text_table *t);
size_t text_table_rows(const struct text_table *t);
/* Text of a cell; text of a row that is a note, else NULL. */
const char *text_table_cell(const struct text_table *t, size_t row, size_t column);
const char *text_table_note_of(const struct text_table *t, size_t row);

/*
 * Appends the table: lines of at most `width` columns, after `indent` blanks, two blanks between
 * columns.
 */
void text_table_print(struct text_table *t, unsigned indent, unsigned width, bool color,
		      struct strbuf *out);

#endif
