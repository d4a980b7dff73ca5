/* database_query.c: selects columns of tables, and reads their rows in batches. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "import/database.h"

#define BATCH_TEXT_MAX ((size_t)16 << 20) /* and one text more */

int query_batch_init(struct query_batch *b, int columns)
{
	size_t cells = (size_t)columns * QUERY_ROWS;

	b->result = SQLITE_ROW;
	b->types = malloc(cells);
	b->values = malloc(cells * sizeof(*b->values));
	return b->types && b->values ? 0 : -ENOMEM;
}

void query_batch_release(struct query_batch *b)
{
	strbuf_release(&b->texts);
	free(b->types);
	free(b->values);
}

/* Collects the names of a table's columns: "|start|end|". */
static void read_columns(struct database *d, const char *table, struct strbuf *have)
{
	sqlite3_stmt *s = NULL;
	int rc = sqlite3_prepare_v2(d->db, "SELECT name FROM pragma_table_xinfo(?)", -1, &s, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
	strbuf_addc(have, '|');
	while (rc == SQLITE_OK && sqlite3_step(s) == SQLITE_ROW) {
		const char *name = (const char *)sqlite3_column_text(s, 0);

		if (name)
			strbuf_addf(have, "%s|", name);
	}
	sqlite3_finalize(s);
}

static bool has_column(const struct strbuf *have, const char *name, size_t length)
{
	char one[64];

	snprintf(one, sizeof(one), "|%.*s|", (int)length, name);
	return strcasestr(strbuf_text(have), one);
}

/* Adds the first column of a list that there is, or NULL. */
static void add_column(struct strbuf *sql, const char *list, const struct strbuf *have,
		       const struct strbuf *joined)
{
	for (size_t length; *list; list += length + (list[length] == '|')) {
		bool is_joined = *list == '+';

		list += is_joined;
		length = strcspn(list, "|");
		if (has_column(is_joined ? joined : have, list, length)) {
			strbuf_addf(sql, "%s.\"%.*s\"", is_joined ? "b" : "a", (int)length, list);
			return;
		}
	}
	strbuf_adds(sql, "NULL");
}

int query_sql(struct query *q, struct database *d, const char *sql, struct error *e)
{
	int rc;

	*q = (struct query){ .d = d };
	d->steps = 0;
	rc = sqlite3_prepare_v3(d->db, sql, -1, SQLITE_PREPARE_PERSISTENT, &q->statement, NULL);
	q->failure = rc;
	q->columns = sqlite3_column_count(q->statement);
	q->batch = &q->own;
	if (rc == SQLITE_NOMEM || (rc == SQLITE_OK && query_batch_init(&q->own, q->columns) < 0))
		return error_set(e, -ENOMEM, "out of memory");
	return 0;
}

int query_select(struct query *q, struct database *d, const struct query_source *source,
		 const char *const *columns, size_t count, const char *rest, struct error *e)
{
	_cleanup_strbuf_ struct strbuf sql = STRBUF_INIT, have = STRBUF_INIT, joined = STRBUF_INIT;

	*q = (struct query){ .d = d };
	strbuf_addf(&d->queried, "%s%s|", d->queried.length ? "" : "|", source->table);
	if (!database_has(d, source->table))
		return 0;
	read_columns(d, source->table, &have);
	if (source->join)
		read_columns(d, source->join, &joined);
	for (size_t i = 0; i < count; i++) {
		strbuf_adds(&sql, i ? ", " : "SELECT ");
		add_column(&sql, columns[i], &have, &joined);
		strbuf_addf(&sql, " AS c%zu", i);
	}
	strbuf_addf(&sql, " FROM \"%s\" a", source->table);
	if (joined.length > 1) {
		strbuf_addf(&sql, " LEFT JOIN \"%s\" b ON b.id = a.\"%s\"", source->join,
			    source->on);
		if (has_column(&have, "guid", 4) && has_column(&joined, "guid", 4))
			strbuf_adds(&sql, " AND b.guid = a.guid");
	}
	strbuf_addf(&sql, " %s", rest ? rest : "");
	if (sql.failed || have.failed || joined.failed)
		return error_set(e, -ENOMEM, "out of memory");
	if (query_sql(q, d, strbuf_text(&sql), e) < 0)
		return e->code;
	if (!source->join && !rest && !has_column(&have, "rowid", 5) &&
	    database_has_table(d, source->table))
		q->table = source->table;
	return 0;
}

int query_open(struct query *q, struct database *d, const char *table, const char *const *columns,
	       size_t count, const char *rest, struct error *e)
{
	return query_select(q, d, &(struct query_source){ .table = table }, columns, count, rest,
			    e);
}

/* ---- batches ---- */

void query_batch_value(struct query_batch *b, sqlite3_value *v, size_t at)
{
	const unsigned char *text;
	double real;
	int length;

	switch (sqlite3_value_type(v)) {
	case SQLITE_INTEGER:
		b->types[at] = QUERY_INTEGER;
		b->values[at] = sqlite3_value_int64(v);
		break;
	case SQLITE_NULL:
		b->types[at] = QUERY_NULL;
		b->values[at] = 0;
		break;
	case SQLITE_FLOAT:
		b->types[at] = QUERY_REAL;
		real = sqlite3_value_double(v);
		memcpy(&b->values[at], &real, sizeof(real));
		break;
	case SQLITE_TEXT:
		text = sqlite3_value_text(v);
		length = text ? sqlite3_value_bytes(v) : 0;
		b->types[at] = QUERY_TEXT;
		b->values[at] = (int64_t)(b->texts.length << 32 | (uint32_t)length);
		strbuf_add(&b->texts, text ? text : (const unsigned char *)"", (size_t)length);
		strbuf_addc(&b->texts, 0);
		break;
	default:
		b->types[at] = QUERY_OTHER;
	}
}

void query_batch_begin(struct query_batch *b)
{
	strbuf_clear(&b->texts);
	b->rows = 0;
	b->goes_on = false;
}

bool query_batch_is_full(const struct query_batch *b)
{
	return b->rows == QUERY_ROWS || b->texts.length >= BATCH_TEXT_MAX;
}

void query_batch_end(const struct query *q, struct query_batch *b, int result)
{
	b->result = b->texts.failed ? SQLITE_NOMEM : result;
	b->read = q->d->read;
}

static void fill(struct query *q, struct query_batch *b)
{
	int result = SQLITE_ROW;
	size_t at = 0;

	query_batch_begin(b);
	while (!query_batch_is_full(b) && (result = sqlite3_step(q->statement)) == SQLITE_ROW) {
		for (int c = 0; c < q->columns; c++)
			query_batch_value(b, sqlite3_column_value(q->statement, c), at++);
		b->rows++;
	}
	query_batch_end(q, b, result);
}

static void next_batch(struct query *q)
{
	q->row = 0;
	do {
		if (q->reader_count)
			query_readers_next(q);
		else
			fill(q, q->batch);
	} while (!q->batch->rows && q->batch->result == SQLITE_ROW);
}

/* Whether the table has as many rows as were found by their numbers. */
static bool is_complete(const struct query *q)
{
	_cleanup_strbuf_ struct strbuf sql = STRBUF_INIT;
	struct query count;
	bool complete;

	if (q->rows == q->expected || !q->expected)
		return true;
	strbuf_addf(&sql, "SELECT count(*) FROM \"%s\"", q->table);
	complete = query_sql(&count, q->d, strbuf_text(&sql), NULL) >= 0 &&
		   query_next(&count) > 0 && query_number(&count, 0, -1) == (int64_t)q->rows;
	query_close(&count);
	return complete;
}

static void show_progress(const struct query *q)
{
	const struct import_options *o = q->d->options;

	if (o->progress)
		o->progress(o->progress_user, MIN(q->batch->read, q->d->size), q->d->size);
}

int query_next(struct query *q)
{
	const struct import_options *o = q->d ? q->d->options : NULL;

	if (!q->statement)
		return 0;
	if (q->rows && ++q->row < q->batch->rows) {
		q->rows++;
		return 1;
	}
	if (q->batch->result != SQLITE_ROW)
		q->batch->rows = 0;
	else
		next_batch(q);
	if (o->cancel && *o->cancel)
		return -ECANCELED;
	if (q->rows > q->d->size) { /* of a view */
		q->batch->result = q->failure = SQLITE_TOOBIG;
		q->batch->rows = 0;
		return 0;
	}
	if (q->batch->rows) {
		show_progress(q);
		q->rows++;
		return 1;
	}
	if (q->batch->result == SQLITE_NOMEM)
		return -ENOMEM;
	if (q->batch->result != SQLITE_DONE)
		q->failure = q->batch->result;
	else if (!is_complete(q))
		q->failure = SQLITE_CORRUPT;
	return 0;
}

void query_close(struct query *q)
{
	query_readers_stop(q);
	query_batch_release(&q->own);
	sqlite3_finalize(q->statement);
	*q = (struct query){ 0 };
}

const char *query_text(const struct query *q, int column, size_t *length)
{
	int64_t value;

	if (query_value(q, column, &value) != QUERY_TEXT) {
		*length = 0;
		return NULL;
	}
	*length = (uint32_t)value;
	return q->batch->texts.data + ((uint64_t)value >> 32);
}
