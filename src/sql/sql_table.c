/*
 * sql_table.c: a scan is a list of pieces: rows of one recording in their order, or in that of an
 * index. Rows of a piece are read in chunks, which begin small and grow, so that a lookup costs
 * little; conditions narrow a chunk to a list of rows, and columns are read for these when SQLite
 * wants their values.
 */
#include "sql/sql_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "sql/sql_plan.h"

#define CHUNK_MIN 64u
#define CHUNK_MAX 4096u
#define INDEX_AFTER 2u /* lookups by scanning, until an index pays */

struct table_module {
	struct sql *sql;
	enum table_id table;
};

struct sql_table {
	sqlite3_vtab base;
	struct sql *sql;
	struct sql_source *sources; /* by recording */
	size_t column_count;
};

struct piece {
	struct sql_source *source;
	const struct sql_index *index; /* NULL: the table's own order */
	uint64_t from, to; /* rows, or positions in the index */
};

struct chunk_column {
	uint64_t *values;
	uint8_t *valid;
	uint64_t chunk; /* whose values they are; 0: none */
};

struct sql_cursor {
	sqlite3_vtab_cursor base;
	struct sql_plan plan;
	VEC(struct piece) pieces;
	size_t piece; /* the next one to read from */
	size_t chunk_rows; /* of the next chunk */
	struct sql_source *source; /* of the chunk */
	struct flat_rows rows; /* of the chunk */
	uint32_t list[CHUNK_MAX];
	uint64_t chunk; /* its number, from 1 */
	size_t at;
	struct chunk_column *columns;
	uint64_t values[CHUNK_MAX]; /* of the column of a condition */
	uint8_t valid[CHUNK_MAX];
};

int sql_table_failed(struct sql *s, int rc, const struct error *e)
{
	if (!s->error.code) {
		s->error = *e;
		s->error.code = rc;
	}
	return rc == -ENOMEM ? SQLITE_NOMEM : SQLITE_ERROR;
}

static int fail(const struct sql_cursor *c, int rc, const struct error *e)
{
	return sql_table_failed(((struct sql_table *)c->base.pVtab)->sql, rc, e);
}

/* ---- the table ---- */

static int disconnect(sqlite3_vtab *vtab)
{
	struct sql_table *t = (struct sql_table *)vtab;

	for (size_t i = 0; i < t->sql->count; i++)
		sql_source_release(&t->sources[i]);
	free(t->sources);
	free(t);
	return SQLITE_OK;
}

static int declare(const struct sql_table *t)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	strbuf_adds(&text, "CREATE TABLE x(");
	for (size_t i = 0; i < t->column_count; i++) {
		const struct sql_column *c = &t->sources[0].columns.data[i];

		strbuf_addf(&text, "%s\"%s\" %s%s", i ? ", " : "", c->name, sql_column_type(c),
			    c->kind == SQL_RECORDING && t->sql->count == 1 ? " HIDDEN" : "");
	}
	strbuf_adds(&text, ")");
	return text.failed ? SQLITE_NOMEM : sql_declare(t->sql, strbuf_text(&text));
}

static int connect(sqlite3 *db, void *user, int argc, const char *const *argv, sqlite3_vtab **out,
		   char **message)
{
	const struct table_module *m = user;
	struct sql_table *t = calloc(1, sizeof(*t));
	struct error e = { 0 };
	int rc = 0, result;

	(void)db, (void)argc, (void)argv, (void)message;
	if (t)
		t->sources = calloc(m->sql->count, sizeof(*t->sources));
	if (!t || !t->sources) {
		free(t);
		return SQLITE_NOMEM;
	}
	t->sql = m->sql;
	for (size_t i = 0; i < m->sql->count && rc >= 0; i++)
		rc = sql_source_init(&t->sources[i], m->sql, i, m->table, &e);
	t->column_count = MIN(t->sources[0].columns.count, (size_t)SQL_COLUMNS_MAX);
	result = rc < 0 ? sql_table_failed(m->sql, rc, &e) : declare(t);
	if (result == SQLITE_OK)
		*out = &t->base;
	else
		disconnect(&t->base);
	return result;
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	struct sql_table *t = (struct sql_table *)vtab;

	return sql_plan_choose(t->sources, t->sql->count, info);
}

/* ---- pieces ---- */

static bool is_equality(const struct sql_condition *c)
{
	return c->operator== SQL_EQUAL && !c->any;
}

static int add_piece(struct sql_cursor *c, struct piece p)
{
	return p.from < p.to ? vec_push(&c->pieces, p) : 0;
}

