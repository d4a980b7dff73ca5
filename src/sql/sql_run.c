#include "sql/sql.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "sql/duckdb/duck_engine.h"
#include "sql/sql_error.h"
#include "sql/sql_functions.h"
#include "sql/sql_summary.h"
#include "sql/sql_table.h"
#include "sql/sql_watch.h"

#define STEPS 10000 /* of SQLite's machine, between two looks at the limits */
#define TEXT_MAX (256 << 20) /* bytes of a text or a row, such as a report of 400,000 kernels */
#define SORT_KIB "262144" /* of rows that are sorted in memory; more goes to temporary files */

struct sql_statement {
	struct sql *sql;
	sqlite3_stmt *sqlite; /* or: */
	struct duck_statement *duck;
};

bool sql_stopped(struct sql *s)
{
	if (s->large || (s->options.cancel && *s->options.cancel))
		return true;
	s->late |= s->deadline_ns && clock_monotonic_ns() > s->deadline_ns;
	return s->late;
}

static int on_progress(void *sql)
{
	return sql_stopped(sql);
}

int sql_declare(struct sql *s, const char *text)
{
	int rc;

	s->declaring = true;
	rc = sqlite3_declare_vtab(s->db, text);
	s->declaring = false;
	return rc;
}

/* Statements may read. Functions are those of SQLite and ours, none of which opens a file. */
static int authorize(void *user, int action, const char *first, const char *second,
		     const char *database, const char *trigger)
{
	const struct sql *s = user;

	(void)first, (void)database, (void)trigger;
	if (s->declaring)
		return SQLITE_OK;
	switch (action) {
	case SQLITE_SELECT:
	case SQLITE_READ:
	case SQLITE_RECURSIVE:
		return SQLITE_OK;
	case SQLITE_FUNCTION:
		return sqlite3_stricmp(second, "load_extension") ? SQLITE_OK : SQLITE_DENY;
	default:
		return SQLITE_DENY;
	}
}

void sql_set_limits(struct sql *s, uint64_t timeout_ns, uint64_t memory_bytes)
{
	s->options.timeout_ns = timeout_ns;
	s->options.memory_bytes = memory_bytes;
	/* The limit is one of the process. */
	sqlite3_hard_heap_limit64((sqlite3_int64)MIN(memory_bytes, INT64_MAX));
}

