/*
 * duck_distinct.c: DuckDB evaluates a function of a text once for each row, and hashes the text of
 * each row to group by it. The dictionaries that its C API can make (duckdb_slice_vector) do not
 * say how many texts they have, without which DuckDB 1.5 takes no notice of them; but its planner
 * has joins: in a statement that aggregates, a large table is a view, which joins numbers of texts
 * with the texts. Conditions on a text are then evaluated for the distinct ones, and groups found
 * once for each. Of 100 million kernels on two processors LIKE takes 0.9 s, not 4.8 s; GROUP BY
 * config_name 1.7 s, not 3.0 s.
 *
 * A join has no order, so that statements that do not aggregate, where rows come in that of the
 * table, read texts as they are.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/duckdb/duck_engine.h"
#include "sql/sql_error.h"

#define ROWS_MIN 100000u /* of a table, for which this pays */
#define TEXTS_MAX 20000u /* distinct ones; DuckDB caches groups of as many */
#define CHUNK 4096u

static bool aggregates(const char *text)
{
	static const char *const words[] = { "group", "distinct",      "count",      "sum",
					     "avg",   "min",           "max",        "median",
					     "total", "quantile_disc", "percentile", "stddev" };
	bool found = false;

	for (size_t i = 0; i < ARRAY_SIZE(words) && !found; i++)
		found = sql_find_word(text, words[i]) != NULL;
	return found;
}

/* How many values a column of names can have: the rows that it refers to. 0: unknown. */
static uint64_t referred(const struct sql_source *s, const struct sql_column *c)
{
	return c->kind == SQL_FLAT && c->flat->source == FLAT_NAME
		       ? trace_rows(s->trace, s->schema->columns[c->flat->column].ref)
		       : 0;
}

/* Makes the texts of all rows, so that each value has its item. 0 or a negative code. */
static int make_texts(struct sql_source *s, size_t column, struct error *e)
{
	uint64_t rows = trace_rows(s->trace, s->schema->id), values[CHUNK];
	uint64_t names = referred(s, &s->columns.data[column]);
	uint8_t valid[CHUNK];
	bool made = true;

	if (names && names < rows / 8) {
		for (uint64_t i = 0; i < names && made; i++)
			made = sql_text_item(s, column, i) != 0;
		return made ? 0 : error_set(e, -ENOMEM, "out of memory");
	}
	for (uint64_t at = 0; at < rows && made; at += CHUNK) {
		struct flat_rows r = { .first = at, .count = MIN(rows - at, (uint64_t)CHUNK) };

		if (sql_stopped(s->sql))
			return sql_stop_error(s->sql, e);
		sql_read(s, column, &r, values, valid);
		for (size_t i = 0; i < r.count && made; i++)
			if (valid[i] && !(i && valid[i - 1] && values[i] == values[i - 1]))
				made = sql_text_item(s, column, values[i]) != 0;
	}
	return made ? 0 : error_set(e, -ENOMEM, "out of memory");
}

static int add_row(struct duck_summary *s, int64_t item, const struct interned *text)
{
	union duck_cell cells[2] = { { .integer = item } };
	int rc;

	if (text)
		cells[1].text = duck_text(text);
	rc = vec_push(&s->cells, cells[0]) ?: vec_push(&s->cells, cells[1]);
	return rc ?: vec_push(&s->valid, 1) ?: vec_push(&s->valid, text != NULL);
}

/* The texts of a column of all recordings. 0 or -ENOMEM. */
static int add_texts(const struct duck *d, const struct duck_table *t, size_t column,
		     struct duck_summary *out)
{
	_cleanup_free_ bool *seen = calloc(d->sql->texts.count + 1, sizeof(*seen));
	/*
	 * Row 0 is for rows without a text. DuckDB finds texts by their number, without hashing,
	 * where a number between the first and the last one is missing.
	 */
	int rc = seen ? add_row(out, -2, NULL) ?: add_row(out, 0, NULL) : -ENOMEM;

	for (size_t r = 0; r < d->sql->count && rc == 0; r++) {
		const struct sql_column *c = &t->sources[r].columns.data[column];

		for (size_t i = 0; i < c->texts.count && rc == 0; i++) {
			uint32_t item = c->texts.data[i];

			if (item && !seen[item])
				rc = add_row(out, item, &d->sql->texts.items[item - 1]);
			seen[item] = true;
		}
	}
	return rc;
}

static int name_summary(struct duck_summary *s, const char *column, const char *table)
{
	s->columns = calloc(2, sizeof(*s->columns));
	if (!s->columns || asprintf(&s->name, "%s of %s", column, table) < 0)
		return -ENOMEM;
	s->count = 2;
	s->columns[0] = (struct duck_summary_column){ strdup("item"), DUCK_BIGINT };
	s->columns[1] = (struct duck_summary_column){ strdup("text"), DUCK_VARCHAR };
	if (!s->columns[0].name || !s->columns[1].name)
		return -ENOMEM;
	s->made = true;
	return 0;
}

