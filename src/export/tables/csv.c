/*
 * csv.c: a folder with a CSV file for each table that has rows (RFC 4180, lines end with LF). A
 * missing value is empty, an empty text is "". Times are integers: nanoseconds since the epoch.
 *
 * Names come from anywhere. A text that a spreadsheet would take for a formula, also behind blanks,
 * has an apostrophe before it, and control characters other than tab and line end are U+FFFD.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/starts_with.h"
#include "export/tables/flat_table.h"

#define FLUSH_BYTES ((size_t)1 << 20)

/* Some programs skip blanks, and the marks of wide characters are operators in East Asia. */
static bool is_formula(const char *text)
{
	static const char *const skipped[] = { " ", "\n", "\xc2\xa0", "\xe3\x80\x80",
					       "\xef\xbb\xbf" };
	static const char *const wide[] = { "\xef\xbc\x9d", "\xef\xbc\x8b", "\xef\xbc\x8d",
					    "\xef\xbc\xa0" };
	size_t i = 0;

	while (i < ARRAY_SIZE(skipped)) {
		bool is_skipped = starts_with(text, skipped[i]);

		text += is_skipped ? strlen(skipped[i]) : 0;
		i = is_skipped ? 0 : i + 1;
	}
	for (i = 0; i < ARRAY_SIZE(wide); i++)
		if (starts_with(text, wide[i]))
			return true;
	return *text && strchr("=+-@\t\r", *text);
}

static void add_text(struct strbuf *out, const char *text, size_t length)
{
	_cleanup_strbuf_ struct strbuf clean = STRBUF_INIT;

	strbuf_add_utf8(&clean, text, length);
	out->failed |= clean.failed;
	strbuf_addc(out, '"');
	if (is_formula(strbuf_text(&clean)))
		strbuf_addc(out, '\'');
	for (size_t i = 0; i < clean.length; i++) {
		unsigned char c = (unsigned char)clean.data[i];

		if ((c < ' ' && c != '\t' && c != '\n') || c == 0x7f)
			strbuf_adds(out, "\xef\xbf\xbd");
		else
			strbuf_add(out, "\"\"", c == '"' ? 2 : 0), strbuf_add(out, &c, c != '"');
	}
	strbuf_addc(out, '"');
}

static void add_value(struct strbuf *out, const struct flat_table *f, const struct flat_column *c,
		      uint64_t value, struct strbuf *room)
{
	const char *text;
	size_t length;
	double real;

	switch (c->type) {
	case FLAT_TEXT:
		text = flat_text(f, c, value, room, &length);
		add_text(out, text, length);
		break;
	case FLAT_F64:
		memcpy(&real, &value, sizeof(real));
		strbuf_addf(out, "%.17g", real);
		break;
	case FLAT_I32:
	case FLAT_I64:
		strbuf_addf(out, "%lld", (long long)value);
		break;
	default:
		strbuf_addu(out, value);
	}
}

static int write_rows(struct flat_table *f, struct flat_chunk *chunk, struct output *output,
		      struct error *e)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT, room = STRBUF_INIT;
	int rc;

	for (size_t i = 0; i < chunk->columns; i++)
		strbuf_addf(&out, "%s%s", i ? "," : "", f->columns.data[i].name);
	strbuf_addc(&out, '\n');
	while ((rc = flat_chunk_next(chunk, f)) > 0) {
		for (size_t row = 0; row < chunk->rows.count; row++) {
			for (size_t i = 0; i < chunk->columns; i++) {
				strbuf_add(&out, ",", i > 0);
				if (chunk->valid[i][row])
					add_value(&out, f, &f->columns.data[i],
						  chunk->values[i][row], &room);
			}
			strbuf_addc(&out, '\n');
			if (out.length >= FLUSH_BYTES && !out.failed) {
				output_write(output, out.data, out.length);
				strbuf_clear(&out);
			}
		}
	}
	if (out.failed || room.failed)
		return error_set(e, -ENOMEM, "out of memory");
	output_write(output, out.data, out.length);
	return rc;
}

static int write_table(struct flat_table *f, struct output *output, struct error *e)
{
	_cleanup_(flat_chunk_release) struct flat_chunk chunk = { 0 };
	int rc = flat_chunk_init(&chunk, f, e);

	if (rc >= 0)
		rc = write_rows(f, &chunk, output, e);
	return rc;
}

int csv_write(struct trace *t, const struct export_options *options, const char *path,
	      struct export_result *result, struct error *e)
{
	return flat_write_folder(t, options, path, ".csv", write_table, result, e);
}
