#include "sql/duckdb/duck_engine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/sql_summary.h"
#include "sql/sql_views.h"

struct listing {
	struct duck_summary *summary;
	bool failed;
};

static void add_column(void *user, const struct sql_item *item)
{
	struct listing *l = user;
	struct duck_summary *s = l->summary;
	struct duck_summary_column *columns =
		reallocarray(s->columns, s->count + 1, sizeof(*columns));

	l->failed |= !columns;
	if (l->failed)
		return;
	s->columns = columns;
	columns[s->count] = (struct duck_summary_column){
		.name = strdup(item->name),
		.type = !strcmp(item->type, "TEXT")   ? DUCK_VARCHAR
			: !strcmp(item->type, "REAL") ? DUCK_DOUBLE
						      : DUCK_BIGINT,
	};
	l->failed |= !columns[s->count++].name;
}

void duck_summary_free(struct duck_summary *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->count; i++)
		free(s->columns[i].name);
	free(s->columns);
	free(s->name);
	vec_release(&s->cells);
	vec_release(&s->valid);
	free(s);
}

static bool is_summary(const char *name)
{
	return (sql_view_name(name) && !sql_alias_select(name)) || sql_summary_known(name);
}

int duck_summary_find(struct duck *d, const char *name, struct duck_summary **out, struct error *e)
{
	struct listing list = { 0 };
	int rc;

	*out = NULL;
	for (size_t i = 0; i < d->summaries.count; i++)
		if (!sqlite3_stricmp(d->summaries.data[i]->name, name)) {
			*out = d->summaries.data[i];
			return 0;
		}
	if (!is_summary(name))
		return 0;
	list.summary = calloc(1, sizeof(*list.summary));
	list.failed = !list.summary || !(list.summary->name = strdup(name));
	rc = list.failed ? 0 : sql_columns(d->sql, name, add_column, &list, e);
	if (list.failed || (rc >= 0 && vec_push(&d->summaries, list.summary) < 0))
		rc = error_set(e, -ENOMEM, "out of memory");
	if (rc < 0)
		duck_summary_free(list.summary);
	else
		*out = list.summary;
	return rc < 0 ? rc : 0;
}

static int add_text(struct duck *d, union duck_cell *cell, sqlite3_stmt *row, int column)
{
	const char *text = (const char *)sqlite3_column_text(row, column);
	size_t length = (size_t)sqlite3_column_bytes(row, column);
	int64_t item;

	if (!text)
		return -ENOMEM;
	pthread_mutex_lock(&d->texts);
	item = interner_add(&d->sql->texts, text, length, NULL);
	if (item >= 0)
		cell->text = duck_text(&d->sql->texts.items[item]);
	pthread_mutex_unlock(&d->texts);
	return item < 0 ? -ENOMEM : 0;
}

static int add_row(struct duck *d, struct duck_summary *s, sqlite3_stmt *row)
{
	int rc = 0;

	for (size_t i = 0; i < s->count && rc == 0; i++) {
		bool valid = sqlite3_column_type(row, (int)i) != SQLITE_NULL;
		union duck_cell cell = { 0 };

		if (valid && s->columns[i].type == DUCK_VARCHAR)
			rc = add_text(d, &cell, row, (int)i);
		else if (s->columns[i].type == DUCK_DOUBLE)
			cell.real = sqlite3_column_double(row, (int)i);
		else if (valid)
			cell.integer = sqlite3_column_int64(row, (int)i);
		if (rc == 0)
			rc = vec_push(&s->cells, cell);
		if (rc == 0)
			rc = vec_push(&s->valid, valid);
	}
	return rc;
}

int duck_summary_make(struct duck *d, struct duck_summary *s, struct error *e)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct sql *sql = d->sql;
	sqlite3_stmt *row = NULL;
	int rc = 0, result;

	if (s->made)
		return 0;
	strbuf_addf(&text, "SELECT * FROM \"%s\"", s->name);
	sql->error.code = 0;
	result = sqlite3_prepare_v2(sql->db, strbuf_text(&text), -1, &row, NULL);
	while (result == SQLITE_OK || result == SQLITE_ROW) {
		result = sqlite3_step(row);
		if (result == SQLITE_ROW)
			rc = add_row(d, s, row);
		if (rc < 0)
			break;
	}
	if (rc < 0)
		error_set(e, rc, "out of memory");
	else if (result != SQLITE_DONE && sql->error.code)
		rc = error_set(e, sql->error.code, "%s", sql->error.text);
	else if (result != SQLITE_DONE)
		rc = error_set(e, result == SQLITE_INTERRUPT ? -ECANCELED : -EIO, "%s: %s", s->name,
			       sqlite3_errmsg(sql->db));
	sqlite3_finalize(row);
	s->made = rc >= 0;
	if (rc < 0) {
		s->cells.count = 0;
		s->valid.count = 0;
	}
	return rc;
}
