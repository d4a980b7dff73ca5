#include "read/read_sql.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/vec.h"
#include "read/read_table.h"

enum result_type { RESULT_INTEGER, RESULT_REAL, RESULT_TEXT };

/* A value of a row: texts are parts of the column's bytes. */
struct result_column {
	char *name;
	enum result_type type;
	VEC(int64_t) numbers; /* the bits of a double, once the type is REAL */
	VEC(int64_t) ends; /* of texts; one more than rows */
	struct strbuf bytes;
	VEC(uint8_t) valid; /* a bit per row */
	size_t rows, missing;
};

struct result {
	struct result_column *columns;
	size_t count, rows;
};

static void release_result(struct result *r)
{
	for (size_t i = 0; r->columns && i < r->count; i++) {
		free(r->columns[i].name);
		vec_release(&r->columns[i].numbers);
		vec_release(&r->columns[i].ends);
		strbuf_release(&r->columns[i].bytes);
		vec_release(&r->columns[i].valid);
	}
	free(r->columns);
}

/* ---- reading ---- */

static bool is_valid(const struct result_column *c, size_t row)
{
	return c->valid.data[row / 8] >> row % 8 & 1;
}

static int64_t bits_of(double real)
{
	int64_t bits;

	memcpy(&bits, &real, sizeof(bits));
	return bits;
}

static double real_of(int64_t bits)
{
	double real;

	memcpy(&real, &bits, sizeof(real));
	return real;
}

static void add_number_text(struct result_column *c, enum result_type type, int64_t bits)
{
	struct json j = JSON_INIT(&c->bytes);

	if (type == RESULT_REAL)
		json_double(&j, real_of(bits));
	else
		strbuf_addf(&c->bytes, "%lld", (long long)bits);
}

/* Turns the numbers so far into texts. */
static int make_texts(struct result_column *c)
{
	int rc = vec_push(&c->ends, 0);

	for (size_t i = 0; i < c->rows && rc == 0; i++) {
		if (is_valid(c, i))
			add_number_text(c, c->type, c->numbers.data[i]);
		rc = vec_push(&c->ends, (int64_t)c->bytes.length);
	}
	c->type = RESULT_TEXT;
	return c->bytes.failed ? -ENOMEM : rc;
}

/* Makes the column one that can have a value of a type. */
static int widen(struct result_column *c, enum sql_value_type type)
{
	if (c->type == RESULT_TEXT || type == SQL_MISSING || type == SQL_INTEGER)
		return 0;
	if (type == SQL_TEXT)
		return make_texts(c);
	for (size_t i = 0; i < c->rows && c->type == RESULT_INTEGER; i++)
		c->numbers.data[i] = bits_of((double)c->numbers.data[i]);
	c->type = RESULT_REAL;
	return 0;
}

static void add_text(struct result_column *c, const struct sql_value *v)
{
	if (v->type == SQL_TEXT)
		strbuf_add_utf8(&c->bytes, v->text, v->length);
	else if (v->type == SQL_REAL)
		add_number_text(c, RESULT_REAL, bits_of(v->real));
	else if (v->type == SQL_INTEGER)
		add_number_text(c, RESULT_INTEGER, v->integer);
}

static int add_value(struct result_column *c, const struct sql_value *v)
{
	int rc = widen(c, v->type);

	if (rc == 0 && c->rows % 8 == 0)
		rc = vec_push(&c->valid, 0);
	if (rc < 0)
		return rc;
	c->missing += v->type == SQL_MISSING;
	if (v->type != SQL_MISSING)
		c->valid.data[c->rows / 8] |= (uint8_t)(1u << c->rows % 8);
	c->rows++;
	if (c->type == RESULT_TEXT) {
		add_text(c, v);
		return c->bytes.failed ? -ENOMEM : vec_push(&c->ends, (int64_t)c->bytes.length);
	}
	if (c->type == RESULT_INTEGER)
		return vec_push(&c->numbers, v->integer);
	return vec_push(&c->numbers, bits_of(v->type == SQL_REAL ? v->real : (double)v->integer));
}

/* At most `memory_bytes` of values; 0: no limit. */
static int read_rows(struct result *r, struct sql *sql, struct sql_statement *s,
		     uint64_t memory_bytes, struct error *e)
{
	uint64_t bytes = 0;
	int rc = 1;

	r->count = sql_column_count(s);
	r->columns = calloc(r->count + 1, sizeof(*r->columns));
	for (size_t i = 0; r->columns && i < r->count && rc > 0; i++) {
		r->columns[i].name = strdup(sql_column_name(s, i));
		rc = r->columns[i].name ? 1 : -ENOMEM;
	}
	if (!r->columns || rc < 0)
		return error_set(e, -ENOMEM, "out of memory");
	while ((rc = sql_next(s, e)) > 0) {
		for (size_t i = 0; i < r->count && rc >= 0; i++) {
			struct sql_value v = sql_value(s, i);

			rc = add_value(&r->columns[i], &v);
			bytes += sizeof(int64_t) + v.length;
		}
		if (memory_bytes && bytes > memory_bytes)
			return sql_memory_error(sql, e);
		if (rc < 0)
			return error_set(e, -ENOMEM, "out of memory");
		r->rows++;
	}
	return rc;
}

