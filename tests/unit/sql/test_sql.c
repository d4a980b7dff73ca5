/*
 * Conditions, groups and lookups of virtual tables, against those of SQLite itself: it hands no
 * condition and no order of +column over.
 */
#include "sql/sql_source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/strbuf.h"
#include "base/vec.h"
#include "support/big_recording.h"
#include "support/cmocka_tests.h"
#include "support/make_recording.h"
#include "support/temp_folder.h"

#define KERNELS 300

static char *folder;
static char paths[2][64];
static struct sql_recording recordings[2];

/* Kernels that lack values, two processes, equal times, texts that are prefixes of others. */
static void write_small(const char *path, uint32_t pid)
{
	static const char *const names[] = { "a", "ab", "A", "_Z4gemmPf", "bad\xff", "" };
	struct maker *m = maker_begin(path, pid, 1000, "./app");
	uint32_t configs[ARRAY_SIZE(names)];

	maker_device(m, 0, 1000);
	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++)
		configs[i] = maker_config(m, names[i], 4 + i, 128);
	for (uint32_t i = 0; i < KERNELS; i++) {
		struct row_kernel row = { .start_ns = 2000 + i / 3,
					  .end_ns = 2010 + i,
					  .config = configs[i % ARRAY_SIZE(names)],
					  .correlation = i % 50 ? UINT64_MAX - i : i,
					  .context = 1,
					  .stream = i % 4 };

		ROW_MISSING_IF(&row, kernel, start_ns, i < 5);
		ROW_MISSING_IF(&row, kernel, end_ns, i < 5 || i % 9 == 0);
		ROW_MISSING_IF(&row, kernel, channel, i % 7 == 0);
		row.channel = i * UINT32_C(2654435761);
		ROW_MISSING_IF(&row, kernel, graph_node, i % 3 > 0);
		row.graph_node = i % 6 ? UINT64_C(1) << 63 : 0;
		ROW_MISSING_IF(&row, kernel, channel_type, i % 5 == 0);
		row.channel_type = i % 5;
		writer_append(m->writer, TABLE_kernel, &row);
	}
	maker_close(m, 9000);
}

static int setup(void **state)
{
	(void)state;
	folder = temp_folder_make();
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		snprintf(paths[i], sizeof(paths[i]), "%s/%zu.pitot", folder, i);
	mkdir(paths[0], 0700);
	write_small(paths[0], 100);
	write_small(paths[0], 101);
	assert_int_equal(big_recording_make(paths[1], 400, 1, BIG_COPIES, 1), 0);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		recordings[i] =
			(struct sql_recording){ .name = i ? "big" : "small", .path = paths[i] };
		assert_int_equal(trace_open(paths[i], NULL, &recordings[i].trace, NULL), 0);
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		trace_free(recordings[i].trace);
	temp_folder_remove(folder);
	return 0;
}

static struct sql *open_some(size_t first, size_t count)
{
	struct sql_options options = { .memory_bytes = SQL_MEMORY_BYTES };
	struct sql *s = NULL;
	struct error e = { 0 };

	if (sql_open(&recordings[first], count, &options, &s, &e) < 0)
		fail_msg("%s", e.text);
	return s;
}

static void add_value(struct strbuf *out, struct sql_value v)
{
	if (v.type == SQL_TEXT)
		strbuf_add(out, v.text, v.length);
	else if (v.type == SQL_INTEGER)
		strbuf_addf(out, "%lld", (long long)v.integer);
	else if (v.type == SQL_REAL)
		strbuf_addf(out, "%.15g", v.real);
	else
		strbuf_adds(out, "NULL");
}

/* All rows of a statement as text. */
static void ask(struct sql *s, const char *text, struct strbuf *out)
{
	struct error e = { 0 };
	struct sql_statement *statement = NULL;
	const char *rest;
	int rc = sql_prepare(s, text, &statement, &rest, &e);

	strbuf_clear(out);
	while (rc > 0 && (rc = sql_next(statement, &e)) > 0)
		for (size_t i = 0; i < sql_column_count(statement); i++) {
			add_value(out, sql_value(statement, i));
			strbuf_addc(out, i + 1 < sql_column_count(statement) ? '|' : '\n');
		}
	sql_finalize(statement);
	if (rc < 0)
		fail_msg("%s: %s", text, e.text);
}

