#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_read.h"
#include "sql/duckdb/duck_engine.h"
#include "sql/sql_error.h"

struct column {
	const char *name; /* memory of DuckDB */
	enum duck_type type, stored; /* stored: of a DECIMAL */
	double divisor; /* of a DECIMAL */
	const void *data; /* of the chunk */
	const uint64_t *validity; /* NULL: all are there */
	char text[48]; /* of a number beyond 64 bits */
};

struct duck_statement {
	struct duck *duck;
	char *text;
	void *prepared, *chunk;
	struct duck_result result;
	bool executed;
	uint64_t row, rows; /* of the chunk */
	size_t count;
	struct column *columns;
};

/* ---- errors ---- */

/* The offset of a character. */
static int64_t offset_of(const char *text, int64_t left)
{
	const char *at = text;

	if (left < 0)
		return -1;
	while (*at && (left > 0 || ((unsigned char)*at & 0xc0) == 0x80))
		left -= ((unsigned char)*at++ & 0xc0) != 0x80;
	return at - text;
}

/* A member of DuckDB's error, which is JSON; "" without it. */
static struct json_found member(const char *json, const char *name)
{
	struct json_found found = { .text = "" };

	if (json_find(json, strlen(json), name, &found, NULL) < 0)
		*found.text = '\0';
	return found;
}

static int64_t position_of(const char *json)
{
	struct json_found position = member(json, "position");

	return *position.text ? strtoll(position.text, NULL, 10) : -1;
}

static void describe(struct duck *d, const char *text, const char *message, const char *column,
		     int64_t offset, bool is_table, struct error *e)
{
	struct sql_problem p = { .offset = offset };
	char line[512];

	if (is_table)
		snprintf(line, sizeof(line), "no such table: %s", column);
	else if (column)
		snprintf(line, sizeof(line), "no such column: %s", column);
	else
		snprintf(line, sizeof(line), "%.*s", (int)strcspn(message, "\n"), message);
	if (!column && *line >= 'A' && *line <= 'Z' && line[1] >= 'a' && line[1] <= 'z')
		*line += 'a' - 'A';
	p.message = line;
	p.table = is_table ? column : NULL;
	p.column = is_table ? NULL : column;
	sql_describe(d->sql, text, &p, e);
}

/* The column that a table has not, which is only in the text of the message. */
static char *missing_column(const char *message)
{
	static const char before[] = "does not have a column named \"";
	const char *at = strstr(message, before);

	at = at ? at + strlen(before) : NULL;
	return at ? strndup(at, strcspn(at, "\"")) : NULL;
}

/* Describes what DuckDB says of a statement. Returns E_USAGE. */
static int statement_error(struct duck *d, const char *text, const char *said, struct error *e)
{
	const char *json = said ? strchr(said, '{') : NULL;
	struct json_found message, name, type, subtype;
	_cleanup_free_ char *column = NULL;
	bool is_table;

	if (!json)
		return error_set(e, E_USAGE, "%s", said ?: "DuckDB fails without a reason");
	message = member(json, "exception_message");
	name = member(json, "name");
	type = member(json, "type");
	subtype = member(json, "error_subtype");
	is_table = *name.text && !strcmp(type.text, "Table");
	if (is_table || !strcmp(subtype.text, "COLUMN_NOT_FOUND"))
		column = *name.text ? strdup(name.text) : NULL;
	else
		column = missing_column(message.text);
	describe(d, text, message.text, column, position_of(json), is_table && column, e);
	return E_USAGE;
}

/* Whether the watcher has interrupted a statement. */
static bool is_stopped(const struct sql *sql)
{
	return sql->late || sql->large || (sql->options.cancel && *sql->options.cancel);
}

/* Why a statement ended that was running. */
static int run_error(struct duck_statement *t, struct error *e)
{
	struct sql *sql = t->duck->sql;
	struct duck_result *r = &t->result;

	if (is_stopped(sql))
		return sql_stop_error(sql, e);
	if (sql->error.code) {
		if (e)
			*e = sql->error;
		return sql->error.code;
	}
	if (duck_api.result_error_type(r) == DUCK_OUT_OF_MEMORY)
		return sql_memory_error(sql, e);
	return statement_error(t->duck, t->text, duck_api.result_error(r), e);
}

/* ---- what a statement consists of ---- */

