#include "report/text_table.h"

#include <string.h>

#include "base/human.h"

#define GAP 2 /* blanks between columns */
#define FLEXIBLE_MIN 12 /* minimum width of a cut cell */

/* A cell that starts with this byte is the note of a row; the next byte is its column. */
#define NOTE '\001'

void text_table_release(struct text_table *t)
{
	strbuf_release(&t->text);
	vec_release(&t->cells);
	free(t->widths);
	t->widths = NULL;
}

void text_table_clear(struct text_table *t)
{
	strbuf_clear(&t->text);
	t->cells.count = 0;
	t->headless = true;
}

struct strbuf *text_table_begin(struct text_table *t)
{
	if (t->cells.count)
		strbuf_add(&t->text, "", 1);
	if (vec_push(&t->cells, t->text.length) < 0)
		t->failed = true;
	return &t->text;
}

void text_table_add(struct text_table *t, const char *text)
{
	strbuf_adds(text_table_begin(t), text);
}

void text_table_safe(struct text_table *t, const char *text)
{
	text_safe(text_table_begin(t), text, strlen(text));
}

void text_table_addf(struct text_table *t, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	strbuf_vaddf(text_table_begin(t), format, args);
	va_end(args);
}

void text_table_duration(struct text_table *t, uint64_t ns)
{
	human_duration(text_table_begin(t), ns);
}

void text_table_count(struct text_table *t, uint64_t n)
{
	human_count(text_table_begin(t), n);
}

void text_table_bytes(struct text_table *t, uint64_t bytes)
{
	human_bytes(text_table_begin(t), bytes);
}

void text_table_percent(struct text_table *t, uint64_t part, uint64_t whole)
{
	human_percent(text_table_begin(t), part, whole);
}

void text_table_end_row(struct text_table *t)
{
	while (t->cells.count % t->column_count && !t->failed)
		text_table_add(t, "");
}

/* A note is a row whose first cell contains it. */
void text_table_note(struct text_table *t, size_t column, const char *text)
{
	text_table_addf(t, "%c%c%s", NOTE, (char)column, text);
	text_table_end_row(t);
}

size_t text_table_rows(const struct text_table *t)
{
	return t->column_count ? t->cells.count / t->column_count : 0;
}

const char *text_table_cell(const struct text_table *t, size_t row, size_t column)
{
	return strbuf_text(&t->text) + t->cells.data[row * t->column_count + column];
}

const char *text_table_note_of(const struct text_table *t, size_t row)
{
	const char *text = text_table_cell(t, row, 0);

	return *text == NOTE ? text + 2 : NULL;
}

static void measure(const struct text_table *t, size_t *widths)
{
	for (size_t c = 0; c < t->column_count && !t->headless; c++)
		widths[c] = MAX(widths[c],
				text_columns(t->columns[c].head, strlen(t->columns[c].head)));
	for (size_t row = 0; row < text_table_rows(t); row++) {
		if (text_table_note_of(t, row))
			continue;
		for (size_t c = 0; c < t->column_count; c++) {
			const char *text = text_table_cell(t, row, c);

			widths[c] = MAX(widths[c], text_columns(text, strlen(text)));
		}
	}
}

static size_t line_columns(const struct text_table *t, unsigned indent, const size_t *widths)
{
	size_t total = indent;

	for (size_t c = 0; c < t->column_count; c++)
		total += widths[c] ? widths[c] + GAP : 0;
	return total - MIN(total, (size_t)GAP);
}

/* Narrows a column by `over`, or to what is readable. Returns by how much. */
static size_t narrow(size_t *columns, size_t over)
{
	size_t cut = MIN(over, *columns - MIN(*columns, (size_t)FLEXIBLE_MIN));

	*columns -= cut;
	return cut;
}

/*
 * Makes a line fit: drops optional columns, then narrows the flexible column. Where that is not
 * enough, columns from the last one on are dropped and the first one is narrowed: a line that the
 * terminal breaks is no table.
 */
