/* sql_catalog.c: which tables there are, and their columns. */
#include <errno.h>
#include <stdio.h>

#include "base/options.h"
#include "sql/sql_summary.h"
#include "sql/sql_views.h"

static uint64_t rows_of(const struct sql *s, enum table_id table)
{
	uint64_t rows = 0;

	for (size_t i = 0; i < s->count; i++)
		rows += trace_rows(s->recordings[i].trace, table);
	return rows;
}

void sql_tables(struct sql *s, sql_visit *visit, void *user)
{
	sql_summaries_visit(visit, user);
	sql_views_visit(visit, user);
	for (uint32_t id = 1; id <= TABLE_MAX; id++)
		if (id != TABLE_string)
			visit(user, &(struct sql_item){ .name = schema_table(id)->name,
							.meaning = schema_table(id)->meaning,
							.rows = rows_of(s, (enum table_id)id) });
}

static int schema_columns(struct sql *s, enum table_id table, sql_visit *visit, void *user,
			  struct error *e)
{
	struct sql_source source;
	int rc = sql_source_init(&source, s, 0, table, e);

	for (size_t i = 0; i < source.columns.count && rc >= 0; i++) {
		const struct sql_column *c = &source.columns.data[i];

		visit(user, &(struct sql_item){ .name = c->name,
						.type = sql_column_type(c),
						.meaning = c->meaning });
	}
	sql_source_release(&source);
	return rc;
}

static int view_columns(struct sql *s, const char *view, sql_visit *visit, void *user,
			struct error *e)
{
	char text[128];
	bool is_alias = sql_alias_select(view) != NULL;
	sqlite3_stmt *statement = NULL;

	snprintf(text, sizeof(text), "SELECT * FROM \"%s\" LIMIT 0", view);
	if (sqlite3_prepare_v2(s->db, text, -1, &statement, NULL) != SQLITE_OK)
		return error_set(e, -EIO, "%s: %s", view, sqlite3_errmsg(s->db));
	for (int i = 0; i < sqlite3_column_count(statement); i++) {
		const char *name = sqlite3_column_name(statement, i);
		const char *type =
			is_alias ? sqlite3_column_decltype(statement, i) : sql_summary_type(name);

		visit(user, &(struct sql_item){ .name = name, .type = type ?: "", .meaning = "" });
	}
	sqlite3_finalize(statement);
	return 0;
}

struct name_list {
	VEC(const char *) names;
};

static void add_name(void *user, const struct sql_item *item)
{
	struct name_list *l = user;

	if (vec_push(&l->names, item->name) < 0)
		return;
}

int sql_columns(struct sql *s, const char *table, sql_visit *visit, void *user, struct error *e)
{
	const char *view = sql_view_name(table);
	struct name_list known = { VEC_INIT };

	for (uint32_t id = 1; id <= TABLE_MAX; id++)
		if (id != TABLE_string && !sqlite3_stricmp(schema_table(id)->name, table))
			return schema_columns(s, (enum table_id)id, visit, user, e);
	if (view)
		return view_columns(s, view, visit, user, e);
	if (sql_summary_columns(table, visit, user))
		return 0;
	sql_tables(s, add_name, &known);
	error_set(e, E_USAGE, "there is no table '%s'", table);
	if (known.names.count && vec_push(&known.names, NULL) == 0)
		error_suggest(e, table, known.names.data, "; `.tables` lists them");
	vec_release(&known.names);
	return E_USAGE;
}