/* The end of a quoted text that begins at `at`. */
static const char *skip_quoted(const char *at, bool backslashes)
{
	char quote = *at++;

	while (*at && *at != quote)
		at += backslashes && *at == '\\' && at[1] ? 2 : 1;
	return *at ? at + 1 : at;
}

static const char *skip_comment(const char *at)
{
	unsigned depth = 0;

	if (*at == '-')
		return at + strcspn(at, "\n");
	do {
		bool opens = at[0] == '/' && at[1] == '*', closes = at[0] == '*' && at[1] == '/';

		depth += opens;
		depth -= closes;
		at += opens || closes ? 2 : 1;
	} while (*at && depth);
	return at;
}

/* $tag$ … $tag$; a dollar that begins none is skipped. */
static const char *skip_dollars(const char *at)
{
	size_t length = 1;
	_cleanup_free_ char *tag = NULL;
	const char *end;

	while (at[length] == '_' || (at[length] >= 'A' && at[length] <= 'Z') ||
	       (at[length] >= 'a' && at[length] <= 'z'))
		length++;
	if (at[length] != '$')
		return at + 1;
	tag = strndup(at, length + 1);
	end = tag ? strstr(at + length + 1, tag) : NULL;
	return end ? end + length + 1 : at + strlen(at);
}

/* The semicolon that ends a statement, or the end of the text. */
static const char *statement_end(const char *text)
{
	const char *at = text;

	while (*at && *at != ';')
		if (*at == '\'' || *at == '"')
			at = skip_quoted(at, at > text && (at[-1] | 0x20) == 'e' && *at == '\'');
		else if ((at[0] == '-' && at[1] == '-') || (at[0] == '/' && at[1] == '*'))
			at = skip_comment(at);
		else if (*at == '$')
			at = skip_dollars(at);
		else
			at++;
	return at;
}

/* The statement as JSON, as DuckDB's parser understands it; to be freed. NULL: out of memory. */
static char *parse(struct duck *d, const char *text, struct error *e)
{
	struct duck_result r = { 0 };
	void *prepared = NULL, *chunk = NULL;
	char *json = NULL;
	int rc = duck_api.prepare(d->connection, "SELECT json_serialize_sql(CAST($1 AS VARCHAR))",
				  &prepared);

	if (rc == 0)
		rc = duck_api.bind_varchar_length(prepared, 1, text, strlen(text));
	if (rc == 0) {
		rc = duck_api.execute_prepared_streaming(prepared, &r);
		chunk = rc == 0 ? duck_api.fetch_chunk(r) : NULL;
		if (chunk && duck_api.data_chunk_get_size(chunk) == 1) {
			const struct duck_text *t =
				duck_api.vector_get_data(duck_api.data_chunk_get_vector(chunk, 0));

			json = strndup(t->length > sizeof(t->bytes) ? t->text : t->bytes,
				       t->length);
		}
		if (chunk)
			duck_api.destroy_data_chunk(&chunk);
		duck_api.destroy_result(&r);
	}
	duck_api.destroy_prepare(&prepared);
	if (!json)
		error_set(e, E_UNSUPPORTED, "DuckDB %s cannot parse the statement",
			  duck_api.library_version());
	return json;
}

/* Finds a table function that is not one of those that only compute; NULL: there is none. */
static char *refused_function(const char *json)
{
	static const char function[] = "\"type\":\"TABLE_FUNCTION\"",
			  name[] = "\"function_name\":\"";
	static const char *const allowed[] = { "generate_series", "json_each", "json_tree",
					       "range",           "repeat",    "repeat_row",
					       "unnest" };

	/* Quotes in texts of the statement have backslashes. */
	for (const char *at = json; (at = strstr(at, function)); at++) {
		const char *start = strstr(at, name);
		bool is_allowed = false;
		size_t length;

		if (!start)
			return strdup("a function without a name");
		start += strlen(name);
		length = strcspn(start, "\"");
		for (size_t i = 0; i < ARRAY_SIZE(allowed); i++)
			is_allowed |=
				strlen(allowed[i]) == length && !memcmp(allowed[i], start, length);
		if (!is_allowed)
			return strndup(start, length);
	}
	return NULL;
}

