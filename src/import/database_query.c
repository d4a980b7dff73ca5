/*
 * database_query.c: reads rows in batches. Of a large table, a thread reads the next batch while
 * one is converted: both take about half of the time of an import. The thread selects an aggregate
 * function of ours, to which SQLite passes all values of a row at once: stepping from row to row
 * and asking for each value takes 40 % more time.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/compiler.h"
#include "import/database.h"

#define BATCH_TEXT_MAX ((size_t)16 << 20) /* and one text more */

struct query_reader {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct query *query;
	sqlite3_stmt *statement; /* selects pitot_rows() */
	struct query_batch *filling; /* the thread's, until it sets NULL */
	bool stop;
};

static int allocate(struct query *q)
{
	size_t cells = (size_t)q->columns * QUERY_ROWS;

	for (struct query_batch *b = q->batches; b < q->batches + 2; b++) {
		b->result = SQLITE_ROW;
		b->types = malloc(cells);
		b->values = malloc(cells * sizeof(*b->values));
		if (!b->types || !b->values)
			return -ENOMEM;
	}
	q->batch = q->batches;
	return 0;
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
	if (rc == SQLITE_NOMEM || (rc == SQLITE_OK && allocate(q) < 0))
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
	return query_sql(q, d, strbuf_text(&sql), e);
}

int query_open(struct query *q, struct database *d, const char *table, const char *const *columns,
	       size_t count, const char *rest, struct error *e)
{
	return query_select(q, d, &(struct query_source){ .table = table }, columns, count, rest,
			    e);
}

/* ---- batches ---- */

static void read_value(struct query_batch *b, sqlite3_value *v, size_t at)
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

static void begin_batch(struct query_batch *b)
{
	strbuf_clear(&b->texts);
	b->rows = 0;
}

static bool is_batch_full(const struct query_batch *b)
{
	return b->rows == QUERY_ROWS || b->texts.length >= BATCH_TEXT_MAX;
}

static void end_batch(const struct query *q, struct query_batch *b, int result)
{
	b->result = b->texts.failed ? SQLITE_NOMEM : result;
	b->read = q->d->read;
}

static void fill(struct query *q, struct query_batch *b)
{
	int result = SQLITE_ROW;
	size_t at = 0;

	begin_batch(b);
	while (!is_batch_full(b) && (result = sqlite3_step(q->statement)) == SQLITE_ROW) {
		for (int c = 0; c < q->columns; c++)
			read_value(b, sqlite3_column_value(q->statement, c), at++);
		b->rows++;
	}
	end_batch(q, b, result);
}

/* ---- the thread ---- */

/* Hands a batch over and waits for the next one. Returns false when no more is wanted. */
static bool hand_over(struct query_reader *r, int result)
{
	bool stop;

	pthread_mutex_lock(&r->lock);
	if (r->filling)
		end_batch(r->query, r->filling, result);
	r->filling = NULL;
	pthread_cond_broadcast(&r->changed);
	while (!r->filling && !r->stop && result == SQLITE_ROW)
		pthread_cond_wait(&r->changed, &r->lock);
	stop = r->stop;
	if (r->filling)
		begin_batch(r->filling);
	pthread_mutex_unlock(&r->lock);
	return !stop;
}

static void read_row(sqlite3_context *context, int count, sqlite3_value **values)
{
	struct query_reader *r = sqlite3_user_data(context);
	struct query_batch *b = r->filling;

	if (is_batch_full(b)) {
		if (!hand_over(r, SQLITE_ROW)) {
			sqlite3_result_error_code(context, SQLITE_ABORT);
			return;
		}
		b = r->filling;
	}
	for (int c = 0; c < count; c++)
		read_value(b, values[c], (size_t)b->rows * (size_t)count + (size_t)c);
	b->rows++;
}

static void end_rows(sqlite3_context *context)
{
	sqlite3_result_null(context);
}

static void *run_reader(void *reader)
{
	struct query_reader *r = reader;
	int result = sqlite3_step(r->statement);

	hand_over(r, result == SQLITE_ROW ? SQLITE_DONE : result);
	return NULL;
}

/* Prepares the statement of the thread. Returns false where that fails. */
static bool prepare_reader(struct query_reader *r)
{
	_cleanup_strbuf_ struct strbuf sql = STRBUF_INIT;
	const struct query *q = r->query;
	sqlite3 *db = q->d->db;

	for (int c = 0; c < q->columns; c++)
		strbuf_addf(&sql, "%sc%d", c ? ", " : "SELECT pitot_rows(", c);
	strbuf_addf(&sql, ") FROM (%s)", sqlite3_sql(q->statement));
	return !sql.failed &&
	       sqlite3_create_function(db, "pitot_rows", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, r,
				       NULL, read_row, end_rows) == SQLITE_OK &&
	       sqlite3_prepare_v2(db, strbuf_text(&sql), -1, &r->statement, NULL) == SQLITE_OK;
}

void query_read_ahead(struct query *q)
{
	struct query_reader *r = q->statement ? calloc(1, sizeof(*r)) : NULL;
	sigset_t all, before;

	if (!r)
		return;
	r->query = q;
	r->filling = q->batches;
	pthread_mutex_init(&r->lock, NULL);
	pthread_cond_init(&r->changed, NULL);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	if (prepare_reader(r) && pthread_create(&r->thread, NULL, run_reader, r) == 0) {
		q->batch = &q->batches[1];
		q->reader = r;
	} else {
		sqlite3_finalize(r->statement);
		free(r);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* Gets the next batch. The thread fills the one that was used. */
static void next_batch(struct query *q)
{
	struct query_reader *r = q->reader;
	struct query_batch *used = q->batch;

	q->row = 0;
	if (!r) {
		fill(q, q->batch);
		return;
	}
	pthread_mutex_lock(&r->lock);
	while (r->filling)
		pthread_cond_wait(&r->changed, &r->lock);
	q->batch = &q->batches[used == q->batches];
	r->filling = q->batch->result == SQLITE_ROW ? used : NULL;
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
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
	if (q->batch->result == SQLITE_ROW)
		next_batch(q);
	else
		q->batch->rows = 0;
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
	return 0;
}

void query_close(struct query *q)
{
	struct query_reader *r = q->reader;

	if (r) {
		pthread_mutex_lock(&r->lock);
		r->stop = true;
		pthread_cond_broadcast(&r->changed);
		pthread_mutex_unlock(&r->lock);
		pthread_join(r->thread, NULL);
		sqlite3_finalize(r->statement);
		free(r);
	}
	for (struct query_batch *b = q->batches; b < q->batches + 2; b++) {
		strbuf_release(&b->texts);
		free(b->types);
		free(b->values);
	}
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