static void fit(const struct text_table *t, unsigned indent, unsigned width, size_t *widths)
{
	size_t total, over, spare = 0;

	for (size_t c = 0; c < t->column_count; c++) {
		if (t->columns[c].optional && line_columns(t, indent, widths) > width)
			widths[c] = 0;
		if (t->columns[c].flexible && widths[c] > FLEXIBLE_MIN)
			spare += widths[c] - FLEXIBLE_MIN;
	}
	for (size_t c = t->column_count; c-- > 1;)
		if (!t->columns[c].flexible && line_columns(t, indent, widths) > width + spare)
			widths[c] = 0;
	total = line_columns(t, indent, widths);
	if (total <= width)
		return;
	over = total - width;
	for (size_t c = 0; c < t->column_count; c++)
		if (t->columns[c].flexible)
			over -= narrow(&widths[c], over);
	narrow(&widths[0], over);
}

static void blanks(struct strbuf *out, size_t count)
{
	while (count--)
		strbuf_addc(out, ' ');
}

static void print_text(struct strbuf *out, const char *text, size_t width)
{
	size_t length = strlen(text);

	if (text_columns(text, length) <= width) {
		strbuf_add(out, text, length);
		return;
	}
	strbuf_add(out, text, text_prefix(text, width - MIN(width, strlen(TEXT_CUT))));
	strbuf_adds(out, TEXT_CUT);
}

static void print_cell(struct strbuf *out, const struct text_column *column, const char *text,
		       size_t width, bool last)
{
	size_t used = MIN(text_columns(text, strlen(text)), width);

	if (!width)
		return;
	if (!column->left)
		blanks(out, width - used);
	print_text(out, text, width);
	if (column->left && !last)
		blanks(out, width - used);
	if (!last)
		blanks(out, GAP);
}

static void print_note(const struct text_table *t, const char *note, const size_t *widths,
		       unsigned indent, unsigned width, bool color, struct strbuf *out)
{
	size_t column = MIN((size_t)(unsigned char)note[1], t->column_count - 1), start = indent;

	for (size_t c = 0; c < column; c++)
		start += widths[c] ? widths[c] + GAP : 0;
	blanks(out, start);
	strbuf_adds(out, style_begin(color, STYLE_DIM));
	print_text(out, note + 2, width > start + FLEXIBLE_MIN ? width - start : FLEXIBLE_MIN);
	strbuf_adds(out, style_begin(color, STYLE_NONE));
	strbuf_addc(out, '\n');
}

/* Removes trailing blanks. */
static void end_line(struct strbuf *out)
{
	while (out->length && out->data[out->length - 1] == ' ')
		out->data[--out->length] = '\0';
	strbuf_addc(out, '\n');
}

void text_table_print(struct text_table *t, unsigned indent, unsigned width, bool color,
		      struct strbuf *out)
{
	size_t *widths = t->widths ? t->widths : calloc(t->column_count, sizeof(*widths));

	t->widths = widths;
	if (t->failed || t->text.failed || !widths) {
		out->failed = true;
		return;
	}
	measure(t, widths);
	fit(t, indent, width, widths);
	if (!t->headless) {
		blanks(out, indent);
		strbuf_adds(out, style_begin(color, STYLE_DIM));
		for (size_t c = 0; c < t->column_count; c++)
			print_cell(out, &t->columns[c], t->columns[c].head, widths[c],
				   c == t->column_count - 1);
		strbuf_adds(out, style_begin(color, STYLE_NONE));
		end_line(out);
	}
	for (size_t row = 0; row < text_table_rows(t); row++) {
		if (text_table_note_of(t, row)) {
			print_note(t, text_table_cell(t, row, 0), widths, indent, width, color,
				   out);
			continue;
		}
		blanks(out, indent);
		for (size_t c = 0; c < t->column_count; c++)
			print_cell(out, &t->columns[c], text_table_cell(t, row, c), widths[c],
				   c == t->column_count - 1);
		end_line(out);
	}
}
