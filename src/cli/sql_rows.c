#include "cli/sql_rows.h"

#include <errno.h>
#include <string.h>

#include "base/json.h"
#include "export/tables/flat_given.h"
#include "report/text_table.h"

#define CELL_MAX 160 /* columns of a cell; --json and --csv have the whole text */
#define PAGE 2000 /* rows aligned together, or written at once */

static int put(const struct sql_rows *r, struct strbuf *out)
{
	int status = EXIT_DONE;

	if (r->file) {
		if (out->failed)
			return cli_failf(r->context, "out of memory");
		output_write(r->file, strbuf_text(out), out->length);
	} else {
		status = cli_print(r->context, out);
	}
	strbuf_clear(out);
	return status;
}

/* ---- CSV: RFC 4180; a missing value is empty, an empty text is quoted ---- */

static void add_quoted(struct strbuf *out, const char *text, size_t length)
{
	if (length && !memchr(text, ',', length) && !memchr(text, '"', length) &&
	    !memchr(text, '\n', length) && !memchr(text, '\r', length)) {
		strbuf_add(out, text, length);
		return;
	}
	strbuf_addc(out, '"');
	for (size_t i = 0; i < length; i++) {
		if (text[i] == '"')
			strbuf_addc(out, '"');
		strbuf_addc(out, text[i]);
	}
	strbuf_addc(out, '"');
}

static void add_real(struct strbuf *out, double value)
{
	struct json j = JSON_INIT(out);

	json_double(&j, value);
}

static void add_text(const struct sql_rows *r, struct strbuf *out, const char *text, size_t length)
{
	_cleanup_strbuf_ struct strbuf safe = STRBUF_INIT;

	if (r->is_terminal && text)
		text_safe(&safe, text, length);
	if (safe.length)
		add_quoted(out, strbuf_text(&safe), safe.length);
	else
		add_quoted(out, text, length);
}

static void csv_heads(const struct sql_rows *r, const struct sql_statement *s, struct strbuf *out)
{
	for (size_t i = 0; i < sql_column_count(s); i++) {
		const char *name = sql_column_name(s, i);

		if (i)
			strbuf_addc(out, ',');
		add_text(r, out, name, strlen(name));
	}
	strbuf_adds(out, "\r\n");
}

static void csv_row(const struct sql_rows *r, struct sql_statement *s, struct strbuf *out)
{
	for (size_t i = 0; i < sql_column_count(s); i++) {
		struct sql_value v = sql_value(s, i);

		if (i)
			strbuf_addc(out, ',');
		if (v.type == SQL_REAL)
			add_real(out, v.real);
		else if (v.type == SQL_INTEGER)
			strbuf_addf(out, "%lld", (long long)v.integer);
		else if (v.type == SQL_TEXT)
			add_text(r, out, v.text, v.length);
	}
	strbuf_adds(out, "\r\n");
}

/* ---- JSON: an object on a line for each row ---- */

static void json_row(struct sql_statement *s, struct strbuf *out)
{
	struct json j = JSON_INIT(out);

	json_object(&j);
	for (size_t i = 0; i < sql_column_count(s); i++) {
		struct sql_value v = sql_value(s, i);

		json_key(&j, sql_column_name(s, i));
		switch (v.type) {
		case SQL_MISSING:
			json_null(&j);
			break;
		case SQL_INTEGER:
			json_i64(&j, v.integer);
			break;
		case SQL_REAL:
			json_double(&j, v.real);
			break;
		case SQL_TEXT:
			json_bytes(&j, v.text, v.length);
			break;
		}
	}
	json_finish(&j);
}

/* ---- tables ---- */

struct page {
	struct text_table table;
	struct text_column *heads;
};

/* Columns of texts are aligned left. */
static bool make_page(struct page *p, struct sql_statement *s, bool has_row)
{
	size_t count = sql_column_count(s);

	p->heads = calloc(count, sizeof(*p->heads));
	if (!p->heads)
		return false;
	for (size_t i = 0; i < count; i++)
		p->heads[i] = (struct text_column){ .head = sql_column_name(s, i),
						    .left = sql_column_is_text(s, i) || !has_row ||
							    sql_value(s, i).type == SQL_TEXT };
	p->table = (struct text_table){ .columns = p->heads, .column_count = count };
	return true;
}

static void add_row(struct page *p, struct sql_statement *s)
{
	_cleanup_strbuf_ struct strbuf cell = STRBUF_INIT;

	for (size_t i = 0; i < sql_column_count(s); i++) {
		struct sql_value v = sql_value(s, i);

		strbuf_clear(&cell);
		if (v.type == SQL_REAL)
			add_real(&cell, v.real);
		else if (v.type == SQL_INTEGER)
			strbuf_addf(&cell, "%lld", (long long)v.integer);
		else if (v.type == SQL_TEXT)
			text_safe(&cell, v.text, v.length);
		else
			strbuf_addc(&cell, '-');
		text_shorten(&cell, CELL_MAX);
		text_table_add(&p->table, strbuf_text(&cell));
	}
}

