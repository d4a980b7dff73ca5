/*
 * sql_summary.c: the report opens the recording once more, because it frees what later loads would
 * need, and its results become rows: the whole report as JSON, and lists that the report shortens.
 */
#include "sql/sql_summary.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/idle.h"
#include "base/json.h"
#include "report/section.h"
#include "sql/sql_table.h"
#include "sql/sql_views.h"

enum kind { RECORDING, NVTX_RANGE, KERNELS, REPORT, CAUSES, IDLE_GAP, KINDS };

#define COLUMNS_MAX 13

static const struct {
	const char *name, *meaning;
	struct sql_item columns[COLUMNS_MAX];
} tables[KINDS] = {
	[RECORDING] = { "recording",
			"the recordings",
			{ { "recording", "TEXT", "its name" },
			  { "path", "TEXT", "where it is" },
			  { "start_ns", "INTEGER", "when it began" },
			  { "end_ns", "INTEGER", "when it ended" } } },
	[NVTX_RANGE] = { "nvtx_range",
			 "NVTX ranges and the program's scopes, from their beginning to their end",
			 { { "recording", "TEXT", "name of the recording" },
			   { "pid", "INTEGER", "process id" },
			   { "thread", "INTEGER", "thread that began it" },
			   { "start_ns", "INTEGER", "when it began" },
			   { "end_ns", "INTEGER",
			     "when it ended; of an open one, the recording's" },
			   { "duration_ns", "INTEGER", "end - start" },
			   { "name", "TEXT", "its message" },
			   { "path", "TEXT", "names of the scopes around it, and its own" },
			   { "domain", "INTEGER", "id in nvtx_domain; 0 is the default domain" },
			   { "pushed", "INTEGER", "1: push and pop; 0: start and end" },
			   { "open", "INTEGER", "1: it never ended" },
			   { "nvtx", "INTEGER",
			     "rowid of the event in table nvtx that began it" } } },
	[REPORT] = { "report",
		     "the report as JSON, from which the summaries are made",
		     { { "recording", "TEXT", "name of the recording" },
		       { "start_ns", "INTEGER",
			 "when it began: times in the report are since then" },
		       { "json", "TEXT", "what `pitot report --json --top 0` prints" } } },
	[KERNELS] = { "report_kernels",
		      "of the report only kernels and launches, in half of the time",
		      { { "recording", "TEXT", "name of the recording" },
			{ "start_ns", "INTEGER",
			  "when it began: times in the report are since then" },
			{ "json", "TEXT", "what the report prints" } } },
	[CAUSES] = { "report_causes",
		     "the same with --critical-path, --states, --steps and --memory",
		     { { "recording", "TEXT", "name of the recording" },
		       { "start_ns", "INTEGER",
			 "when it began: times in the report are since then" },
		       { "json", "TEXT", "what the report prints" } } },
	[IDLE_GAP] = { "idle_gap",
		       "when a GPU had no work, between its first and its last",
		       { { "recording", "TEXT", "name of the recording" },
			 { "gpu", "INTEGER", "number of the GPU in the report" },
			 { "device", "INTEGER", "its ordinal" },
			 { "start_ns", "INTEGER", "end of the work before" },
			 { "end_ns", "INTEGER", "start of the work after" },
			 { "duration_ns", "INTEGER", "end - start" },
			 { "pid", "INTEGER", "process of the work after" },
			 { "call", "INTEGER", "rowid of the api_call that launched it" } } },
};

static size_t column_count(enum kind kind)
{
	size_t count = 0;

	while (count < COLUMNS_MAX && tables[kind].columns[count].name)
		count++;
	return count;
}

/* ---- rows ---- */

struct cell {
	int64_t number;
	const char *text; /* NULL: the number counts; `missing`: neither */
};

static const char missing[] = "";

struct sql_summary {
	bool made, failed; /* failed: out of memory */
	VEC(struct cell) cells; /* row by row */
	struct interner texts;
};

static void add_cell(struct sql_summary *s, struct cell c)
{
	s->failed |= vec_push(&s->cells, c) < 0;
}

static void add_number(struct sql_summary *s, uint64_t number)
{
	add_cell(s, (struct cell){ .number = (int64_t)number });
}

static void add_missing(struct sql_summary *s)
{
	add_cell(s, (struct cell){ .text = missing });
}