/* Narrows rows to those that meet a condition. 0 or a negative code. */
static int narrow(struct sql_cursor *c, struct sql_source *s, struct sql_condition *x)
{
	bool text = sql_is_text(&s->columns.data[x->column]);
	size_t kept = 0;

	if (x->any)
		return 0;
	sql_read(s, x->column, &c->rows, c->values, c->valid);
	for (size_t i = 0; i < c->rows.count; i++) {
		int holds = c->valid[i];

		if (x->operator== SQL_NULL) {
			holds = !holds;
		} else if (holds && x->operator!= SQL_NOT_NULL && text) {
			uint32_t item = sql_text_item(s, x->column, c->values[i]);

			holds = item ? sql_text_holds(x, s->sql, item) : -ENOMEM;
			if (holds < 0)
				return holds;
		} else if (holds && x->operator!= SQL_NOT_NULL) {
			holds = sql_holds(x, (int64_t)c->values[i]);
		}
		/* A list is overwritten behind where it is read. */
		c->list[kept] = c->rows.list ? c->rows.list[i] : (uint32_t)(c->rows.first + i);
		kept += (size_t)holds;
	}
	if (kept < c->rows.count)
		c->rows = (struct flat_rows){ .list = c->list, .count = kept };
	return 0;
}

/* Whether a process meets the conditions on columns that are equal in all of its rows. */
static int has_process(struct sql_cursor *c, struct sql_source *s, uint64_t first)
{
	int rc = 0;

	c->rows = (struct flat_rows){ .first = first, .count = 1 };
	for (size_t i = 0; i < c->plan.count && rc >= 0 && c->rows.count; i++)
		if (c->plan.conditions[i].column != SQL_ROWID &&
		    sql_is_of_process(&s->columns.data[c->plan.conditions[i].column]))
			rc = narrow(c, s, &c->plan.conditions[i]);
	return rc < 0 ? rc : (int)c->rows.count;
}

static uint64_t monotonic(const struct sql_source *s, int64_t time_ns, int64_t more)
{
	__int128 t = (__int128)time_ns + more - s->flat.offset_ns;

	return t < 0 ? 0 : t > (__int128)UINT64_MAX ? UINT64_MAX : (uint64_t)t;
}

/* Narrows a process's rows by a condition on their times, or on their numbers. */
static void narrow_range(const struct sql_source *s, size_t process, const struct sql_condition *x,
			 uint64_t *from, uint64_t *to)
{
	const struct sql_column *c = x->column == SQL_ROWID ? NULL : &s->columns.data[x->column];
	bool after = x->operator== SQL_GREATER, until = x->operator== SQL_LESS_EQUAL;
	bool lower = after || x->operator== SQL_GREATER_EQUAL || x->operator== SQL_EQUAL;
	bool upper = until || x->operator== SQL_LESS || x->operator== SQL_EQUAL;
	bool is_row = !c || (c->kind == SQL_FLAT && c->flat->source == FLAT_ROW);
	bool is_time = c && c->kind == SQL_FLAT && c->flat->source == FLAT_STORED &&
		       c->flat->column == s->schema->time_column;
	int64_t row = x->number;

	if (!is_row && !(is_time && sql_times_fit(s, process)))
		return;
	if (!c)
		row -= (int64_t)sql_rowid(s, 0);
	if (lower && is_row)
		*from = MAX(*from, row < 0 ? 0 : (uint64_t)row + after);
	else if (lower)
		*from = MAX(*from, flat_row_at(&s->flat, process, monotonic(s, x->number, after)));
	if (upper) {
		bool including = until || x->operator== SQL_EQUAL;

		*to = MIN(*to, is_row ? row < 0 ? 0 : (uint64_t)row + including
				      : flat_row_at(&s->flat, process,
						    monotonic(s, x->number, including)));
	}
}

static int add_process(struct sql_cursor *c, struct sql_source *s, size_t process)
{
	uint64_t from = trace_first_row(s->trace, s->schema->id, process);
	uint64_t to = trace_first_row(s->trace, s->schema->id, process + 1);
	int rc = from < to ? has_process(c, s, from) : 0;

	for (size_t i = 0; i < c->plan.count && rc > 0; i++)
		if (!c->plan.conditions[i].any)
			narrow_range(s, process, &c->plan.conditions[i], &from, &to);
	return rc <= 0 ? rc : add_piece(c, (struct piece){ .source = s, .from = from, .to = to });
}

static bool has_value_index(const struct sql_source *s, const struct sql_condition *x)
{
	const struct sql_column *c;

	if (!is_equality(x) || x->column == SQL_ROWID)
		return false;
	c = &s->columns.data[x->column];
	return !sql_is_of_process(c) && (c->kind != SQL_FLAT || c->flat->source != FLAT_ROW);
}

/* The index of the rows with one value, if it pays; NULL: there is none. */
static int find_index(struct sql_cursor *c, struct sql_source *s, const struct sql_condition **by,
		      struct error *e)
{
	int rc = 0;