static void print_page(const struct sql_rows *r, struct page *p, struct strbuf *out)
{
	text_table_print(&p->table, 0, UINT32_MAX, r->context->color && !r->file, out);
	text_table_clear(&p->table);
}

/* ---- Parquet and Arrow: the rows are in memory, because a column has one type ---- */

static int add_given(struct flat_given *g, struct sql_statement *s)
{
	int rc = 0;

	for (size_t i = 0; i < sql_column_count(s) && rc == 0; i++) {
		struct sql_value v = sql_value(s, i);
		uint64_t bits;

		switch (v.type) {
		case SQL_MISSING:
			rc = flat_given_number(g, i, GIVEN_NONE, 0);
			break;
		case SQL_INTEGER:
			rc = flat_given_number(g, i, GIVEN_INTEGER, (uint64_t)v.integer);
			break;
		case SQL_REAL:
			memcpy(&bits, &v.real, sizeof(bits));
			rc = flat_given_number(g, i, GIVEN_REAL, bits);
			break;
		case SQL_TEXT:
			rc = flat_given_text(g, i, v.text, v.length);
			break;
		}
	}
	return rc;
}

static int collect(const struct sql_rows *r, struct sql_statement *s, struct flat_given *g,
		   bool *left_out, struct error *e)
{
	size_t columns = sql_column_count(s);
	int rc = flat_given_init(g, "query", columns);
	uint64_t rows = 0;

	for (size_t i = 0; i < columns && rc == 0; i++)
		rc = flat_given_name(g, i, sql_column_name(s, i));
	while (rc == 0 && (rc = sql_next(s, e)) > 0) {
		*left_out = rows++ == r->limit;
		if (*left_out)
			break;
		rc = add_given(g, s);
	}
	rc = rc < 0 ? rc : flat_given_finish(g);
	if (rc == E_LIMIT && !*e->text)
		return error_set(
			e, rc,
			"the rows need more than %zu MiB of memory: select fewer, or write "
			"x.csv, which needs none",
			FLAT_GIVEN_BYTES_MAX >> 20);
	return rc < 0 && !*e->text ? error_set(e, rc, "out of memory") : rc;
}

static int write_given(const struct sql_rows *r, struct sql_statement *s, bool *left_out)
{
	struct flat_given g;
	struct error e = { 0 };
	int rc;

	*left_out = false;
	rc = collect(r, s, &g, left_out, &e);
	if (rc >= 0)
		rc = (r->format == SQL_PARQUET ? parquet_write_table
					       : arrow_write_table)(&g.table, r->file, &e);
	flat_given_release(&g);
	if (rc < 0)
		return rc == -ECANCELED && terminal_stop_signal ? 128 + terminal_stop_signal
								: cli_fail(r->context, &e);
	return EXIT_DONE;
}

/* ---- all ---- */

static void add(const struct sql_rows *r, struct sql_statement *s, struct page *p,
		struct strbuf *out)
{
	switch (r->format) {
	case SQL_TABLE:
		add_row(p, s);
		break;
	case SQL_CSV:
		csv_row(r, s, out);
		break;
	case SQL_JSON:
		json_row(s, out);
		break;
	case SQL_PARQUET:
	case SQL_ARROW:
		break; /* written as a whole */
	}
}

int sql_rows_write(const struct sql_rows *r, struct sql_statement *s, bool *left_out)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct page page = { 0 };
	struct error e = { 0 };
	uint64_t rows = 0;
	int status = EXIT_DONE, rc;

	if (r->format == SQL_PARQUET || r->format == SQL_ARROW)
		return write_given(r, s, left_out);
	rc = sql_next(s, &e);
	*left_out = false;
	if (r->format == SQL_TABLE && rc >= 0 && !make_page(&page, s, rc > 0))
		return cli_failf(r->context, "out of memory");
	if (r->format == SQL_CSV && rc >= 0)
		csv_heads(r, s, &out);
	for (; rc > 0 && status == EXIT_DONE && !*left_out; rc = sql_next(s, &e)) {
		if (rows == r->limit) {
			*left_out = true;
			break;
		}
		add(r, s, &page, &out);
		if (++rows % PAGE == 0) {
			if (r->format == SQL_TABLE)
				print_page(r, &page, &out);
			status = put(r, &out);
		}
	}
	if (r->format == SQL_TABLE && rc >= 0 && (text_table_rows(&page.table) || !rows))
		print_page(r, &page, &out);
	if (status == EXIT_DONE)
		status = put(r, &out);
	text_table_release(&page.table);
	free(page.heads);
	if (rc < 0)
		return rc == -ECANCELED && terminal_stop_signal ? 128 + terminal_stop_signal
								: cli_fail(r->context, &e);
	return status;
}