static void add_text(struct sql_summary *s, const char *text, size_t length)
{
	_cleanup_strbuf_ struct strbuf safe = STRBUF_INIT;
	int64_t item;

	strbuf_add_utf8(&safe, text, length);
	item = safe.failed ? -1 : interner_add(&s->texts, strbuf_text(&safe), safe.length, NULL);
	s->failed |= item < 0;
	if (item >= 0)
		add_cell(s, (struct cell){ .text = s->texts.items[item].text });
}

static int result_of(const struct sql_summary *s)
{
	return s->failed ? -ENOMEM : 0;
}

static int add_recording(struct sql_summary *s, const struct sql_recording *r)
{
	uint64_t start_ns, end_ns, offset_ns = (uint64_t)trace_unix_ns(r->trace, 0);

	trace_span(r->trace, &start_ns, &end_ns);
	add_text(s, r->name, strlen(r->name));
	add_text(s, r->path, strlen(r->path));
	add_number(s, start_ns + offset_ns);
	add_number(s, end_ns + offset_ns);
	return result_of(s);
}

static void add_range(struct sql_summary *s, const struct sql_recording *r,
		      const struct nvtx_ranges *ranges, size_t i, uint64_t number)
{
	_cleanup_strbuf_ struct strbuf path = STRBUF_INIT;
	const struct nvtx_range *range = &ranges->items[i];
	uint64_t offset_ns = (uint64_t)trace_unix_ns(r->trace, 0);

	add_text(s, r->name, strlen(r->name));
	add_number(s, trace_process(r->trace, range->process)->pid);
	add_number(s, range->thread);
	add_number(s, range->start_ns + offset_ns);
	add_number(s, range->end_ns + offset_ns);
	add_number(s, range->end_ns - MIN(range->start_ns, range->end_ns));
	add_text(s, trace_string(r->trace, range->message),
		 trace_string_length(r->trace, range->message));
	if (range->path != SCOPE_NONE)
		scope_path_text(ranges, r->trace, range->path, &path);
	s->failed |= path.failed;
	if (range->path != SCOPE_NONE)
		add_text(s, strbuf_text(&path), path.length);
	else
		add_missing(s);
	add_number(s, range->domain);
	add_number(s, range->pushed);
	add_number(s, range->open);
	add_number(s, number << SQL_ROWID_BITS | range->row);
}

static int add_ranges(struct sql *sql, size_t recording, struct error *e)
{
	struct sql_summary *s = &sql->summaries[NVTX_RANGE];
	const struct sql_recording *r = &sql->recordings[recording];
	struct nvtx_ranges ranges;
	int rc = nvtx_ranges_init(&ranges, r->trace, SCOPES_ALL, false, e);

	if (rc < 0)
		return rc;
	for (size_t i = 0; i < ranges.count && !s->failed; i++)
		add_range(s, r, &ranges, i, recording);
	nvtx_ranges_release(&ranges);
	return result_of(s);
}

/* What is computed for a look at kernels. */
static void print_kernels(const struct report_view *view)
{
	struct json j = JSON_INIT(view->out);

	json_object(&j);
	section_print_json(&section_hotspots, view, &j);
	section_print_json(&section_launches, view, &j);
	json_finish(&j);
}

/* The report as JSON. */
static int add_json(struct sql_summary *s, const struct sql_recording *r,
		    const struct report *report)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct report_view view = {
		.report = report, .path = r->path, .top = UINT64_MAX, .out = &out
	};

	(report->options.now ? print_kernels : report_print_json)(&view);
	s->failed |= out.failed;
	add_text(s, r->name, strlen(r->name));
	add_number(s, report->span_start_ns + (uint64_t)trace_unix_ns(report->trace, 0));
	add_text(s, strbuf_text(&out), out.length);
	return result_of(s);
}

struct gap_list {
	struct sql_summary *summary;
	const struct sql_recording *recording;
	const struct report *report;
	uint64_t number; /* of the recording */
	size_t gpu;
};

static int add_gap(void *user, const struct idle_visit *gap)
{
	struct gap_list *l = user;
	struct sql_summary *s = l->summary;
	const struct trace *t = l->report->trace;
	uint64_t offset_ns = (uint64_t)trace_unix_ns(t, 0);

	add_text(s, l->recording->name, strlen(l->recording->name));
	add_number(s, l->gpu);
	add_number(s, l->report->gpus.items[l->gpu].ordinal);
	add_number(s, gap->start_ns + offset_ns);
	add_number(s, gap->end_ns + offset_ns);
	add_number(s, gap->end_ns - gap->start_ns);
	add_number(s, trace_process(t, gap->process)->pid);
	if (gap->call != TRACE_NO_ROW)
		add_number(s, l->number << SQL_ROWID_BITS | gap->call);
	else
		add_missing(s);
	return result_of(s);
}