static void ask_both(struct sql *s, const char *fast, const char *slow)
{
	_cleanup_strbuf_ struct strbuf found = STRBUF_INIT, expected = STRBUF_INIT;

	ask(s, fast, &found);
	ask(s, slow, &expected);
	if (strcmp(strbuf_text(&found), strbuf_text(&expected)) != 0)
		fail_msg("%s:\n%s%s:\n%s", fast, strbuf_text(&found), slow, strbuf_text(&expected));
}

struct columns {
	VEC(char *) names;
	bool texts[128];
};

static void add_column(void *user, const struct sql_item *item)
{
	struct columns *c = user;

	c->texts[c->names.count] = !strcmp(item->type, "TEXT");
	assert_int_equal(vec_push(&c->names, strdup(item->name)), 0);
}

static struct columns columns_of(struct sql *s, const char *table)
{
	struct columns c = { .names = VEC_INIT };

	assert_true(sql_columns(s, table, add_column, &c, NULL) >= 0);
	return c;
}

static void release(struct columns *c)
{
	for (size_t i = 0; i < c->names.count; i++)
		free(c->names.data[i]);
	vec_release(&c->names);
}

/* Writes a statement: ~ is the + that hides a column from the table, or nothing. */
static void fill(struct strbuf *out, const char *form, bool hidden, const char *table,
		 const char *column, const char *value)
{
	strbuf_clear(out);
	for (; *form; form++)
		if (*form == '#')
			strbuf_addf(out, "\"%s\"", table);
		else if (*form == '$')
			strbuf_addf(out, "\"%s\"", column);
		else if (*form == '?')
			strbuf_adds(out, value);
		else if (*form != '~')
			strbuf_addc(out, *form);
		else if (hidden)
			strbuf_addc(out, '+');
}

static void compare(struct sql *s, const char *form, const char *table, const char *column,
		    const char *value)
{
	_cleanup_strbuf_ struct strbuf fast = STRBUF_INIT, slow = STRBUF_INIT;

	fill(&fast, form, false, table, column, value);
	fill(&slow, form, true, table, column, value);
	ask_both(s, strbuf_text(&fast), strbuf_text(&slow));
}

/*
 * Conditions; see fill(). +column has no affinity, so values are of its type, or compare as
 * another.
 */
static const char *const number_conditions[] = {
	"~$ = ?",          "~$ < ?",
	"~$ <= ?",         "~$ > ?",
	"~$ >= ?",         "~$ <> ?",
	"~$ IS NULL",      "~$ IS NOT NULL",
	"~$ = NULL",       "~$ > ? + 0.5",
	"~$ < ?-.5",       "~$ >= ? + .5",
	"~$ <= ? - 0.5",   "~$ = ? + 0.5",
	"~$ < 9e300",      "~$ > -1e9",
	"~$ IN (?, 7, 5)", "~$ = ? OR 0",
	"~$ IS ?",         "~$ > 'x'",
	"~$ = 0 / 0.0",    "~$ BETWEEN ? AND ? + 3",
};
static const char *const text_conditions[] = {
	"~$ = ?",
	"~$ < ?",
	"~$ <= ?",
	"~$ > ?",
	"~$ >= ?",
	"~$ <> ?",
	"~$ IS NULL",
	"~$ LIKE ?",
	"~$ GLOB ?",
	"~$ LIKE '%a%'",
	"~$ NOT LIKE '%B'",
	"~$ GLOB '*[bf]*'",
	"~$ = upper(?) COLLATE NOCASE",
	"~$ IN (?, 'ab')",
	"~$ LIKE NULL",
	"~$ LIKE 5",
	"~$ = 'none'",
};

