/* text_table.h: prints rows of text as aligned columns. */
#ifndef PITOT_REPORT_TEXT_TABLE_H
#define PITOT_REPORT_TEXT_TABLE_H

#include "base/vec.h"
#include "report/text.h"

struct text_column {
	const char *head; /* "": none; a column without head and text is not printed */
	bool left; /* align to the left, else to the right */
	bool flexible; /* cut if the line is too long; at most one column */
	bool optional; /* dropped if the line is too long, before anything is cut */
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

/* Cells are added row by row. An allocation failure is reported when the table is printed. */
struct text_table {
	const struct text_column *columns;
	size_t column_count;
	struct strbuf text; /* all cells, separated by NUL */
	VEC(size_t) cells; /* offsets in text */
	size_t *widths; /* of the columns printed so far; they only grow, or become 0 */
	bool headless; /* print no heads */
	bool fixed; /* the cells of a row do not belong together: it cannot be sorted */
	bool failed;
};

#define TEXT_TABLE_INIT(table_columns)                                                             \
	{                                                                                          \
		.columns = (table_columns), .column_count = ARRAY_SIZE(table_columns)              \
	}

void text_table_release(struct text_table *t);
#define _cleanup_table_ _cleanup_(text_table_release)
/* Begins a cell; append its text to the returned strbuf. */
struct strbuf *text_table_begin(struct text_table *t);
/* Add a cell. The text is copied. text_table_safe makes it safe for a terminal. */
void text_table_add(struct text_table *t, const char *text);
void text_table_safe(struct text_table *t, const char *text);
void text_table_addf(struct text_table *t, const char *format, ...) PRINTF_LIKE(2, 3);
/* Add a cell with a formatted number. */
void text_table_duration(struct text_table *t, uint64_t ns);
void text_table_count(struct text_table *t, uint64_t n);
void text_table_bytes(struct text_table *t, uint64_t bytes);
void text_table_percent(struct text_table *t, uint64_t part, uint64_t whole);
/* Fills the current row with empty cells. */
void text_table_end_row(struct text_table *t);
/* Adds a dim line below a complete row, starting at a column. */
void text_table_note(struct text_table *t, size_t column, const char *text);
/* Drops printed rows; the next rows are aligned with them and get no heads. */
void text_table_clear(struct text_table *t);
size_t text_table_rows(const struct text_table *t);
/* Text of a cell; text of a note, or NULL if the row is not a note. */
const char *text_table_cell(const struct text_table *t, size_t row, size_t column);
const char *text_table_note_of(const struct text_table *t, size_t row);

/* Appends the table in lines of at most `width` columns, indented, two blanks between columns. */
void text_table_print(struct text_table *t, unsigned indent, unsigned width, bool color,
		      struct strbuf *out);

#endif