static int add_gaps(struct sql_summary *s, const struct sql *sql, size_t recording,
		    const struct report *r)
{
	struct gap_list list = { s, &sql->recordings[recording], r, recording, 0 };
	int rc = 0;

	for (; list.gpu < r->gpus.count && rc >= 0; list.gpu++)
		rc = idle_gaps(&r->gpus, &r->selection, &r->calls, list.gpu, add_gap, &list);
	return rc;
}

static int add_report(struct sql *sql, size_t recording, enum kind kind, struct error *e)
{
	bool causes = kind == CAUSES;
	struct report_options options = { .filter = FILTER_ALL,
					  .now = kind == KERNELS,
					  .critical_path = causes,
					  .states = causes,
					  .memory = causes };
	const struct sql_recording *r = &sql->recordings[recording];
	struct report report;
	struct trace *t;
	int rc = trace_open(r->path, NULL, &t, e);

	if (rc < 0)
		return rc;
	rc = report_init(&report, t, &options, e);
	if (rc >= 0) {
		rc = add_json(&sql->summaries[kind], r, &report);
		if (rc >= 0 && kind == REPORT)
			rc = add_gaps(&sql->summaries[IDLE_GAP], sql, recording, &report);
		report_release(&report);
	}
	trace_free(t);
	return rc < 0 ? rc : 0;
}

static void clear(struct sql_summary *s)
{
	vec_release(&s->cells);
	interner_release(&s->texts);
	interner_init(&s->texts);
	s->made = s->failed = false;
}

/* Makes a table; the report's come together. */
static int make(struct sql *sql, enum kind kind, struct error *e)
{
	bool with_report = kind == REPORT || kind == IDLE_GAP;
	int rc = 0;

	sql->loading++;
	for (size_t i = 0; i < sql->count && rc >= 0; i++)
		rc = kind == RECORDING ? add_recording(&sql->summaries[kind], &sql->recordings[i])
		     : kind == NVTX_RANGE ? add_ranges(sql, i, e)
		     : with_report        ? add_report(sql, i, REPORT, e)
					  : add_report(sql, i, kind, e);
	sql->loading--;
	for (enum kind k = 0; k < KINDS; k++) {
		if (k != kind && !(with_report && (k == REPORT || k == IDLE_GAP)))
			continue;
		if (rc < 0)
			clear(&sql->summaries[k]);
		sql->summaries[k].made = rc >= 0;
	}
	return rc == -ENOMEM ? error_set(e, rc, "out of memory") : rc;
}

/* ---- the virtual table ---- */

struct module {
	struct sql *sql;
	enum kind kind;
};

struct summary_table {
	sqlite3_vtab base;
	struct module m;
};

struct summary_cursor {
	sqlite3_vtab_cursor base;
	const struct sql_summary *summary;
	size_t row, rows;
};

static int disconnect(sqlite3_vtab *vtab)
{
	free(vtab);
	return SQLITE_OK;
}

static int connect(sqlite3 *db, void *user, int argc, const char *const *argv, sqlite3_vtab **out,
		   char **message)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const struct module *m = user;
	struct summary_table *t = calloc(1, sizeof(*t));
	int rc;

	(void)db, (void)argc, (void)argv, (void)message;
	strbuf_adds(&text, "CREATE TABLE x(");
	for (size_t i = 0; i < column_count(m->kind); i++)
		strbuf_addf(&text, "%s%s %s", i ? ", " : "", tables[m->kind].columns[i].name,
			    tables[m->kind].columns[i].type);
	strbuf_adds(&text, ")");
	rc = !t || text.failed ? SQLITE_NOMEM : sql_declare(m->sql, strbuf_text(&text));
	if (rc != SQLITE_OK) {
		free(t);
		return rc;
	}
	t->m = *m;
	*out = &t->base;
	return SQLITE_OK;
}

static int best_index(sqlite3_vtab *vtab, sqlite3_index_info *info)
{
	const struct summary_table *t = (const struct summary_table *)vtab;
	double rows = t->m.kind == IDLE_GAP || t->m.kind == NVTX_RANGE ? 10000 : 1;

	info->estimatedCost = rows;
	info->estimatedRows = (sqlite3_int64)rows;
	return SQLITE_OK;
}