static void compare_column(struct sql *s, const char *table, const char *column, bool is_text)
{
	const char *const *conditions = is_text ? text_conditions : number_conditions;
	size_t count = is_text ? ARRAY_SIZE(text_conditions) : ARRAY_SIZE(number_conditions);

	for (int percent = 0; percent <= 100; percent += 50) {
		_cleanup_strbuf_ struct strbuf value = STRBUF_INIT;
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
		char rank[8];

		snprintf(rank, sizeof(rank), "%d", percent);
		fill(&text,
		     "SELECT ifnull((SELECT quote(v) FROM (SELECT ~$ AS v, percent_rank() OVER "
		     "(ORDER BY ~$) AS p FROM # WHERE ~$ IS NOT NULL) WHERE p >= ? / 100.0 "
		     "ORDER BY p LIMIT 1), quote((SELECT max(~$) FROM #)))",
		     true, table, column, rank);
		ask(s, strbuf_text(&text), &value);
		value.data[value.length - 1] = 0;
		for (size_t i = 0; i < count; i++) {
			strbuf_clear(&text);
			strbuf_addf(&text,
				    "SELECT count(*), min(rowid), max(rowid), sum(rowid) "
				    "FROM # WHERE %s",
				    conditions[i]);
			compare(s, strbuf_text(&text), table, column, value.data);
		}
	}
}

static const char *const some_tables[] = { "kernel", "api_call", "kernel_config",
					   "memcpy", "process",  "device" };

static void test_conditions(void **state)
{
	(void)state;
	for (size_t first = 0; first < 2; first++) {
		struct sql *s = open_some(first, 2 - first);

		for (size_t t = 0; t < ARRAY_SIZE(some_tables); t++) {
			struct columns c = columns_of(s, some_tables[t]);

			for (size_t i = 0; i < c.names.count; i++)
				compare_column(s, some_tables[t], c.names.data[i], c.texts[i]);
			release(&c);
		}
		sql_free(s);
	}
}

/* Groups and orders of each column; of several recordings and processes, too. */
static void test_orders(void **state)
{
	static const char *const forms[] = {
		"SELECT ~$, count(*), sum(rowid) FROM # GROUP BY ~$ ORDER BY 1",
		"SELECT ~$, count(*) FROM # GROUP BY ~$ ORDER BY 1 DESC",
		"SELECT DISTINCT ~$ FROM # ORDER BY 1",
		"SELECT ~$, count(*) FROM # WHERE rowid > 10 GROUP BY ~$ ORDER BY 1",
		"SELECT group_concat(rowid) FROM (SELECT rowid FROM # ORDER BY ~$, rowid)",
		"SELECT ~$, count(*) FROM # WHERE device = 0 GROUP BY ~$ ORDER BY 1",
	};

	(void)state;
	for (size_t first = 0; first < 3; first++) {
		struct sql *s = open_some(first == 2, first == 1 ? 2 : 1);

		for (size_t t = 0; t < 2 + (first == 2); t++) {
			const char *table = t == 1 ? "kernel_config" : t ? "memcpy" : "kernel";
			struct columns c = columns_of(s, table);

			for (size_t i = 0; i < c.names.count; i++)
				/* Configurations have no device. */
				for (size_t f = 0; f < ARRAY_SIZE(forms) - (t == 1); f++)
					compare(s, forms[f], table, c.names.data[i], "");
			release(&c);
		}
		sql_free(s);
	}
}

/* Lookups by value: the first ones scan, then there is an index. */
static void test_lookups(void **state)
{
	static const char *const joins[] = {
		"SELECT count(*), sum(a.rowid * b.rowid) FROM kernel a CROSS JOIN kernel b ON ~b.$ "
		"= ~a.$",
		"SELECT count(b.rowid), count(*) FROM kernel a LEFT JOIN kernel b ON ~b.$ = ~a.$ "
		"AND b.stream = 1",
		"SELECT count(*) FROM kernel b WHERE ~b.$ IN (SELECT ~a.$ FROM kernel a WHERE "
		"a.rowid % 97 = 0)",
	};
	static const char *const columns[] = { "correlation", "channel",    "stream",
					       "config_name", "graph_node", "channel_type",
					       "rowid",       "config",     "end_ns",
					       "start_ns",    "pid" };

	(void)state;
	for (size_t first = 0; first < 2; first++) {
		struct sql *s = open_some(first, 1);

		for (size_t i = 0; i < ARRAY_SIZE(columns); i++)
			for (size_t j = 0; j < ARRAY_SIZE(joins); j++)
				compare(s, joins[j], "kernel", columns[i], "");
		ask_both(
			s, "SELECT count(*) FROM kernel k JOIN kernel_config c ON c.row = k.config",
			"SELECT count(*) FROM kernel k JOIN kernel_config c ON +c.row = +k.config");
		sql_free(s);
	}
}

