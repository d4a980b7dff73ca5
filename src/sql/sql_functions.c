#include "sql/sql_functions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/search.h"
#include "base/vec.h"
#include "names/demangle.h"

/* ---- quantiles ---- */

/* Values of a group, in SQLite's memory, so that its ceiling holds. */
struct values {
	union number {
		sqlite3_int64 integer;
		double real;
	} * data;
	sqlite3_uint64 count, capacity;
	double percent;
	int is_real;
};

ORDER(by_integer, union number, UP(integer))
ORDER(by_real, union number, UP(real))

static void make_real(struct values *v)
{
	for (sqlite3_uint64 i = 0; i < v->count && !v->is_real; i++)
		v->data[i].real = (double)v->data[i].integer;
	v->is_real = 1;
}

static int grow(struct values *v)
{
	sqlite3_uint64 capacity = v->capacity ? v->capacity * 2 : 64;
	void *data = sqlite3_realloc64(v->data, capacity * sizeof(*v->data));

	if (!data)
		return -1;
	v->data = data;
	v->capacity = capacity;
	return 0;
}

static void add_value(sqlite3_context *c, double percent, sqlite3_value *value)
{
	struct values *v = sqlite3_aggregate_context(c, sizeof(*v));
	int type = sqlite3_value_numeric_type(value);

	if (!v || (v->count == v->capacity && grow(v) < 0)) {
		sqlite3_result_error_nomem(c);
		return;
	}
	v->percent = percent;
	if (type == SQLITE_FLOAT)
		make_real(v);
	if (type == SQLITE_NULL)
		return;
	if (v->is_real)
		v->data[v->count++].real = sqlite3_value_double(value);
	else
		v->data[v->count++].integer = sqlite3_value_int64(value);
}

static void median_step(sqlite3_context *c, int count, sqlite3_value **values)
{
	(void)count;
	add_value(c, 50, values[0]);
}

static void percentile_step(sqlite3_context *c, int count, sqlite3_value **values)
{
	double percent = sqlite3_value_double(values[1]);

	(void)count;
	if (sqlite3_value_type(values[1]) == SQLITE_NULL || !(percent >= 0 && percent <= 100))
		sqlite3_result_error(c, "percentile(X, P) takes a P from 0 to 100", -1);
	else
		add_value(c, percent, values[0]);
}

/* The rank is rounded up, as in analysis/stats.h. */
static void quantile_final(sqlite3_context *c)
{
	struct values *v = sqlite3_aggregate_context(c, 0);
	sqlite3_uint64 rank;

	if (!v || !v->count)
		goto release;
	qsort(v->data, v->count, sizeof(*v->data), v->is_real ? by_real : by_integer);
	rank = (sqlite3_uint64)ceil(v->percent / 100 * (double)v->count);
	rank = MIN(MAX(rank, 1), v->count) - 1;
	if (v->is_real)
		sqlite3_result_double(c, v->data[rank].real);
	else
		sqlite3_result_int64(c, v->data[rank].integer);
release:
	if (v)
		sqlite3_free(v->data);
}

/* ---- deviation ---- */

struct deviation {
	double count, mean, squares; /* Welford's: no difference of large sums */
};

static void stddev_step(sqlite3_context *c, int count, sqlite3_value **values)
{
	struct deviation *d = sqlite3_aggregate_context(c, sizeof(*d));
	double value, difference;

	(void)count;
	if (!d || sqlite3_value_numeric_type(values[0]) == SQLITE_NULL)
		return;
	value = sqlite3_value_double(values[0]);
	difference = value - d->mean;
	d->count++;
	d->mean += difference / d->count;
	d->squares += difference * (value - d->mean);
}

static void stddev_final(sqlite3_context *c)
{
	const struct deviation *d = sqlite3_aggregate_context(c, 0);

	if (d && d->count > 1)
		sqlite3_result_double(c, sqrt(d->squares / (d->count - 1)));
}

/* ---- kernels, spans ---- */

/* Names beyond are made for each value. */
#define NAMES_MAX (1u << 16)
struct kernel_names {
	bool full;
	struct interner names;
	VEC(char *) texts; /* by name */
};

struct kernel_names *kernel_names_new(bool full)
{
	struct kernel_names *n = calloc(1, sizeof(*n));

	if (n) {
		n->full = full;
		interner_init(&n->names);
	}
	return n;
}

void kernel_names_free(struct kernel_names *n)
{
	if (!n)
		return;
	for (size_t i = 0; i < n->texts.count; i++)
		free(n->texts.data[i]);
	vec_release(&n->texts);
	interner_release(&n->names);
	free(n);
}

static void free_names(void *user)
{
	kernel_names_free(user);
}

