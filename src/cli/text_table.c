#include "cli/text_table.h"

#include <errno.h>
#include <string.h>

#include "base/human.h"
#include "cli/ui.h"

#define GAP 2 /* blanks between columns */
#define CUT ".." /* where a cell was cut */
#define FLEXIBLE_MIN 12 /* columns that a cut cell keeps at least */

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

/* Between these two the cell's text is appended to t->text. */
static void begin_cell(struct text_table *t)
{
	if (vec_push(&t->cells, t->text.length) < 0)
		t->failed = true;
}

static void end_cell(struct text_table *t)
{
	strbuf_add(&t->text, "", 1);
}

void text_table_add(struct text_table *t, const char *text)
{
	begin_cell(t);
	strbuf_adds(&t->text, text);
	end_cell(t);
}

void text_table_addf(struct text_table *t, const char *format, ...)
{
	va_list args;

	begin_cell(t);
	va_start(args, format);
	strbuf_vaddf(&t->text, format, args);
	va_end(args);
	end_cell(t);
}

void text_table_duration(struct text_table *t, uint64_t ns)
{
	begin_cell(t);
	human_duration(&t->text, ns);
	end_cell(t);
}

void text_table_count(struct text_table *t, uint64_t n)
{
	begin_cell(t);
	human_count(&t->text, n);
	end_cell(t);
}

void text_table_bytes(struct text_table *t, uint64_t bytes)
{
	begin_cell(t);
	human_bytes(&t->text, bytes);
	end_cell(t);
}

void text_table_percent(struct text_table *t, uint64_t part, uint64_t whole)
{
	begin_cell(t);
	human_percent(&t->text, part, whole);
	end_cell(t);
}

void text_table_end_row(struct text_table *t)
{
	while (t->cells.count % t->column_count && !t->failed)
		text_table_add(t, "");
}

/* A row whose first cell carries the note. */
void text_table_note(struct text_table *t, size_t column, const char *text)
{
	text_table_end_row(t);
	begin_cell(t);
	strbuf_addc(&t->text, NOTE);
	strbuf_addc(&t->text, (char)column);
	strbuf_adds(&t->text, text);
	end_cell(t);
	text_table_end_row(t);
}

size_t text_table_rows(const struct text_table *t)
{
	return t->column_count ? t->cells.count / t->column_count : 0;
}

/* Columns that UTF-8 text takes: its code points. */
static size_t text_columns(const char *text, size_t length)
{
	size_t columns = 0;

	for (size_t i = 0; i < length; i++)
		columns += ((unsigned char)text[i] & 0xc0) != 0x80;
	return columns;
}

static const char *cell(const struct text_table *t, size_t row, size_t column)
{
	return strbuf_text(&t->text) + t->cells.data[row * t->column_count + column];
}

static void measure(const struct text_table *t, size_t *widths)
{
	for (size_t c = 0; c < t->column_count && !t->headless; c++)
		widths[c] = MAX(widths[c],
				text_columns(t->columns[c].head, strlen(t->columns[c].head)));
	for (size_t row = 0; row < text_table_rows(t); row++) {
		if (cell(t, row, 0)[0] == NOTE)
			continue;
		for (size_t c = 0; c < t->column_count; c++) {
			const char *text = cell(t, row, c);

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

/* Leaves optional columns out, then makes the flexible column so narrow that a line fits. */
static void fit(const struct text_table *t, unsigned indent, unsigned width, size_t *widths)
{
	size_t total, over;

	for (size_t c = 0; c < t->column_count; c++)
		if (t->columns[c].optional && line_columns(t, indent, widths) > width)
			widths[c] = 0;
	total = line_columns(t, indent, widths);
	if (total <= width)
		return;
	over = total - width;
	for (size_t c = 0; c < t->column_count; c++)
		if (t->columns[c].flexible)
			widths[c] = widths[c] > over + FLEXIBLE_MIN
					    ? widths[c] - over
					    : MIN(widths[c], (size_t)FLEXIBLE_MIN);
}

static void blanks(struct strbuf *out, size_t count)
{
	while (count--)
		strbuf_addc(out, ' ');
}

/* The first `columns` code points of a text. */
static size_t prefix(const char *text, size_t columns)
{
	size_t i = 0;

	for (; text[i]; i++)
		if (((unsigned char)text[i] & 0xc0) != 0x80 && columns-- == 0)
			break;
	return i;
}

void text_shorten(struct strbuf *text, size_t columns)
{
	if (text_columns(strbuf_text(text), text->length) <= columns)
		return;
	text->length = prefix(text->data, columns - strlen(CUT));
	strbuf_adds(text, CUT);
}

static void print_text(struct strbuf *out, const char *text, size_t width)
{
	size_t length = strlen(text);

	if (text_columns(text, length) <= width) {
		strbuf_add(out, text, length);
		return;
	}
	strbuf_add(out, text, prefix(text, width - MIN(width, strlen(CUT))));
	strbuf_adds(out, CUT);
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

/* Blanks at the end of a line help nobody. */
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
		if (cell(t, row, 0)[0] == NOTE) {
			print_note(t, cell(t, row, 0), widths, indent, width, color, out);
			continue;
		}
		blanks(out, indent);
		for (size_t c = 0; c < t->column_count; c++)
			print_cell(out, &t->columns[c], cell(t, row, c), widths[c],
				   c == t->column_count - 1);
		end_line(out);
	}
}

/*
 * Length of the well-formed UTF-8 character at text and its code point; 0 if there is none (RFC
 * 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
 */
static size_t decode(const unsigned char *text, size_t length, uint32_t *code)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = text[0] < 0x80   ? 1
		   : text[0] < 0xc2 ? 0
		   : text[0] < 0xe0 ? 2
		   : text[0] < 0xf0 ? 3
		   : text[0] < 0xf5 ? 4
				    : 0;

	if (!n || n > length)
		return 0;
	*code = n == 1 ? text[0] : text[0] & (0xffu >> (n + 1));
	for (size_t i = 1; i < n; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (text[i] & 0x3f);
	}
	return *code < least[n] || (*code >= 0xd800 && *code < 0xe000) || *code > 0x10ffff ? 0 : n;
}

/*
 * Marks that reorder, hide or break text: bidirectional controls, zero-width characters,
 * separators, tags.
 */
static bool is_harmful(uint32_t code)
{
	return code == 0x61c || (code >= 0x200b && code <= 0x200f) ||
	       (code >= 0x2028 && code <= 0x202e) || (code >= 0x2060 && code <= 0x206f) ||
	       code == 0xfeff || (code >= 0xe0000 && code <= 0xe007f);
}

void text_safe(struct strbuf *out, const char *text, size_t length)
{
	const unsigned char *p = (const unsigned char *)text, *end = p + length;

	while (p < end) {
		uint32_t code = 0;
		size_t n = decode(p, (size_t)(end - p), &code);

		if (!n || code < 0x20 || (code >= 0x7f && code < 0xa0)) {
			strbuf_addf(out, "\\x%02x", *p);
			/*
			 * A C1 control is two bytes; the second one alone is no UTF-8, and escaped
			 * in its turn.
			 */
			p++;
			continue;
		}
		if (is_harmful(code))
			strbuf_addf(out, "\\u{%x}", code);
		else
			strbuf_add(out, p, n);
		p += n;
	}
}