/* SQLite gets a few rows only: what it is told to read is what it needs. */
static void test_what_is_scanned(void **state)
{
	static const struct {
		const char *statement;
		int64_t steps; /* of SQLite's machine, at most */
	} cases[] = {
		{ "SELECT count(*) FROM kernel WHERE start_ns < (SELECT min(start_ns) + 3 FROM "
		  "kernel WHERE rowid = 9)",
		  300 },
		{ "SELECT count(*) FROM kernel WHERE rowid = 500", 60 },
		{ "SELECT count(*) FROM kernel WHERE config_name = 'ab' AND stream = 99", 60 },
		{ "SELECT count(*) FROM kernel WHERE config_name LIKE '%none%'", 60 },
		{ "SELECT count(*) FROM kernel WHERE pid = 3", 60 },
		{ "SELECT count(*) FROM kernel WHERE channel = NULL", 60 },
		{ "SELECT count(*) FROM kernel WHERE channel = 0.5", 60 },
		{ "SELECT config_name FROM kernel GROUP BY config_name", 40 * KERNELS },
	};
	struct sql *s = open_some(0, 1);

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct sql_statement *statement;
		const char *rest;
		struct error e = { 0 };
		sqlite3_stmt *sqlite;

		assert_int_equal(sql_prepare(s, cases[i].statement, &statement, &rest, &e), 1);
		while (sql_next(statement, &e) > 0)
			;
		assert_int_equal(e.code, 0);
		sqlite = sqlite3_next_stmt(s->db, NULL);
		if (sqlite3_stmt_status(sqlite, SQLITE_STMTSTATUS_VM_STEP, 0) > cases[i].steps ||
		    sqlite3_stmt_status(sqlite, SQLITE_STMTSTATUS_SORT, 0))
			fail_msg("%s: %d steps, %d sorts", cases[i].statement,
				 sqlite3_stmt_status(sqlite, SQLITE_STMTSTATUS_VM_STEP, 0),
				 sqlite3_stmt_status(sqlite, SQLITE_STMTSTATUS_SORT, 0));
		sql_finalize(statement);
	}
	sql_free(s);
}

static void test_stopping(void **state)
{
	static const char endless[] =
		"WITH RECURSIVE r(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM r) "
		"SELECT count(*) FROM r";
	volatile sig_atomic_t cancel = 1;
	struct sql_options options = { .timeout_ns = 1, .cancel = &cancel };
	struct sql_statement *statement;
	struct error e = { 0 };
	const char *rest;
	struct sql *s;

	(void)state;
	assert_int_equal(sql_open(recordings, 1, &options, &s, &e), 0);
	assert_int_equal(sql_prepare(s, endless, &statement, &rest, &e), 1);
	assert_int_equal(sql_next(statement, &e), -ECANCELED);
	sql_finalize(statement);
	cancel = 0;
	assert_int_equal(sql_prepare(s, endless, &statement, &rest, &e), 1);
	assert_int_equal(sql_next(statement, &e), -ETIMEDOUT);
	sql_finalize(statement);
	cancel = 1;
	assert_int_equal(sql_prepare(s, "SELECT count FROM kernel_summary", &statement, &rest, &e),
			 1);
	assert_int_equal(sql_next(statement, &e), -ECANCELED);
	sql_finalize(statement);
	cancel = 0;
	/* A scan that finds nothing looks as well: SQLite itself makes no steps meanwhile. */
	assert_int_equal(
		sql_prepare(s, "SELECT 1 FROM kernel WHERE stream = 99", &statement, &rest, &e), 1);
	assert_int_equal(sql_next(statement, &e), -ETIMEDOUT);
	sql_finalize(statement);
	assert_int_equal(sql_prepare(s, " -- nothing\n;", &statement, &rest, &e), 0);
	sql_free(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_conditions), cmocka_unit_test(test_orders),
		cmocka_unit_test(test_lookups),    cmocka_unit_test(test_what_is_scanned),
		cmocka_unit_test(test_stopping),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
