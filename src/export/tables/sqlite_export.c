/*
 * sqlite_export.c: a SQLite database. Table kernel_data has the rows of table kernel as integers,
 * texts by their number in table string; view kernel has the texts. So it is with all tables.
 *
 * SQLite writes by path, so the database is made in a folder of ours in $TMPDIR, and copied to
 * where it belongs when it is complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/io.h"
#include "base/map.h"
#include "base/output.h"
#include "export/tables/flat_table.h"

struct database_writer {
	char folder[256], path[300];
	sqlite3 *db;
	sqlite3_stmt *add_text;
	struct interner texts;
	struct flat_table *table;
	struct flat_chunk chunk;
	struct map *numbers; /* of texts: value -> number, from 1 */
};

static int fail(const struct database_writer *w, struct error *e)
{
	return error_set(e, sqlite3_errcode(w->db) == SQLITE_FULL ? -ENOSPC : -EIO,
			 "cannot write the database in '%s': %s; $TMPDIR chooses another folder",
			 w->folder, sqlite3_errmsg(w->db));
}

static int execute(struct database_writer *w, const char *sql, struct error *e)
{
	return sqlite3_exec(w->db, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : fail(w, e);
}

static int open_database(struct database_writer *w, struct error *e)
{
	static const char begin[] = "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; "
				    "PRAGMA locking_mode=EXCLUSIVE; BEGIN; "
				    "CREATE TABLE string (id INTEGER PRIMARY KEY, text TEXT)";
	const char *parent = getenv("TMPDIR");

	snprintf(w->folder, sizeof(w->folder), "%s/pitot-sqlite-XXXXXX",
		 parent && *parent ? parent : "/tmp");
	if (!mkdtemp(w->folder)) {
		int err = errno;

		*w->path = 0;
		return error_errno(e, err, "cannot create a folder '%s'", w->folder);
	}
	snprintf(w->path, sizeof(w->path), "%s/x.sqlite", w->folder);
	if (sqlite3_open_v2(w->path, &w->db,
			    SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			    NULL) != SQLITE_OK)
		return fail(w, e);
	if (execute(w, begin, e) < 0)
		return e->code;
	return sqlite3_prepare_v2(w->db, "INSERT INTO string VALUES (?, ?)", -1, &w->add_text,
				  NULL) == SQLITE_OK
		       ? 0
		       : fail(w, e);
}

static const char *type_of(const struct flat_column *c)
{
	return c->type == FLAT_F64 ? "REAL" : "INTEGER";
}

/* Creates the table and its view. */
static int create(struct database_writer *w, struct error *e)
{
	_cleanup_strbuf_ struct strbuf table = STRBUF_INIT, view = STRBUF_INIT;
	const struct flat_table *f = w->table;

	strbuf_addf(&table, "CREATE TABLE \"%s_data\" (", f->schema->name);
	strbuf_addf(&view, "CREATE VIEW \"%s\" AS SELECT ", f->schema->name);
	for (size_t i = 0; i < f->columns.count; i++) {
		const struct flat_column *c = &f->columns.data[i];

		strbuf_addf(&table, "%s\"%s\" %s", i ? ", " : "", c->name, type_of(c));
		strbuf_addf(&view,
			    c->type == FLAT_TEXT
				    ? "%s(SELECT text FROM string WHERE id = d.\"%s\") AS \"%s\""
				    : "%sd.\"%s\" AS \"%s\"",
			    i ? ", " : "", c->name, c->name);
	}
	strbuf_addf(&table, "); %s FROM \"%s_data\" d", strbuf_text(&view), f->schema->name);
	return table.failed || view.failed ? error_set(e, -ENOMEM, "out of memory")
					   : execute(w, strbuf_text(&table), e);
}

/* The number of a text in table string, to which a new one is added; 0: an error. */
static uint64_t number_of(struct database_writer *w, size_t column, uint64_t value)
{
	_cleanup_strbuf_ struct strbuf room = STRBUF_INIT, text = STRBUF_INIT;
	uint64_t *number = map_at(&w->numbers[column], value, 0);
	const char *bytes;
	size_t length;
	int64_t item;
	bool is_new;

	if (!number || *number)
		return number ? *number : 0;
	bytes = flat_text(w->table, &w->table->columns.data[column], value, &room, &length);
	strbuf_add_utf8(&text, bytes, length);
	item = interner_add(&w->texts, strbuf_text(&text), text.length, &is_new);
	if (item < 0 || text.failed)
		return 0;
	*number = (uint64_t)item + 1;
	if (!is_new)
		return *number;
	sqlite3_bind_int64(w->add_text, 1, item + 1);
	sqlite3_bind_text(w->add_text, 2, strbuf_text(&text), (int)text.length, SQLITE_STATIC);
	return sqlite3_step(w->add_text) == SQLITE_DONE && sqlite3_reset(w->add_text) == SQLITE_OK
		       ? *number
		       : 0;
}

static int bind(struct database_writer *w, sqlite3_stmt *s, size_t column, size_t row)
{
	const struct flat_column *c = &w->table->columns.data[column];
	uint64_t value = w->chunk.values[column][row];
	double real;

	if (!w->chunk.valid[column][row])
		return sqlite3_bind_null(s, (int)column + 1);
	if (c->type == FLAT_F64) {
		memcpy(&real, &value, sizeof(real));
		return sqlite3_bind_double(s, (int)column + 1, real);
	}
	if (c->type == FLAT_TEXT)
		value = number_of(w, column, value);
	if (c->type == FLAT_TEXT && !value)
		return SQLITE_NOMEM;
	return sqlite3_bind_int64(s, (int)column + 1, (int64_t)value);
}

static int insert_rows(struct database_writer *w, sqlite3_stmt *s, size_t count, struct error *e)
{
	for (size_t row = 0; row < count; row++) {
		int rc = SQLITE_OK;

		for (size_t i = 0; i < w->table->columns.count && rc == SQLITE_OK; i++)
			rc = bind(w, s, i, row);
		if (rc != SQLITE_OK || sqlite3_step(s) != SQLITE_DONE ||
		    sqlite3_reset(s) != SQLITE_OK)
			return fail(w, e);
	}
	return 0;
}

static int insert_table(struct database_writer *w, sqlite3_stmt *s, struct error *e)
{
	int rc;

	while ((rc = flat_chunk_next(&w->chunk, w->table)) > 0)
		if (insert_rows(w, s, w->chunk.rows.count, e) < 0)
			return e->code;
	return rc;
}

static int allocate(struct database_writer *w, struct error *e)
{
	w->numbers = calloc(w->table->columns.count, sizeof(*w->numbers));
	return w->numbers ? flat_chunk_init(&w->chunk, w->table, e)
			  : error_set(e, -ENOMEM, "out of memory");
}

static void release_table(struct database_writer *w)
{
	for (size_t i = 0; i < w->table->columns.count && w->numbers; i++)
		map_release(&w->numbers[i]);
	free(w->numbers);
	flat_chunk_release(&w->chunk);
	w->numbers = NULL;
	w->chunk = (struct flat_chunk){ 0 };
}

static int write_table(struct database_writer *w, struct error *e)
{
	_cleanup_strbuf_ struct strbuf sql = STRBUF_INIT;
	sqlite3_stmt *s = NULL;
	int rc = allocate(w, e);

	if (rc >= 0)
		rc = create(w, e);
	strbuf_addf(&sql, "INSERT INTO \"%s_data\" VALUES (?", w->table->schema->name);
	for (size_t i = 1; i < w->table->columns.count; i++)
		strbuf_adds(&sql, ", ?");
	strbuf_adds(&sql, ")");
	if (rc >= 0 && sqlite3_prepare_v2(w->db, strbuf_text(&sql), -1, &s, NULL) != SQLITE_OK)
		rc = fail(w, e);
	if (rc >= 0)
		rc = insert_table(w, s, e);
	sqlite3_finalize(s);
	release_table(w);
	return rc;
}

static int write_tables(struct database_writer *w, struct trace *t,
			const struct export_options *options, struct export_result *result,
			struct error *e)
{
	int rc = open_database(w, e);

	for (uint32_t id = 1; id <= TABLE_MAX && rc >= 0; id++) {
		struct flat_table f;

		w->table = &f;
		rc = flat_table_init(&f, t, options, result, (enum table_id)id, e);
		if (rc > 0) {
			rc = write_table(w, e);
			result->written[id] = f.rows;
		}
		flat_table_release(&f);
	}
	return rc < 0 ? rc : execute(w, "COMMIT", e);
}

/* Copies the database to the path, which it gets when it is complete. */
static int copy(const struct database_writer *w, const struct export_options *options,
		const char *path, struct export_result *result, struct error *e)
{
	char buffer[1 << 14];
	struct output *output = output_open(path, options->overwrite, e);
	int fd = open(w->path, O_RDONLY | O_CLOEXEC), rc = output ? 0 : e->code;
	ssize_t n = 1;

	if (output && fd < 0)
		rc = error_errno(e, errno, "cannot read '%s'", w->path);
	while (rc >= 0 && n > 0) {
		n = read(fd, buffer, sizeof(buffer));
		if (n < 0)
			rc = error_errno(e, errno, "cannot read '%s'", w->path);
		else
			output_write(output, buffer, (size_t)n);
	}
	if (rc >= 0)
		rc = output_commit(&output, &result->bytes, e);
	output_abort(&output);
	fd_close(&fd);
	return rc;
}

int sqlite_write(struct trace *t, const struct export_options *options, const char *path,
		 struct export_result *result, struct error *e)
{
	struct database_writer w = { 0 };
	int rc = flat_check_options(options, "sqlite", e);

	*result = (struct export_result){ .files = 1 };
	interner_init(&w.texts);
	if (rc >= 0)
		rc = write_tables(&w, t, options, result, e);
	sqlite3_finalize(w.add_text);
	sqlite3_close(w.db);
	if (rc >= 0)
		rc = export_result_events(result) ? copy(&w, options, path, result, e) : -ENODATA;
	if (*w.path) {
		unlink(w.path);
		rmdir(w.folder);
	}
	interner_release(&w.texts);
	return rc;
}