	*by = NULL;
	for (size_t i = 0; i < c->plan.count && rc >= 0 && !*by; i++) {
		const struct sql_condition *x = &c->plan.conditions[i];

		if (!has_value_index(s, x))
			continue;
		if (trace_rows(s->trace, s->schema->id) > CHUNK_MIN &&
		    s->columns.data[x->column].lookups++ >= INDEX_AFTER)
			rc = sql_index_make(s, x->column, e);
		if (rc >= 0 && s->columns.data[x->column].index.rows)
			*by = x;
	}
	return rc;
}

static int add_lookup(struct sql_cursor *c, struct sql_source *s, const struct sql_condition *x)
{
	const struct sql_column *column = &s->columns.data[x->column];
	const struct sql_index *index = &column->index;
	int64_t key = x->number;

	if (sql_is_text(column)) {
		int64_t item = interner_find(&s->sql->texts, x->text, x->length);

		key = item >= 0 && (size_t)item < index->ranks.count ? index->ranks.data[item] : 0;
		if (!key)
			return 0;
	}
	return add_piece(c, (struct piece){
				    .source = s,
				    .index = index,
				    .from = sorted_prefix(index->count, i, index->keys[i] < key),
				    .to = sorted_prefix(index->count, i, index->keys[i] <= key),
			    });
}

static int load_columns(struct sql_cursor *c, struct sql_source *s, struct error *e)
{
	/* Processes of rows are known once any column is loaded. */
	int rc = sql_load(s, 0, e);

	for (size_t i = 0; i < s->columns.count && rc >= 0; i++)
		if (c->plan.used >> MIN(i, (size_t)63) & 1)
			rc = sql_load(s, i, e);
	for (size_t i = 0; i < c->plan.count && rc >= 0; i++)
		if (c->plan.conditions[i].column != SQL_ROWID)
			rc = sql_load(s, c->plan.conditions[i].column, e);
	return rc;
}

static int add_source(struct sql_cursor *c, struct sql_source *s, struct error *e)
{
	uint64_t rows = trace_rows(s->trace, s->schema->id);
	const struct sql_condition *by = NULL;
	int rc = rows ? load_columns(c, s, e) : 0;

	rows = trace_rows(s->trace, s->schema->id);
	if (rc < 0 || !rows)
		return rc;
	if (c->plan.order == SQL_GROUPED) {
		rc = sql_index_make(s, c->plan.order_column, e);
		return rc < 0 ? rc
			      : add_piece(c, (struct piece){
						     .source = s,
						     .index = &s->columns.data[c->plan.order_column]
								       .index,
						     .to = rows });
	}
	rc = find_index(c, s, &by, e);
	if (rc >= 0 && by)
		return add_lookup(c, s, by);
	for (size_t p = 0; p < trace_process_count(s->trace) && rc >= 0; p++)
		rc = add_process(c, s, p);
	return rc;
}

/* ---- the cursor ---- */

static int cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
	struct sql_cursor *c = calloc(1, sizeof(*c));

	if (c)
		c->columns = calloc(((struct sql_table *)vtab)->column_count, sizeof(*c->columns));
	if (!c || !c->columns) {
		free(c);
		return SQLITE_NOMEM;
	}
	*out = &c->base;
	return SQLITE_OK;
}

static int cursor_close(sqlite3_vtab_cursor *cursor)
{
	struct sql_cursor *c = (struct sql_cursor *)cursor;
	const struct sql_table *t = (const struct sql_table *)c->base.pVtab;

	for (size_t i = 0; i < t->column_count; i++) {
		free(c->columns[i].values);
		free(c->columns[i].valid);
	}
	free(c->columns);
	sql_plan_release(&c->plan);
	vec_release(&c->pieces);
	free(c);
	return SQLITE_OK;
}

/* Moves rows from a piece into the chunk. */
static void take(struct sql_cursor *c, struct piece *p)
{
	c->source = p->source;
	c->rows = (struct flat_rows){ .first = p->from,
				      .count = MIN(p->to - p->from, c->chunk_rows) };
	if (p->index) {
		memcpy(c->list, p->index->rows + p->from, c->rows.count * sizeof(*c->list));
		c->rows.list = c->list;
	}
	p->from += c->rows.count;
	c->piece += p->from == p->to;
	c->chunk_rows = MIN(c->chunk_rows * 4, (size_t)CHUNK_MAX);
}