/* Returns 1 if the statement may be prepared, 0 if it is empty, or a negative code. */
static int check(struct duck *d, const char *text, struct error *e)
{
	_cleanup_free_ char *json = parse(d, text, e), *function = NULL;
	struct json_found failed, type, message;

	if (!json)
		return E_UNSUPPORTED;
	failed = member(json, "error");
	if (failed.kind == JSON_TRUE) {
		type = member(json, "error_type");
		message = member(json, "error_message");
		if (strcmp(type.text, "parser") != 0)
			return error_set(e, E_USAGE, SQL_ONLY_SELECT);
		/* The parser counts characters, the binder bytes. */
		describe(d, text, message.text, NULL, offset_of(text, position_of(json)), false, e);
		return E_USAGE;
	}
	if (failed.kind != JSON_FALSE)
		return error_set(e, E_USAGE, SQL_ONLY_SELECT);
	if (strstr(json, "\"statements\":[]"))
		return 0;
	function = refused_function(json);
	if (function) {
		char line[256];
		const char *at = sql_find_word(text, function);
		struct sql_problem p = { .message = line, .offset = at ? at - text : -1 };

		snprintf(line, sizeof(line), "%s() is refused: a statement reads only recordings",
			 function);
		return sql_describe(d->sql, text, &p, e);
	}
	return 1;
}

bool duck_can_refuse(struct duck *d)
{
	return check(d, "SELECT 1", NULL) == 1 && check(d, "SET threads = 1", NULL) == E_USAGE &&
	       check(d, "SELECT (SELECT 1 FROM range(1), Arrow_Scan(1, 2, 3))", NULL) == E_USAGE;
}

/* ---- preparing ---- */

/* Types whose values are read; others become texts. */
static bool is_readable(enum duck_type type)
{
	switch (type) {
	case DUCK_BOOLEAN:
	case DUCK_TINYINT:
	case DUCK_SMALLINT:
	case DUCK_INTEGER:
	case DUCK_BIGINT:
	case DUCK_UTINYINT:
	case DUCK_USMALLINT:
	case DUCK_UINTEGER:
	case DUCK_UBIGINT:
	case DUCK_FLOAT:
	case DUCK_DOUBLE:
	case DUCK_HUGEINT:
	case DUCK_UHUGEINT:
	case DUCK_VARCHAR:
	case DUCK_BLOB:
	case DUCK_DECIMAL:
	case DUCK_SQLNULL:
		return true;
	}
	return false;
}

static void free_columns(struct duck_statement *t)
{
	for (size_t i = 0; t->columns && i < t->count; i++)
		duck_api.free((char *)t->columns[i].name);
	free(t->columns);
}

static int read_columns(struct duck_statement *t, bool *readable)
{
	free_columns(t);
	t->count = duck_api.prepared_statement_column_count(t->prepared);
	t->columns = calloc(t->count + 1, sizeof(*t->columns));
	*readable = true;
	for (size_t i = 0; t->columns && i < t->count; i++) {
		void *type = duck_api.prepared_statement_column_logical_type(t->prepared, i);
		struct column *c = &t->columns[i];

		c->name = duck_api.prepared_statement_column_name(t->prepared, i);
		c->type = (enum duck_type)duck_api.get_type_id(type);
		if (c->type == DUCK_DECIMAL) {
			c->stored = (enum duck_type)duck_api.decimal_internal_type(type);
			c->divisor = pow(10, duck_api.decimal_scale(type));
		}
		*readable &= is_readable(c->type);
		duck_api.destroy_logical_type(&type);
	}
	return t->columns ? 0 : -ENOMEM;
}

/* Dates, lists and others as DuckDB writes them: the statement in one that converts them. */
static char *convert(const struct duck_statement *t)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;

	for (size_t i = 0; i < t->count; i++) {
		bool readable = is_readable(t->columns[i].type);

		strbuf_addf(&out, "%s%s#%zu%s AS \"", i ? ", " : "SELECT ", readable ? "" : "CAST(",
			    i + 1, readable ? "" : " AS VARCHAR)");
		for (const char *c = t->columns[i].name; *c; c++) {
			if (*c == '"')
				strbuf_addc(&out, '"');
			strbuf_addc(&out, *c);
		}
		strbuf_addc(&out, '"');
	}
	strbuf_addf(&out, " FROM (%s\n)", t->text);
	return out.failed ? NULL : strdup(strbuf_text(&out));
}

