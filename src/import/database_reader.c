/*
 * database_reader.c: threads that read a table's rows ahead while they are converted, because
 * reading takes twice as long. A thread selects an aggregate function of ours, to which SQLite
 * passes all values of a row at once: stepping from row to row and asking for each value takes 40 %
 * more time.
 *
 * Two threads read a large table, each with its own connection: by turns ranges of as many rowids
 * as a batch has rows. Batches are used by turns, too, so that rows come as one thread finds them.
 */
#include <pthread.h>
#include <signal.h>
#include <string.h>

#include "base/compiler.h"
#include "import/database.h"

#define READERS 2u
#define BATCHES 16u /* of a reader, so that threads rarely wait: with 3 it takes 40 % longer */
#define ROWS_MIN (UINT64_C(16) * QUERY_ROWS) /* for which two readers start */

struct query_reader {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct query *query;
	sqlite3 *connection; /* its own; NULL: that of the database */
	sqlite3_stmt *statement; /* selects pitot_rows() */
	struct query_batch batches[BATCHES];
	uint64_t filled, released; /* batches so far */
	bool started, stop;
	/* Ranges of rowids, of which each reader has every second one; rows 0: the whole table. */
	int64_t first;
	uint64_t rows, from;
};

/* Hands a batch over and waits for the next one. Returns false when no more is wanted. */
static bool hand_over(struct query_reader *r, int result)
{
	bool stop;

	query_batch_end(r->query, &r->batches[r->filled % BATCHES], result);
	pthread_mutex_lock(&r->lock);
	r->filled++;
	pthread_cond_broadcast(&r->changed);
	while (r->filled - r->released == BATCHES && !r->stop && result == SQLITE_ROW)
		pthread_cond_wait(&r->changed, &r->lock);
	stop = r->stop;
	pthread_mutex_unlock(&r->lock);
	if (!stop && result == SQLITE_ROW)
		query_batch_begin(&r->batches[r->filled % BATCHES]);
	return !stop;
}

static void read_row(sqlite3_context *context, int count, sqlite3_value **values)
{
	struct query_reader *r = sqlite3_user_data(context);
	struct query_batch *b = &r->batches[r->filled % BATCHES];

	if (query_batch_is_full(b)) {
		b->goes_on = true;
		if (!hand_over(r, SQLITE_ROW)) {
			sqlite3_result_error_code(context, SQLITE_ABORT);
			return;
		}
		b = &r->batches[r->filled % BATCHES];
	}
	for (int c = 0; c < count; c++)
		query_batch_value(b, values[c], (size_t)b->rows * (size_t)count + (size_t)c);
	b->rows++;
}

static void end_rows(sqlite3_context *context)
{
	sqlite3_result_null(context);
}

static void *run_reader(void *reader)
{
	struct query_reader *r = reader;
	int result = SQLITE_ROW;
	bool wanted = true;

	if (!r->rows)
		result = sqlite3_step(r->statement);
	for (uint64_t at = r->from; at < r->rows && wanted; at += READERS * QUERY_ROWS) {
		uint64_t end = MIN(at + QUERY_ROWS, r->rows) - 1;

		sqlite3_reset(r->statement);
		sqlite3_bind_int64(r->statement, 1, r->first + (int64_t)at);
		sqlite3_bind_int64(r->statement, 2, r->first + (int64_t)end);
		result = sqlite3_step(r->statement);
		if (result != SQLITE_ROW)
			break;
		wanted = hand_over(r, SQLITE_ROW);
	}
	if (wanted)
		hand_over(r, result == SQLITE_ROW ? SQLITE_DONE : result);
	return NULL;
}

/* Finds the range of a table's rowids; 0 rows if it has none, or more than there can be rows. */
static uint64_t find_rows(const struct query *q, int64_t *first)
{
	_cleanup_strbuf_ struct strbuf sql = STRBUF_INIT;
	int64_t last, rows = 0;
	struct query range;

	if (!q->table)
		return 0;
	strbuf_addf(&sql, "SELECT (SELECT min(rowid) FROM \"%s\"), (SELECT max(rowid) FROM \"%s\")",
		    q->table, q->table);
	if (query_sql(&range, q->d, strbuf_text(&sql), NULL) >= 0 && query_next(&range) > 0 &&
	    query_value(&range, 0, first) == QUERY_INTEGER &&
	    query_value(&range, 1, &last) == QUERY_INTEGER &&
	    (__builtin_sub_overflow(last, *first, &rows) || rows < 0 ||
	     (uint64_t)rows >= q->d->size || (uint64_t)rows < ROWS_MIN))
		rows = -1;
	query_close(&range);
	return rows > 0 ? (uint64_t)rows + 1 : 0;
}