/* Reads chunks until one has a row. */
static int fill(struct sql_cursor *c)
{
	const struct sql_table *t = (const struct sql_table *)c->base.pVtab;
	int rc = 0;

	c->at = 0;
	c->chunk++;
	c->rows.count = 0;
	while (!c->rows.count && c->piece < c->pieces.count && rc >= 0) {
		if (sql_stopped(t->sql))
			return SQLITE_INTERRUPT;
		take(c, &c->pieces.data[c->piece]);
		for (size_t i = 0; i < c->plan.count && c->rows.count && rc >= 0; i++)
			if (c->plan.conditions[i].column != SQL_ROWID)
				rc = narrow(c, c->source, &c->plan.conditions[i]);
	}
	return rc < 0 ? SQLITE_NOMEM : SQLITE_OK;
}

static bool holds_for_none(const struct sql_plan *p)
{
	for (size_t i = 0; i < p->count; i++)
		if (p->conditions[i].nothing)
			return true;
	return false;
}

static int cursor_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int count,
			 sqlite3_value **values)
{
	struct sql_cursor *c = (struct sql_cursor *)cursor;
	const struct sql_table *t = (const struct sql_table *)c->base.pVtab;
	struct error e = { 0 };
	int rc;

	(void)number;
	sql_plan_release(&c->plan);
	c->pieces.count = 0;
	c->piece = 0;
	c->chunk_rows = CHUNK_MIN;
	rc = sql_plan_read(&c->plan, &t->sources[0], text, count, values);
	for (size_t i = 0; i < t->sql->count && rc >= 0 && !holds_for_none(&c->plan); i++)
		rc = add_source(c, &t->sources[i], &e);
	return rc < 0 ? fail(c, rc, &e) : fill(c);
}

static int cursor_next(sqlite3_vtab_cursor *cursor)
{
	struct sql_cursor *c = (struct sql_cursor *)cursor;

	return ++c->at < c->rows.count ? SQLITE_OK : fill(c);
}

static int cursor_eof(sqlite3_vtab_cursor *cursor)
{
	const struct sql_cursor *c = (const struct sql_cursor *)cursor;

	return c->at >= c->rows.count;
}

/* Reads a column of the chunk. */
static bool read_column(struct sql_cursor *c, struct chunk_column *column, size_t number)
{
	if (!column->values) {
		column->values = malloc(CHUNK_MAX * sizeof(*column->values));
		column->valid = malloc(CHUNK_MAX);
		if (!column->values || !column->valid)
			return false;
	}
	sql_read(c->source, number, &c->rows, column->values, column->valid);
	column->chunk = c->chunk;
	return true;
}

static int cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *out, int number)
{
	struct sql_cursor *c = (struct sql_cursor *)cursor;
	struct chunk_column *column = &c->columns[number];
	const struct sql_column *kind = &c->source->columns.data[number];
	uint64_t value;

	if (column->chunk != c->chunk && !read_column(c, column, (size_t)number))
		return SQLITE_NOMEM;
	if (!column->valid[c->at])
		return SQLITE_OK; /* NULL */
	value = column->values[c->at];
	if (sql_is_text(kind)) {
		uint32_t item = sql_text_item(c->source, (size_t)number, value);
		const struct interned *text;

		if (!item)
			return SQLITE_NOMEM;
		text = &c->source->sql->texts.items[item - 1];
		sqlite3_result_text(out, text->text, (int)text->length, SQLITE_STATIC);
	} else if (kind->kind == SQL_FLAT && kind->flat->type == FLAT_F64) {
		double real;

		memcpy(&real, &value, sizeof(real));
		sqlite3_result_double(out, real);
	} else {
		sqlite3_result_int64(out, (int64_t)value);
	}
	return SQLITE_OK;
}

static int cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
	const struct sql_cursor *c = (const struct sql_cursor *)cursor;
	uint64_t row = c->rows.list ? c->rows.list[c->at] : c->rows.first + c->at;

	*out = (sqlite3_int64)sql_rowid(c->source, row);
	return SQLITE_OK;
}

/* Without xCreate: the table is there without being created. */
static const sqlite3_module table_methods = {
	.xConnect = connect,
	.xBestIndex = best_index,
	.xDisconnect = disconnect,
	.xOpen = cursor_open,
	.xClose = cursor_close,
	.xFilter = cursor_filter,
	.xNext = cursor_next,
	.xEof = cursor_eof,
	.xColumn = cursor_column,
	.xRowid = cursor_rowid,
};

int sql_table_add(struct sql *s, enum table_id table, struct error *e)
{
	struct table_module *m = malloc(sizeof(*m));

	if (!m)
		return error_set(e, -ENOMEM, "out of memory");
	*m = (struct table_module){ s, table };
	/* Frees `m` in any case. */
	if (sqlite3_create_module_v2(s->db, schema_table(table)->name, &table_methods, m, free) !=
	    SQLITE_OK)
		return error_set(e, -ENOMEM, "out of memory");
	return 0;
}