static int prepare_text(struct duck_statement *t, const char *text, struct error *e)
{
	struct duck *d = t->duck;
	int rc;

	if (t->prepared)
		duck_api.destroy_prepare(&t->prepared);
	rc = duck_api.prepare(d->connection, text, &t->prepared);
	if (rc != 0 && d->sql->error.code) {
		if (e)
			*e = d->sql->error;
		return d->sql->error.code;
	}
	if (rc != 0)
		return statement_error(d, t->text, duck_api.prepare_error(t->prepared), e);
	if (duck_api.prepared_statement_type(t->prepared) != DUCK_SELECT)
		return error_set(e, E_USAGE, SQL_ONLY_SELECT);
	return 0;
}

static int prepare(struct duck_statement *t, struct error *e)
{
	_cleanup_free_ char *converting = NULL;
	bool readable;
	int rc = duck_tables_prepare(t->duck, t->text, e);

	if (rc >= 0)
		rc = prepare_text(t, t->text, e);
	if (rc < 0)
		return rc;
	if (read_columns(t, &readable) < 0)
		return error_set(e, -ENOMEM, "out of memory");
	if (readable)
		return 0;
	converting = convert(t);
	if (!converting)
		return error_set(e, -ENOMEM, "out of memory");
	rc = prepare_text(t, converting, e);
	if (rc >= 0 && read_columns(t, &readable) < 0)
		rc = error_set(e, -ENOMEM, "out of memory");
	return rc;
}

int duck_prepare(struct duck *d, const char *text, struct duck_statement **out, const char **rest,
		 struct error *e)
{
	struct duck_statement *t = NULL;
	int rc = 0;

	*out = NULL;
	*rest = text;
	while (rc == 0 && **rest) {
		const char *end = statement_end(text = *rest);

		duck_finalize(t);
		t = calloc(1, sizeof(*t));
		if (t)
			t->text = strndup(text, (size_t)(end - text));
		if (t && t->text) {
			t->duck = d;
			rc = check(d, t->text, e);
		} else {
			rc = error_set(e, -ENOMEM, "out of memory");
		}
		*rest = *end ? end + 1 : end;
	}
	if (rc > 0) {
		int failed = prepare(t, e);

		rc = failed < 0 ? failed : rc;
	}
	if (rc < 0 && is_stopped(d->sql))
		rc = sql_stop_error(d->sql, e);
	if (rc > 0)
		*out = t;
	else
		duck_finalize(t);
	return rc;
}

void duck_finalize(struct duck_statement *t)
{
	if (!t)
		return;
	if (t->chunk)
		duck_api.destroy_data_chunk(&t->chunk);
	if (t->executed)
		duck_api.destroy_result(&t->result);
	if (t->prepared)
		duck_api.destroy_prepare(&t->prepared);
	free_columns(t);
	free(t->text);
	free(t);
}

int duck_execute(struct duck *d, const char *text, struct error *e)
{
	struct duck_result r = { 0 };
	int rc = duck_api.query(d->connection, text, &r);

	if (rc != 0)
		rc = error_set(e, E_UNSUPPORTED, "DuckDB %s refuses '%.60s': %s",
			       duck_api.library_version(), text,
			       duck_api.result_error(&r) ?: "unknown error");
	duck_api.destroy_result(&r);
	return rc;
}

/* ---- rows ---- */

static void next_chunk(struct duck_statement *t)
{
	if (t->chunk)
		duck_api.destroy_data_chunk(&t->chunk);
	t->row = 0;
	t->chunk = duck_api.fetch_chunk(t->result);
	t->rows = t->chunk ? duck_api.data_chunk_get_size(t->chunk) : 0;
	for (size_t i = 0; i < t->count && t->rows; i++) {
		void *vector = duck_api.data_chunk_get_vector(t->chunk, i);

		t->columns[i].data = duck_api.vector_get_data(vector);
		t->columns[i].validity = duck_api.vector_get_validity(vector);
	}
}

int duck_next(struct duck_statement *t, struct error *e)
{
	int rc = 0;

	if (t->executed && ++t->row < t->rows)
		return 1;
	if (!t->executed)
		rc = duck_api.execute_prepared_streaming(t->prepared, &t->result);
	t->executed = true;
	/* Chunks may be empty; there is none after the last one, and after an error. */
	if (rc == 0) {
		do
			next_chunk(t);
		while (t->chunk && !t->rows);
	}
	if (rc != 0 || (!t->rows && duck_api.result_error(&t->result)))
		return run_error(t, e);
	return t->rows > 0;
}