static int open_database(struct sql *s, struct error *e)
{
	static const char settings[] = "PRAGMA temp_store=FILE; PRAGMA cache_size=-" SORT_KIB;
	int rc;

	sql_set_limits(s, s->options.timeout_ns, s->options.memory_bytes);
	rc = sqlite3_open_v2(":memory:", &s->db,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			     NULL);
	if (rc == SQLITE_OK)
		rc = sqlite3_exec(s->db, settings, NULL, NULL, NULL);
	if (rc == SQLITE_OK)
		rc = sql_functions_add(s->db, &s->texts);
	if (rc != SQLITE_OK)
		return error_set(e, -ENOMEM, "cannot open a database in memory: %s",
				 sqlite3_errstr(rc));
	sqlite3_limit(s->db, SQLITE_LIMIT_LENGTH, TEXT_MAX);
	sqlite3_limit(s->db, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_db_config(s->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_progress_handler(s->db, STEPS, on_progress, s);
	return 0;
}

static int copy_recordings(struct sql *s, const struct sql_recording *recordings, size_t count)
{
	s->recordings = calloc(count, sizeof(*s->recordings));
	s->callers = calloc(count, sizeof(*s->callers));
	if (!s->recordings || !s->callers)
		return -ENOMEM;
	for (; s->count < count; s->count++) {
		struct sql_recording *r = &s->recordings[s->count];

		*r = (struct sql_recording){ .name = strdup(recordings[s->count].name),
					     .path = strdup(recordings[s->count].path),
					     .trace = recordings[s->count].trace };
		if (!r->name || !r->path) {
			free((char *)r->name);
			free((char *)r->path);
			return -ENOMEM;
		}
	}
	return 0;
}

int sql_open(const struct sql_recording *recordings, size_t count,
	     const struct sql_options *options, struct sql **out, struct error *e)
{
	struct sql *s = calloc(1, sizeof(*s));
	int rc = 0;

	if (!s)
		return error_set(e, -ENOMEM, "out of memory");
	s->options = *options;
	interner_init(&s->texts);
	if (count > SQL_RECORDINGS_MAX)
		rc = error_set(e, E_USAGE, "at most %u recordings", SQL_RECORDINGS_MAX);
	else if (copy_recordings(s, recordings, count) < 0)
		rc = error_set(e, -ENOMEM, "out of memory");
	if (rc >= 0)
		rc = open_database(s, e);
	for (uint32_t id = 1; id <= TABLE_MAX && rc >= 0; id++)
		if (id != TABLE_string)
			rc = sql_table_add(s, (enum table_id)id, e);
	if (rc >= 0)
		rc = sql_summaries_add(s, e);
	if (rc >= 0)
		sqlite3_set_authorizer(s->db, authorize, s);
	if (rc >= 0 && options->engine == SQL_DUCKDB)
		rc = duck_open(s, &s->duck, e);
	if (rc >= 0)
		rc = sql_watch_start(s, e);
	if (rc < 0)
		sql_free(s);
	else
		*out = s;
	return rc;
}

void sql_free(struct sql *s)
{
	if (!s)
		return;
	sql_watch_stop(s);
	duck_close(s->duck);
	sqlite3_close_v2(s->db); /* disconnects the tables */
	sql_summaries_free(s);
	for (size_t i = 0; i < s->count; i++) {
		free((char *)s->recordings[i].name);
		free((char *)s->recordings[i].path);
		if (s->callers[i])
			callers_release(s->callers[i]);
		free(s->callers[i]);
	}
	free(s->recordings);
	free(s->callers);
	interner_release(&s->texts);
	free(s);
}

int sql_stop_error(const struct sql *s, struct error *e)
{
	if (s->large)
		return sql_memory_error(s, e);
	if (!s->late)
		return error_set(e, -ECANCELED, "the statement was interrupted");
	return error_set(e, -ETIMEDOUT, "the statement took longer than its time: %s gives it more",
			 s->options.timeout_name ?: "--timeout");
}

int sql_memory_error(const struct sql *s, struct error *e)
{
	return error_set(e, -ENOMEM,
			 "the statement needs more memory than it may: %s gives it more",
			 s->options.memory_name ?: "--memory-limit");
}

static int failed(struct sql *s, int result, struct error *e)
{
	if (s->error.code) {
		if (e)
			*e = s->error;
		return s->error.code;
	}
	switch (result) {
	case SQLITE_INTERRUPT:
		return sql_stop_error(s, e);
	case SQLITE_NOMEM:
		return sql_memory_error(s, e);
	case SQLITE_TOOBIG:
		return error_set(e, E_LIMIT, "a text or a row is longer than %d MiB",
				 TEXT_MAX >> 20);
	default:
		return error_set(e, E_USAGE, "%s", sqlite3_errmsg(s->db));
	}
}

static int prepare_sqlite(struct sql *s, const char *text, sqlite3_stmt **out, const char **rest,
			  struct error *e)
{
	int rc;

	/* Comments and empty statements compile to none. */
	do {
		rc = sqlite3_prepare_v2(s->db, text, -1, out, rest);
		if (rc != SQLITE_OK)
			return rc == SQLITE_ERROR || rc == SQLITE_AUTH
				       ? s->error.code ? failed(s, rc, e) : sql_error(s, text, e)
				       : failed(s, rc, e);
		text = *rest;
	} while (!*out && *text);
	return *out != NULL;
}

static void set_deadline(struct sql *s)
{
	s->late = s->large = false;
	s->deadline_ns = s->options.timeout_ns ? clock_monotonic_ns() + s->options.timeout_ns : 0;
}

int sql_prepare(struct sql *s, const char *text, struct sql_statement **statement,
		const char **rest, struct error *e)
{
	struct sql_statement *t = calloc(1, sizeof(*t));
	int rc;

	*statement = NULL;
	if (!t)
		return error_set(e, -ENOMEM, "out of memory");
	t->sql = s;
	s->error.code = 0;
	set_deadline(s);
	sql_watch_begin(s);
	sql_watch_call(s);
	rc = s->duck ? duck_prepare(s->duck, text, &t->duck, rest, e)
		     : prepare_sqlite(s, text, &t->sqlite, rest, e);
	sql_watch_call(s);
	if (rc > 0) {
		set_deadline(s);
		*statement = t;
	} else {
		sql_finalize(t);
	}
	return rc;
}

int sql_next(struct sql_statement *t, struct error *e)
{
	int rc;

	sql_watch_call(t->sql);
	rc = t->duck ? duck_next(t->duck, e) : sqlite3_step(t->sqlite);
	sql_watch_call(t->sql);
	if (t->duck)
		return rc;
	return rc == SQLITE_ROW ? 1 : rc == SQLITE_DONE ? 0 : failed(t->sql, rc, e);
}

void sql_finalize(struct sql_statement *t)
{
	if (!t)
		return;
	sql_watch_call(t->sql);
	sqlite3_finalize(t->sqlite);
	duck_finalize(t->duck);
	sql_watch_call(t->sql);
	sql_watch_end(t->sql);
	free(t);
}

size_t sql_column_count(const struct sql_statement *t)
{
	return t->duck ? duck_column_count(t->duck) : (size_t)sqlite3_column_count(t->sqlite);
}

const char *sql_column_name(const struct sql_statement *t, size_t column)
{
	return t->duck ? duck_column_name(t->duck, column)
		       : sqlite3_column_name(t->sqlite, (int)column) ?: "";
}

bool sql_column_is_text(const struct sql_statement *t, size_t column)
{
	const char *declared;

	if (t->duck)
		return duck_column_is_text(t->duck, column);
	declared = sqlite3_column_decltype(t->sqlite, (int)column);
	return declared && !strcmp(declared, "TEXT");
}

struct sql_value sql_value(struct sql_statement *t, size_t column)
{
	int number = (int)column;
	struct sql_value v = { .type = SQL_MISSING };

	if (t->duck)
		return duck_value(t->duck, column);
	switch (sqlite3_column_type(t->sqlite, number)) {
	case SQLITE_INTEGER:
		v.type = SQL_INTEGER;
		v.integer = sqlite3_column_int64(t->sqlite, number);
		break;
	case SQLITE_FLOAT:
		v.type = SQL_REAL;
		v.real = sqlite3_column_double(t->sqlite, number);
		break;
	case SQLITE_NULL:
		break;
	default:
		v.type = SQL_TEXT;
		v.text = (const char *)sqlite3_column_text(t->sqlite, number) ?: "";
		v.length = (size_t)sqlite3_column_bytes(t->sqlite, number);
	}
	return v;
}