static const char *add_name(struct kernel_names *n, const char *name, size_t length)
{
	int64_t item = interner_add(&n->names, name, length, NULL);
	struct strbuf text = STRBUF_INIT;

	if (item < 0)
		return NULL;
	if ((size_t)item < n->texts.count)
		return n->texts.data[item];
	kernel_name_text(n->names.items[item].text, n->full, &text);
	if (text.failed || vec_push(&n->texts, text.data) < 0) {
		strbuf_release(&text);
		return NULL;
	}
	return text.data;
}

const char *kernel_names_text(struct kernel_names *n, const char *name, size_t length,
			      struct strbuf *room)
{
	_cleanup_strbuf_ struct strbuf copy = STRBUF_INIT;

	/* A failed vec_push() leaves a name without a text; nothing is added after that. */
	if (n->texts.count < NAMES_MAX || interner_find(&n->names, name, length) >= 0)
		return n->names.count == n->texts.count ? add_name(n, name, length) : NULL;
	strbuf_add(&copy, name, length);
	strbuf_clear(room);
	if (!copy.failed)
		kernel_name_text(strbuf_text(&copy), n->full, room);
	return copy.failed || room->failed ? NULL : strbuf_text(room);
}

static void kernel_name(sqlite3_context *c, int count, sqlite3_value **values)
{
	_cleanup_strbuf_ struct strbuf room = STRBUF_INIT;
	const char *name = (const char *)sqlite3_value_text(values[0]), *text;
	size_t length = (size_t)sqlite3_value_bytes(values[0]);

	(void)count;
	if (!name || !*name)
		return;
	text = kernel_names_text(sqlite3_user_data(c), name, length, &room);
	if (text)
		sqlite3_result_text(c, text, -1, room.data ? SQLITE_TRANSIENT : SQLITE_STATIC);
	else
		sqlite3_result_error_nomem(c);
}

/* The number of a text: equal texts have equal numbers, as in databases of Nsight Systems. */
static void text_id(sqlite3_context *c, int count, sqlite3_value **values)
{
	struct interner *texts = sqlite3_user_data(c);
	const char *text = (const char *)sqlite3_value_text(values[0]);
	int64_t item;

	(void)count;
	if (!text)
		return;
	item = interner_add(texts, text, (size_t)sqlite3_value_bytes(values[0]), NULL);
	if (item < 0)
		sqlite3_result_error_nomem(c);
	else
		sqlite3_result_int64(c, item + 1);
}

static void overlap(sqlite3_context *c, int count, sqlite3_value **values)
{
	sqlite3_int64 v[4], from, to;

	for (int i = 0; i < count; i++) {
		if (sqlite3_value_numeric_type(values[i]) == SQLITE_NULL)
			return;
		v[i] = sqlite3_value_int64(values[i]);
	}
	from = MAX(v[0], v[2]);
	to = MIN(v[1], v[3]);
	sqlite3_result_int64(
		c, from < to ? (sqlite3_int64)((sqlite3_uint64)to - (sqlite3_uint64)from) : 0);
}

#define FLAGS (SQLITE_UTF8 | SQLITE_DETERMINISTIC | SQLITE_INNOCUOUS)

static int add_kernel_name(sqlite3 *db, const char *name, bool full)
{
	struct kernel_names *names = kernel_names_new(full);

	if (!names)
		return SQLITE_NOMEM;
	return sqlite3_create_function_v2(db, name, 1, FLAGS, names, kernel_name, NULL, NULL,
					  free_names);
}

int sql_functions_add(sqlite3 *db, struct interner *texts)
{
	static const struct {
		const char *name;
		int arguments;
		void (*step)(sqlite3_context *, int, sqlite3_value **);
		void (*final)(sqlite3_context *);
	} aggregates[] = {
		{ "median", 1, median_step, quantile_final },
		{ "percentile", 2, percentile_step, quantile_final },
		{ "stddev", 1, stddev_step, stddev_final },
	};
	int rc = add_kernel_name(db, "kernel_short", false);

	if (rc == SQLITE_OK)
		rc = add_kernel_name(db, "kernel_full", true);
	if (rc == SQLITE_OK)
		rc = sqlite3_create_function_v2(db, "overlap", 4, FLAGS, NULL, overlap, NULL, NULL,
						NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_create_function_v2(db, "text_id", 1, FLAGS, texts, text_id, NULL, NULL,
						NULL);
	for (size_t i = 0; i < ARRAY_SIZE(aggregates) && rc == SQLITE_OK; i++)
		rc = sqlite3_create_function_v2(db, aggregates[i].name, aggregates[i].arguments,
						FLAGS, NULL, NULL, aggregates[i].step,
						aggregates[i].final, NULL);
	return rc;
}