/* Prepares the statement of a reader. Returns false where that fails. */
static bool prepare(struct query_reader *r)
{
	_cleanup_strbuf_ struct strbuf sql = STRBUF_INIT;
	const struct query *q = r->query;
	sqlite3 *db = q->d->db;

	for (size_t i = 0; i < BATCHES; i++)
		if (query_batch_init(&r->batches[i], q->columns) < 0)
			return false;
	if (r->from && database_connect(q->d, &r->connection) != SQLITE_OK)
		return false;
	db = r->connection ? r->connection : db;
	for (int c = 0; c < q->columns; c++)
		strbuf_addf(&sql, "%sc%d", c ? ", " : "SELECT pitot_rows(", c);
	strbuf_addf(&sql, ") FROM (%s%s)", sqlite3_sql(q->statement),
		    r->rows ? " WHERE a.rowid BETWEEN ?1 AND ?2" : "");
	return !sql.failed &&
	       sqlite3_create_function(db, "pitot_rows", -1, SQLITE_UTF8 | SQLITE_DIRECTONLY, r,
				       NULL, read_row, end_rows) == SQLITE_OK &&
	       sqlite3_prepare_v2(db, strbuf_text(&sql), -1, &r->statement, NULL) == SQLITE_OK;
}

void query_read_ahead(struct query *q)
{
	int64_t first = 0;
	uint64_t rows = q->statement ? find_rows(q, &first) : 0;
	sigset_t all, before;
	bool good = true;

	q->readers = q->statement ? calloc(READERS, sizeof(*q->readers)) : NULL;
	if (!q->readers)
		return;
	q->reader_count = rows ? READERS : 1;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (unsigned i = 0; i < q->reader_count && good; i++) {
		struct query_reader *r = &q->readers[i];

		*r = (struct query_reader){
			.query = q, .first = first, .rows = rows, .from = i * QUERY_ROWS
		};
		pthread_mutex_init(&r->lock, NULL);
		pthread_cond_init(&r->changed, NULL);
		good = prepare(r) && pthread_create(&r->thread, NULL, run_reader, r) == 0;
		r->started = good;
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (good)
		q->expected = rows;
	else
		query_readers_stop(q); /* the rows are read by this thread then */
}

void query_readers_next(struct query *q)
{
	struct query_reader *r = &q->readers[q->turn];

	if (q->batch != &q->own) {
		pthread_mutex_lock(&r->lock);
		r->released++;
		pthread_cond_broadcast(&r->changed);
		pthread_mutex_unlock(&r->lock);
		if (!q->batch->goes_on)
			q->turn = (q->turn + 1) % q->reader_count;
		r = &q->readers[q->turn];
	}
	pthread_mutex_lock(&r->lock);
	while (r->filled == r->released)
		pthread_cond_wait(&r->changed, &r->lock);
	q->batch = &r->batches[r->released % BATCHES];
	pthread_mutex_unlock(&r->lock);
}

void query_readers_stop(struct query *q)
{
	for (unsigned i = 0; i < q->reader_count; i++) {
		struct query_reader *r = &q->readers[i];

		if (r->started) {
			pthread_mutex_lock(&r->lock);
			r->stop = true;
			pthread_cond_broadcast(&r->changed);
			pthread_mutex_unlock(&r->lock);
			pthread_join(r->thread, NULL);
		}
		for (size_t b = 0; b < BATCHES; b++)
			query_batch_release(&r->batches[b]);
		sqlite3_finalize(r->statement);
		sqlite3_close(r->connection);
	}
	free(q->readers);
	q->readers = NULL;
	q->reader_count = 0;
	q->batch = &q->own;
}
