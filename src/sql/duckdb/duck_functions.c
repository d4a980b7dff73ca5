/* duck_functions.c: the functions of sql_functions.h, as functions and macros of DuckDB. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sql/duckdb/duck_engine.h"

/* Written so that they say what SQLite's do; stddev() is DuckDB's own. */
static const char *const macros[] = {
	"CREATE MACRO median(x) AS quantile_disc(x, 0.5)",
	"CREATE MACRO percentile(x, percent) AS quantile_disc(x, percent / 100)",
	"CREATE MACRO overlap(a, b, c, d) AS CASE WHEN a + b + c + d NOTNULL"
	" THEN greatest(0, least(b, d) - greatest(a, c)) END",
	"CREATE MACRO iif(a, b, c) AS CASE WHEN a THEN b ELSE c END",
};

struct input {
	const struct duck_text *texts;
	const uint64_t *validity; /* NULL: all are there */
	size_t count;
};

static struct input input_of(void *chunk)
{
	void *vector = duck_api.data_chunk_get_vector(chunk, 0);

	return (struct input){ duck_api.vector_get_data(vector),
			       duck_api.vector_get_validity(vector),
			       duck_api.data_chunk_get_size(chunk) };
}

static bool is_there(const struct input *in, size_t row)
{
	return !in->validity || in->validity[row / 64] >> row % 64 & 1;
}

static void set_missing(void *vector, size_t row)
{
	duck_api.vector_ensure_validity_writable(vector);
	duck_api.vector_get_validity(vector)[row / 64] &= ~(UINT64_C(1) << row % 64);
}

static const char *bytes_of(const struct duck_text *t)
{
	return t->length > sizeof(t->bytes) ? t->text : t->bytes;
}

/* As in SQLite, an empty name has none. */
static void kernel_name(void *info, void *chunk, void *out, bool full)
{
	_cleanup_strbuf_ struct strbuf room = STRBUF_INIT;
	struct duck *d = duck_api.scalar_function_get_extra_info(info);
	struct input in = input_of(chunk);
	const char *text = "";

	pthread_mutex_lock(&d->texts);
	for (size_t i = 0; i < in.count && text; i++) {
		const char *name = bytes_of(&in.texts[i]);

		if (!is_there(&in, i) || !in.texts[i].length || !*name) {
			set_missing(out, i);
			continue;
		}
		text = kernel_names_text(full ? d->full_names : d->short_names, name,
					 in.texts[i].length, &room);
		if (text)
			duck_api.vector_assign_string_element_len(out, i, text, strlen(text));
	}
	pthread_mutex_unlock(&d->texts);
	if (!text)
		duck_api.scalar_function_set_error(info, "out of memory");
}

static void kernel_short(void *info, void *chunk, void *out)
{
	kernel_name(info, chunk, out, false);
}

static void kernel_full(void *info, void *chunk, void *out)
{
	kernel_name(info, chunk, out, true);
}

static void text_id(void *info, void *chunk, void *out)
{
	struct duck *d = duck_api.scalar_function_get_extra_info(info);
	struct input in = input_of(chunk);
	int64_t *ids = duck_api.vector_get_data(out), item = 0;

	pthread_mutex_lock(&d->texts);
	for (size_t i = 0; i < in.count && item >= 0; i++) {
		if (is_there(&in, i)) {
			item = interner_add(&d->sql->texts, bytes_of(&in.texts[i]),
					    in.texts[i].length, NULL);
			ids[i] = item + 1;
		} else {
			set_missing(out, i);
		}
	}
	pthread_mutex_unlock(&d->texts);
	if (item < 0)
		duck_api.scalar_function_set_error(info, "out of memory");
}

static int add_function(struct duck *d, const char *name, duck_scalar *run, int result)
{
	void *function = duck_api.create_scalar_function();
	void *text = duck_api.create_logical_type(DUCK_VARCHAR);
	void *type = duck_api.create_logical_type(result);
	int rc;

	duck_api.scalar_function_set_name(function, name);
	duck_api.scalar_function_add_parameter(function, text);
	duck_api.scalar_function_set_return_type(function, type);
	duck_api.scalar_function_set_extra_info(function, d, NULL);
	duck_api.scalar_function_set_function(function, run);
	rc = duck_api.register_scalar_function(d->connection, function);
	duck_api.destroy_logical_type(&type);
	duck_api.destroy_logical_type(&text);
	duck_api.destroy_scalar_function(&function);
	return rc;
}

int duck_functions_add(struct duck *d, struct error *e)
{
	int rc = 0;

	d->short_names = kernel_names_new(false);
	d->full_names = kernel_names_new(true);
	if (!d->short_names || !d->full_names)
		return error_set(e, -ENOMEM, "out of memory");
	if (add_function(d, "kernel_short", kernel_short, DUCK_VARCHAR) != 0 ||
	    add_function(d, "kernel_full", kernel_full, DUCK_VARCHAR) != 0 ||
	    add_function(d, "text_id", text_id, DUCK_BIGINT) != 0)
		return error_set(e, E_UNSUPPORTED, "DuckDB refuses a function");
	for (size_t i = 0; i < ARRAY_SIZE(macros) && rc >= 0; i++)
		rc = duck_execute(d, macros[i], e);
	return rc;
}