/* Makes the table of a column's texts, which is empty if there are too many. */
static int make_distinct(struct duck *d, struct duck_table *t, size_t column, struct error *e)
{
	const struct sql_column *c = &t->sources[0].columns.data[column];
	struct duck_summary *s = calloc(1, sizeof(*s));
	int rc = s ? 0 : error_set(e, -ENOMEM, "out of memory");

	pthread_rwlock_wrlock(&d->loads);
	for (size_t i = 0; i < d->sql->count && rc >= 0; i++) {
		if (!trace_rows(t->sources[i].trace, t->sources[i].schema->id))
			continue;
		rc = sql_load(&t->sources[i], 0, e);
		if (rc >= 0)
			rc = sql_load(&t->sources[i], column, e);
		if (rc >= 0)
			rc = make_texts(&t->sources[i], column, e);
	}
	if (rc >= 0 && (name_summary(s, c->name, t->sources[0].schema->name) < 0 ||
			add_texts(d, t, column, s) < 0 || vec_push(&d->summaries, s) < 0))
		rc = error_set(e, -ENOMEM, "out of memory");
	pthread_rwlock_unlock(&d->loads);
	if (rc < 0) {
		duck_summary_free(s);
		return rc;
	}
	if (s->cells.count / s->count > TEXTS_MAX)
		s->cells.count = 0;
	t->distinct[column] = s;
	return 0;
}

/* ---- views ---- */

static bool is_worth_it(const struct duck_table *t, size_t column, const char *words)
{
	const struct sql_column *c = &t->sources[0].columns.data[column];

	return sql_is_text(c) && !sql_is_of_process(c) && sql_find_word(words, c->name);
}

/* Replaces a table by a view with the texts that a statement names. 0 or a negative code. */
static int make_view(struct duck *d, struct duck_table *t, const char *words, struct error *e)
{
	_cleanup_strbuf_ struct strbuf columns = STRBUF_INIT, texts = STRBUF_INIT,
				       joins = STRBUF_INIT, view = STRBUF_INIT;
	const char *table = t->sources[0].schema->name;
	int rc = 0;

	for (size_t i = 0; i < t->column_count && rc >= 0; i++) {
		const char *name = t->sources[0].columns.data[i].name;

		if (!is_worth_it(t, i, words))
			continue;
		rc = t->distinct[i] ? 0 : make_distinct(d, t, i, e);
		if (rc < 0 || !t->distinct[i]->cells.count)
			continue;
		strbuf_addf(&columns, ":%s", name);
		strbuf_addf(&texts, "%st%zu.text AS \"%s\"", texts.length ? ", " : "", i, name);
		strbuf_addf(&joins, " JOIN \"%s\" t%zu ON t%zu.item = k.\"%s\"",
			    t->distinct[i]->name, i, i, name);
	}
	if (rc < 0 || !columns.length)
		return rc;
	strbuf_addf(&view,
		    "CREATE OR REPLACE VIEW \"%s\" AS SELECT k.* REPLACE (%s) FROM %s('%s%s') k%s",
		    table, strbuf_text(&texts), DUCK_TABLE_FUNCTION, table, strbuf_text(&columns),
		    strbuf_text(&joins));
	if (columns.failed || texts.failed || joins.failed || view.failed)
		return error_set(e, -ENOMEM, "out of memory");
	rc = duck_execute(d, strbuf_text(&view), e);
	if (rc >= 0 && vec_push(&d->distinct, table) < 0)
		rc = error_set(e, -ENOMEM, "out of memory");
	return rc;
}

static int drop_views(struct duck *d, struct error *e)
{
	int rc = 0;

	while (d->distinct.count && rc >= 0) {
		char text[128];

		snprintf(text, sizeof(text), "DROP VIEW IF EXISTS \"%s\"",
			 d->distinct.data[--d->distinct.count]);
		rc = duck_execute(d, text, e);
	}
	return rc;
}

int duck_distinct_prepare(struct duck *d, const char *text, const char *words, struct error *e)
{
	int rc = drop_views(d, e);

	for (uint32_t id = 1; id <= TABLE_MAX && rc >= 0 && aggregates(text); id++) {
		struct duck_table *t = NULL;
		uint64_t rows = 0;

		for (size_t i = 0; i < d->sql->count; i++)
			rows += trace_rows(d->sql->recordings[i].trace, (enum table_id)id);
		if (id == TABLE_string || rows < ROWS_MIN ||
		    !sql_find_word(words, schema_table(id)->name))
			continue;
		pthread_rwlock_wrlock(&d->loads);
		rc = duck_table_find(d, (enum table_id)id, &t, e);
		pthread_rwlock_unlock(&d->loads);
		if (rc >= 0)
			rc = make_view(d, t, words, e);
	}
	return rc;
}