/* ---- Arrow ---- */

static int add_child(struct ArrowSchema *s, const char *format, const char *name)
{
	struct ArrowSchema *child = calloc(1, sizeof(*child));

	if (!child)
		return -ENOMEM;
	*child = (struct ArrowSchema){ .format = format,
				       .name = strdup(name),
				       .flags = ARROW_FLAG_NULLABLE,
				       .release = arrow_schema_release };
	s->children[s->n_children++] = child;
	return child->name ? 0 : -ENOMEM;
}

static int make_schema(const struct result *r, struct ArrowSchema *out)
{
	static const char *const formats[] = {
		[RESULT_INTEGER] = "l", [RESULT_REAL] = "g", [RESULT_TEXT] = "U"
	};
	int rc = 0;

	*out = (struct ArrowSchema){ .format = "+s",
				     .children = calloc(r->count + 1, sizeof(*out->children)),
				     .release = arrow_schema_release };
	for (size_t i = 0; out->children && i < r->count && rc == 0; i++)
		rc = add_child(out, formats[r->columns[i].type], r->columns[i].name);
	if (out->children && rc == 0)
		return 0;
	arrow_schema_release(out);
	return -ENOMEM;
}

/* The private data of each array is a list of what it owns. */
static void array_release(struct ArrowArray *a)
{
	for (int64_t i = 0; i < a->n_children; i++) {
		if (a->children[i]->release)
			a->children[i]->release(a->children[i]);
		free(a->children[i]);
	}
	for (int64_t i = 0; i < a->n_buffers; i++)
		free((void *)a->buffers[i]);
	free(a->children);
	free(a->buffers);
	a->release = NULL;
}

/* Moves the column's memory into an array. */
static int make_column(struct result_column *c, struct ArrowArray *out)
{
	bool text = c->type == RESULT_TEXT;

	*out = (struct ArrowArray){ .length = (int64_t)c->rows,
				    .null_count = (int64_t)c->missing,
				    .buffers = calloc(3, sizeof(*out->buffers)),
				    .release = array_release };
	if (!out->buffers)
		return -ENOMEM;
	out->n_buffers = text ? 3 : 2;
	out->buffers[0] = c->valid.data;
	out->buffers[1] = text ? c->ends.data : c->numbers.data;
	out->buffers[2] = text ? c->bytes.data : NULL;
	c->valid.data = NULL;
	if (text) {
		c->ends.data = NULL;
		c->bytes.data = NULL;
	} else {
		c->numbers.data = NULL;
	}
	return 0;
}

static int make_array(struct result *r, struct ArrowArray *out)
{
	int rc = 0;

	*out = (struct ArrowArray){ .length = (int64_t)r->rows,
				    .n_buffers = 1,
				    .buffers = calloc(1, sizeof(*out->buffers)),
				    .children = calloc(r->count + 1, sizeof(*out->children)),
				    .release = array_release };
	if (!out->buffers || !out->children)
		rc = -ENOMEM;
	for (size_t i = 0; i < r->count && rc == 0; i++) {
		out->children[i] = calloc(1, sizeof(**out->children));
		rc = out->children[i] ? make_column(&r->columns[i], out->children[i]) : -ENOMEM;
		out->n_children += out->children[i] != NULL;
	}
	if (rc < 0)
		array_release(out);
	return rc;
}

int read_sql(struct sql *sql, const char *text, const struct pitot_read_limits *limits,
	     struct ArrowSchema *schema, struct ArrowArray *array, struct error *e)
{
	struct result result = { 0 };
	struct sql_statement *statement = NULL, *second = NULL;
	int rc, more;

	sql_set_limits(sql, limits->timeout_ns, limits->memory_bytes);
	rc = sql_prepare(sql, text, &statement, &text, e);
	if (rc == 0)
		rc = error_set(e, E_USAGE, "there is no statement");
	more = rc > 0 ? sql_prepare(sql, text, &second, &text, e) : 0;
	sql_finalize(second);
	if (more)
		rc = more < 0 ? more : error_set(e, E_USAGE, "there is more than one statement");
	if (rc > 0 && array) {
		rc = read_rows(&result, sql, statement, limits->memory_bytes, e);
		if (rc >= 0 && make_schema(&result, schema) < 0)
			rc = error_set(e, -ENOMEM, "out of memory");
		if (rc >= 0 && make_array(&result, array) < 0) {
			schema->release(schema);
			rc = error_set(e, -ENOMEM, "out of memory");
		}
		release_result(&result);
	}
	sql_finalize(statement);
	return rc < 0 ? rc : 0;
}