size_t duck_column_count(const struct duck_statement *t)
{
	return t->count;
}

const char *duck_column_name(const struct duck_statement *t, size_t column)
{
	return t->columns[column].name ?: "";
}

bool duck_column_is_text(const struct duck_statement *t, size_t column)
{
	return t->columns[column].type == DUCK_VARCHAR;
}

/* A number of 128 bits: an integer if it is one of 64, else a text. */
static struct sql_value wide_value(struct column *c, unsigned __int128 bits, bool negative)
{
	char *at = c->text + sizeof(c->text) - 1;

	if (negative ? bits <= (unsigned __int128)1 << 63 : bits <= INT64_MAX)
		return (struct sql_value){ .type = SQL_INTEGER,
					   .integer = (int64_t)(negative ? -(uint64_t)bits
									 : (uint64_t)bits) };
	for (*at = '\0'; bits; bits /= 10)
		*--at = (char)('0' + (int)(bits % 10));
	if (negative)
		*--at = '-';
	return (struct sql_value){ .type = SQL_TEXT, .text = at, .length = strlen(at) };
}

static struct sql_value integer_value(struct column *c, enum duck_type type, uint64_t row)
{
	struct sql_value v = { .type = SQL_INTEGER };
	__int128 wide;

	switch (type) {
	case DUCK_BOOLEAN:
	case DUCK_UTINYINT:
		v.integer = ((const uint8_t *)c->data)[row];
		return v;
	case DUCK_TINYINT:
		v.integer = ((const int8_t *)c->data)[row];
		return v;
	case DUCK_SMALLINT:
		v.integer = ((const int16_t *)c->data)[row];
		return v;
	case DUCK_USMALLINT:
		v.integer = ((const uint16_t *)c->data)[row];
		return v;
	case DUCK_INTEGER:
		v.integer = ((const int32_t *)c->data)[row];
		return v;
	case DUCK_UINTEGER:
		v.integer = ((const uint32_t *)c->data)[row];
		return v;
	case DUCK_BIGINT:
		v.integer = ((const int64_t *)c->data)[row];
		return v;
	case DUCK_UBIGINT:
		return wide_value(c, ((const uint64_t *)c->data)[row], false);
	case DUCK_UHUGEINT:
		memcpy(&wide, (const char *)c->data + row * sizeof(wide), sizeof(wide));
		return wide_value(c, (unsigned __int128)wide, false);
	default: /* HUGEINT */
		memcpy(&wide, (const char *)c->data + row * sizeof(wide), sizeof(wide));
		return wide_value(c, wide < 0 ? -(unsigned __int128)wide : (unsigned __int128)wide,
				  wide < 0);
	}
}

/* Without digits after the point, or an approximation. */
static struct sql_value decimal_value(struct column *c, uint64_t row)
{
	struct sql_value v = { .type = SQL_REAL };
	__int128 wide;

	if (c->divisor <= 1)
		return integer_value(c, c->stored, row);
	if (c->stored == DUCK_HUGEINT) {
		memcpy(&wide, (const char *)c->data + row * sizeof(wide), sizeof(wide));
		v.real = (double)wide / c->divisor;
	} else {
		v.real = (double)integer_value(c, c->stored, row).integer / c->divisor;
	}
	return v;
}

struct sql_value duck_value(struct duck_statement *t, size_t column)
{
	struct column *c = &t->columns[column];
	struct sql_value v = { .type = SQL_MISSING };
	const struct duck_text *text;

	if (c->type == DUCK_SQLNULL ||
	    (c->validity && !(c->validity[t->row / 64] >> t->row % 64 & 1)))
		return v;
	switch (c->type) {
	case DUCK_VARCHAR:
	case DUCK_BLOB:
		text = (const struct duck_text *)c->data + t->row;
		v.type = SQL_TEXT;
		v.length = text->length;
		v.text = text->length > sizeof(text->bytes) ? text->text : text->bytes;
		return v;
	case DUCK_FLOAT:
		v.type = SQL_REAL;
		v.real = (double)((const float *)c->data)[t->row];
		return v;
	case DUCK_DOUBLE:
		v.type = SQL_REAL;
		v.real = ((const double *)c->data)[t->row];
		return v;
	case DUCK_DECIMAL:
		return decimal_value(c, t->row);
	default:
		return integer_value(c, c->type, t->row);
	}
}