static int cursor_open(sqlite3_vtab *vtab, sqlite3_vtab_cursor **out)
{
	struct summary_cursor *c = calloc(1, sizeof(*c));

	(void)vtab;
	*out = c ? &c->base : NULL;
	return c ? SQLITE_OK : SQLITE_NOMEM;
}

static int cursor_close(sqlite3_vtab_cursor *cursor)
{
	free(cursor);
	return SQLITE_OK;
}

static int cursor_filter(sqlite3_vtab_cursor *cursor, int number, const char *text, int count,
			 sqlite3_value **values)
{
	struct summary_cursor *c = (struct summary_cursor *)cursor;
	const struct module *m = &((struct summary_table *)cursor->pVtab)->m;
	struct error e = { 0 };
	int rc = 0;

	(void)number, (void)text, (void)count, (void)values;
	c->summary = &m->sql->summaries[m->kind];
	if (!c->summary->made)
		rc = make(m->sql, m->kind, &e);
	c->row = 0;
	c->rows = rc < 0 ? 0 : c->summary->cells.count / column_count(m->kind);
	/* Time and interrupts are looked at when it has been computed. */
	if (rc >= 0 && sql_stopped(m->sql))
		return SQLITE_INTERRUPT;
	return rc < 0 ? sql_table_failed(m->sql, rc, &e) : SQLITE_OK;
}

static int cursor_next(sqlite3_vtab_cursor *cursor)
{
	((struct summary_cursor *)cursor)->row++;
	return SQLITE_OK;
}

static int cursor_eof(sqlite3_vtab_cursor *cursor)
{
	const struct summary_cursor *c = (const struct summary_cursor *)cursor;

	return c->row >= c->rows;
}

static int cursor_column(sqlite3_vtab_cursor *cursor, sqlite3_context *out, int column)
{
	const struct summary_cursor *c = (const struct summary_cursor *)cursor;
	const struct module *m = &((struct summary_table *)cursor->pVtab)->m;
	const struct cell *cell =
		&c->summary->cells.data[c->row * column_count(m->kind) + (size_t)column];

	if (!cell->text)
		sqlite3_result_int64(out, cell->number);
	else if (cell->text != missing)
		sqlite3_result_text(out, cell->text, -1, SQLITE_STATIC);
	return SQLITE_OK;
}

static int cursor_rowid(sqlite3_vtab_cursor *cursor, sqlite3_int64 *out)
{
	*out = (sqlite3_int64)((const struct summary_cursor *)cursor)->row;
	return SQLITE_OK;
}

static const sqlite3_module summary_methods = {
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

int sql_summaries_add(struct sql *s, struct error *e)
{
	int rc = SQLITE_OK;

	s->summaries = calloc(KINDS, sizeof(*s->summaries));
	if (!s->summaries)
		return error_set(e, -ENOMEM, "out of memory");
	for (enum kind k = 0; k < KINDS; k++)
		interner_init(&s->summaries[k].texts);
	for (enum kind k = 0; k < KINDS && rc == SQLITE_OK; k++) {
		struct module *m = malloc(sizeof(*m));

		if (m)
			*m = (struct module){ s, k };
		rc = m ? sqlite3_create_module_v2(s->db, tables[k].name, &summary_methods, m, free)
		       : SQLITE_NOMEM;
	}
	if (rc == SQLITE_OK)
		return sql_views_add(s, e);
	return error_set(e, -ENOMEM, "out of memory");
}

void sql_summaries_free(struct sql *s)
{
	for (enum kind k = 0; s->summaries && k < KINDS; k++)
		clear(&s->summaries[k]);
	free(s->summaries);
}

void sql_summaries_visit(sql_visit *visit, void *user)
{
	for (enum kind k = 0; k < KINDS; k++)
		visit(user,
		      &(struct sql_item){ .name = tables[k].name, .meaning = tables[k].meaning });
}

bool sql_summary_known(const char *table)
{
	for (enum kind k = 0; k < KINDS; k++)
		if (!sqlite3_stricmp(tables[k].name, table))
			return true;
	return false;
}

bool sql_summary_columns(const char *table, sql_visit *visit, void *user)
{
	for (enum kind k = 0; k < KINDS; k++)
		if (!sqlite3_stricmp(tables[k].name, table)) {
			for (size_t i = 0; i < column_count(k); i++)
				visit(user, &tables[k].columns[i]);
			return true;
		}
	return false;
}
