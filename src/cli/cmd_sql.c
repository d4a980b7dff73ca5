/* cmd_sql.c: `pitot sql`: statements in SQL, from the command line, a script or a prompt. */
#include <errno.h>
#include <poll.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "cli/sql_rows.h"
#include "cli/sql_words.h"
#include "report/text_table.h"
#include "sql/sql_functions.h"

#define LIMIT 50 /* default number of rows in text */

static const char *option_output;
static uint64_t option_limit, option_timeout, option_memory = SQL_MEMORY_BYTES;
static bool limit_given, option_csv, option_force;
static int option_engine;
static const char *const engines[] = { [SQL_SQLITE] = "sqlite", [SQL_DUCKDB] = "duckdb", NULL };

static const struct option options[] = {
	OPTION(STRING, "output", 'o', option_output, "FILE",
	       "write the rows to x.csv, x.json (an object on a line for each row), x.parquet or "
	       "x.arrow",
	       .is_path = true),
	FLAG("csv", 0, option_csv, "print the rows as CSV"),
	OPTION(U64, "limit", 'n', option_limit, "N",
	       "at most N rows (default 50, as CSV and JSON all); 0 for all",
	       .given = &limit_given),
	OPTION(DURATION, "timeout", 0, option_timeout, "TIME",
	       "stop a statement that takes longer than TIME (default: never)"),
	OPTION(SIZE, "memory-limit", 0, option_memory, "SIZE",
	       "memory for sorting, grouping and results, beside that of the recording "
	       "(default: 4G); 0 for no limit"),
	OPTION(ENUM, "engine", 0, option_engine, NULL,
	       "what answers: the SQLite that is built in, or DuckDB, on all processors, if "
	       "libduckdb.so or $PITOT_DUCKDB is there",
	       .choices = engines),
	FLAG("force", 'f', option_force, "replace a file that exists"),
	OPTION_FILE_MODE("mode"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot sql 'select * from kernel_summary limit 10'",
	  "the kernels that took most time, of the newest recording" },
	{ "pitot sql train.pitot", "a prompt; .help lists what it knows" },
	{ "pitot sql train.pitot 'select scope, count(*), sum(duration_ns) from kernel group by 1'",
	  "kernels by the scope that launched them" },
	{ "pitot sql a.pitot b.pitot 'select recording, median(duration_ns) from kernel group by "
	  "1'",
	  "two recordings" },
	{ "pitot sql train.pitot -o x.csv < queries.sql", "a script, to a file" },
	{ NULL, NULL },
};

struct session {
	struct context *context;
	struct sql *sql;
	struct sql_rows rows;
	struct line_editor *editor; /* NULL: none */
	bool is_prompt;
};

/* ---- statements ---- */

static int run_statement(struct session *s, struct sql_statement *statement)
{
	bool left_out;
	int status = sql_rows_write(&s->rows, statement, &left_out);

	if (left_out && s->rows.format == SQL_TABLE && !limit_given)
		cli_note(s->context, "there are more rows: --limit 0 shows all");
	return status;
}

/* The thread that waits for the statement does nothing else, and ends with the program. */
static void end_with_statement(void *user, const struct error *why)
{
	struct session *s = user;
	struct error e = *why;

	if (s->editor)
		line_editor_release(s->editor);
	output_abort(&s->rows.file);
	if (s->is_prompt)
		error_set(&e, why->code, "%s, and its function does not stop: pitot ends",
			  why->text);
	cli_fail(s->context, &e);
	_exit(EXIT_FAILED);
}

/* Runs all statements of a text. */
static int run_text(struct session *s, const char *text)
{
	struct error e = { 0 };
	struct sql_statement *statement;
	int status = EXIT_DONE, rc;

	while (status == EXIT_DONE &&
	       (rc = sql_prepare(s->sql, text, &statement, &text, &e)) != 0) {
		if (rc < 0)
			return cli_fail(s->context, &e);
		status = run_statement(s, statement);
		sql_finalize(statement);
		if (status == EXIT_DONE && s->rows.file && text[strspn(text, " \t\r\n;")])
			return cli_usage(s->context, "-o takes the rows of one statement");
	}
	return status;
}

/* ---- commands of the prompt ---- */

struct listing {
	struct text_table table;
	bool rows;
};

static void add_item(void *user, const struct sql_item *item)
{
	struct listing *l = user;

	text_table_add(&l->table, item->name);
	if (!l->rows)
		text_table_add(&l->table, item->type);
	else if (item->rows)
		text_table_count(&l->table, item->rows);
	else
		text_table_add(&l->table, "");
	text_table_add(&l->table, item->meaning);
}

static int print_listing(struct session *s, struct listing *l)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;

	text_table_print(&l->table, 0, s->context->width, s->context->color, &out);
	text_table_release(&l->table);
	return cli_print(s->context, &out);
}

static int print_tables(struct session *s)
{
	static const struct text_column columns[] = { LEFT("table"), RIGHT("rows"),
						      FLEXIBLE("meaning") };
	struct listing l = { .table = TEXT_TABLE_INIT(columns), .rows = true };

	sql_tables(s->sql, add_item, &l);
	return print_listing(s, &l);
}

static int print_schema(struct session *s, const char *table)
{
	static const struct text_column columns[] = { LEFT("column"), LEFT("type"),
						      FLEXIBLE("meaning") };
	struct listing l = { .table = TEXT_TABLE_INIT(columns) };
	struct error e = { 0 };

	if (!*table)
		return print_tables(s);
	if (sql_columns(s->sql, table, add_item, &l, &e) >= 0)
		return print_listing(s, &l);
	text_table_release(&l.table);
	return cli_fail(s->context, &e);
}

static int print_help(struct session *s)
{
#define ROW(name, meaning) { name, meaning },
	static const char *const help[][2] = { SQL_COMMANDS(ROW) SQL_FUNCTIONS(ROW) };
#undef ROW
	static const struct text_column columns[] = { LEFT(""), FLEXIBLE("") };
	struct listing l = { .table = TEXT_TABLE_INIT(columns) };

	for (size_t i = 0; i < ARRAY_SIZE(help); i++) {
		text_table_add(&l.table, help[i][0]);
		text_table_add(&l.table, help[i][1]);
	}
	return print_listing(s, &l);
}

/* Runs a command such as ".schema kernel"; *quit: it was the last one. */
static int run_command(struct session *s, char *line, bool *quit)
{
	static const char *const commands_known[] = { ".tables", ".schema", ".help", ".quit",
						      NULL };
	char *argument = line + strcspn(line, " \t\r\n");
	struct error e = { 0 };

	if (*argument)
		*argument++ = 0;
	argument += strspn(argument, " \t");
	argument[strcspn(argument, " \t\r\n;")] = 0;
	*quit = !strcmp(line, ".quit");
	if (*quit)
		return EXIT_DONE;
	if (!strcmp(line, ".tables"))
		return print_tables(s);
	if (!strcmp(line, ".schema"))
		return print_schema(s, argument);
	if (!strcmp(line, ".help"))
		return print_help(s);
	error_set(&e, E_USAGE, "there is no command '%s'", line);
	error_suggest(&e, line, commands_known, NULL);
	return cli_fail(s->context, &e);
}

/* ---- scripts and prompts ---- */

/* Standard input by lines. Waiting for it ends with a signal. */
struct input {
	struct strbuf text;
	size_t used; /* bytes of the lines so far */
};

/* Returns 1 with the next line, 0 at the end, or a negative code: -EINTR after a signal. */
static int next_line(struct input *in, struct strbuf *line)
{
	struct pollfd wait = { .fd = STDIN_FILENO, .events = POLLIN };
	ssize_t n = 1;

	for (;;) {
		const char *start = strbuf_text(&in->text) + in->used;
		const char *end = memchr(start, '\n', in->text.length - in->used);
		size_t length = end ? (size_t)(end + 1 - start) : in->text.length - in->used;

		if (end || n == 0) {
			strbuf_clear(line);
			strbuf_add(line, start, length);
			in->used += length;
			return line->failed ? -ENOMEM : length > 0;
		}
		if (terminal_stop_signal || poll(&wait, 1, -1) < 0)
			return -EINTR;
		if (!strbuf_reserve(&in->text, 4096))
			return -ENOMEM;
		n = read(STDIN_FILENO, in->text.data + in->text.length, 4096);
		if (n < 0)
			return -errno;
		in->text.length += (size_t)n;
	}
}

/* Adds a line to a statement; runs what is complete. */
static int add_line(struct session *s, struct strbuf *text, struct strbuf *line, bool *quit)
{
	int status;

	if (!text->length && *strbuf_text(line) == '.')
		return run_command(s, line->data, quit);
	strbuf_add(text, strbuf_text(line), line->length);
	if (text->failed)
		return cli_failf(s->context, "out of memory");
	/*
	 * A file takes the rows of one statement, which only the whole input tells. SQLite reads
	 * the whole text, so it is asked only where a statement may end.
	 */
	if (s->rows.file || !strchr(strbuf_text(line), ';') || !sqlite3_complete(strbuf_text(text)))
		return EXIT_DONE;
	status = run_text(s, strbuf_text(text));
	strbuf_clear(text);
	return status;
}

struct prompt {
	struct session *session;
	const struct strbuf *text; /* of the lines before */
};

static void complete(void *user, const char *line, const char *word, struct line_words *out)
{
	_cleanup_strbuf_ struct strbuf statement = STRBUF_INIT;
	const struct prompt *p = user;

	strbuf_addf(&statement, "%s%s", strbuf_text(p->text), line);
	if (!statement.failed)
		sql_words_add(p->session->sql, strbuf_text(&statement), word, out);
}

static int run_input(struct session *s)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT, line = STRBUF_INIT;
	struct input in = { .text = STRBUF_INIT };
	struct prompt prompt = { s, &text };
	_cleanup_(line_editor_release) struct line_editor editor = { .complete = complete,
								     .user = &prompt };
	bool quit = false, edits = s->is_prompt && line_editor_is_possible();
	int status = EXIT_DONE, rc = 1;

	s->editor = &editor;
	while (rc != 0 && !quit && status == EXIT_DONE) {
		const char *shown = text.length ? "   ...> " : "pitot> ";

		if (s->is_prompt && !edits)
			fputs(shown, stderr);
		rc = edits ? line_editor_read(&editor, shown, &line) : next_line(&in, &line);
		if (rc > 0)
			status = add_line(s, &text, &line, &quit);
		else if (rc == -EINTR)
			status = 128 + terminal_stop_signal;
		else if (rc < 0)
			status = cli_failf(s->context, "cannot read statements: %s",
					   error_code_text(rc));
		/* At a prompt an error, or an interrupt, ends only what was typed. */
		if (s->is_prompt && status != EXIT_DONE &&
		    (!terminal_stop_signal || terminal_stop_signal == SIGINT)) {
			strbuf_clear(&text);
			if (terminal_stop_signal)
				fputc('\n', stderr);
			terminal_stop_signal = 0;
			status = rc < 0 && rc != -EINTR ? status : EXIT_DONE;
		}
	}
	if (s->is_prompt && !quit)
		fputc('\n', stderr);
	if (status == EXIT_DONE && text.length)
		status = run_text(s, strbuf_text(&text));
	s->editor = NULL;
	strbuf_release(&in.text);
	return status;
}

/* ---- the recordings ---- */

#define RECORDINGS_MAX 64

struct recordings {
	struct sql_recording items[RECORDINGS_MAX];
	char *paths[RECORDINGS_MAX];
	struct progress progress;
	size_t count;
};

static void close_recordings(struct recordings *r)
{
	for (size_t i = 0; i < r->count; i++) {
		trace_free(r->items[i].trace);
		free((char *)r->items[i].name);
		free(r->paths[i]);
	}
}

/* The last part of the path; the whole path if another recording has the same one. */
static char *name_of(const struct recordings *r, const char *path)
{
	size_t length = strlen(path), start;
	char *name;

	while (length > 1 && path[length - 1] == '/')
		length--;
	for (start = length; start > 0 && path[start - 1] != '/'; start--)
		;
	name = strndup(path + start, length - start);
	for (size_t i = 0; name && i < r->count; i++)
		if (!strcmp(r->items[i].name, name)) {
			free(name);
			return strdup(path);
		}
	return name;
}

static int open_recording(const struct context *c, struct recordings *r, const char *argument)
{
	struct trace *t = NULL;
	char *path = NULL;
	int status = cli_open_trace(c, argument, &r->progress, &path, &t);

	if (status != EXIT_DONE)
		return status;
	progress_end(&r->progress);
	r->paths[r->count] = path;
	r->items[r->count] =
		(struct sql_recording){ .name = name_of(r, path), .path = path, .trace = t };
	if (r->items[r->count++].name)
		return EXIT_DONE;
	return cli_failf(c, "out of memory");
}

/* All operands are recordings, but the last one if it is a statement. */
static int open_recordings(const struct context *c, struct recordings *r, int argc, char **argv,
			   const char **statement)
{
	struct stat st;
	int status = EXIT_DONE;

	*statement = NULL;
	if (argc > 1 && stat(argv[argc - 1], &st) < 0 && strpbrk(argv[argc - 1], " \t\n;"))
		*statement = argv[--argc];
	if (argc == 1)
		return open_recording(c, r, NULL);
	for (int i = 1; i < argc && status == EXIT_DONE; i++)
		status = open_recording(c, r, argv[i]);
	return status;
}

static int choose_format(const struct context *c, struct sql_rows *rows)
{
	rows->format = c->json ? SQL_JSON : option_csv ? SQL_CSV : SQL_TABLE;
	if (c->json && option_csv)
		return cli_usage(c, "--csv and --json: choose one");
	if (option_output && output_path_ends(option_output, ".csv .csv.gz"))
		rows->format = SQL_CSV;
	else if (option_output &&
		 output_path_ends(option_output, ".json .jsonl .json.gz .jsonl.gz"))
		rows->format = SQL_JSON;
	else if (option_output && output_path_ends(option_output, ".parquet"))
		rows->format = SQL_PARQUET;
	else if (option_output && output_path_ends(option_output, ".arrow"))
		rows->format = SQL_ARROW;
	else if (option_output && rows->format == SQL_TABLE)
		return cli_usage(c,
				 "no format has files like '%s': name a .csv, .json, .parquet or "
				 ".arrow file",
				 option_output);
	rows->is_terminal = !option_output && (isatty(STDOUT_FILENO) || getenv("GITHUB_ACTIONS"));
	rows->limit = limit_given || rows->format != SQL_TABLE ? option_limit : LIMIT;
	if (!rows->limit)
		rows->limit = UINT64_MAX;
	return EXIT_DONE;
}

static int run_session(struct session *s, const char *statement)
{
	struct error e = { 0 };
	int status = EXIT_DONE;

	s->is_prompt = !statement && isatty(STDIN_FILENO) && !option_output;
	/* Elsewhere a signal ends the program at once, whatever it computes. */
	if (s->is_prompt || option_output)
		terminal_catch_signals();
	if (option_output) {
		s->rows.file = output_open(option_output, option_force, &e);
		if (!s->rows.file)
			return cli_fail(s->context, &e);
	}
	if (s->is_prompt && !s->context->quiet)
		fputs("statements end with ; and .help lists commands and functions\n", stderr);
	status = statement ? run_text(s, statement) : run_input(s);
	if (status == EXIT_DONE && s->rows.file && output_commit(&s->rows.file, NULL, &e) < 0)
		status = cli_fail(s->context, &e);
	output_abort(&s->rows.file);
	return status;
}

static int run(struct context *c, int argc, char **argv)
{
	struct sql_options limits = { .engine = (enum sql_engine)option_engine,
				      .timeout_ns = option_timeout,
				      .memory_bytes = option_memory,
				      .cancel = &terminal_stop_signal,
				      .runaway = end_with_statement };
	_cleanup_free_ struct recordings *recordings = calloc(1, sizeof(*recordings));
	struct session s = { .context = c, .rows = { .context = c } };
	struct error e = { 0 };
	const char *statement;
	int status = recordings ? choose_format(c, &s.rows) : cli_failf(c, "out of memory");

	if (status != EXIT_DONE)
		return status;
	limits.user = &s;
	status = open_recordings(c, recordings, argc, argv, &statement);
	if (status == EXIT_DONE &&
	    sql_open(recordings->items, recordings->count, &limits, &s.sql, &e) < 0)
		status = cli_fail(c, &e);
	if (status == EXIT_DONE)
		status = run_session(&s, statement);
	for (size_t i = 0; i < recordings->count && s.sql; i++)
		cli_warn_loss(c, recordings->items[i].trace);
	sql_free(s.sql);
	close_recordings(recordings);
	return status;
}

const struct command cmd_sql = {
	.name = "sql",
	.group = COMMAND_LOOK_INTO,
	.summary = "ask recordings anything in SQL",
	.usage = "[options] [RECORDING...] ['SELECT ...']",
	.description =
		"Runs SELECT statements of SQLite on recordings. Every table of `pitot schema` is "
		"there, with texts in place of ids, and with the columns call (rowid of the "
		"api_call that launched the work) and scope. Tables such as kernel_summary, "
		"idle_gap, copy_summary and critical_path have the results of `pitot report`, in "
		"few rows. Views have the names that Nsight Systems and rocprofv3 use. Times are "
		"nanoseconds since 1970, as in `pitot export -o x.sqlite`, where the same "
		"statements run.\n\n"
		"Without RECORDING it reads the newest *.pitot in the current folder; of several, "
		"column recording has the name. Without a statement it reads statements and "
		"commands (.tables, .schema TABLE, .help) from standard input, at a terminal with "
		"a prompt, where Ctrl-C stops a statement.\n\n"
		"Only the columns that a statement uses are decoded. Conditions on times, numbers "
		"and texts are applied before SQLite sees the rows. Nothing can be written, and no "
		"function opens a file. --engine duckdb has DuckDB answer, in its own SQL. "
		"docs/sql.md has the statements that people ask most.",
	.options = options,
	.examples = examples,
	.takes_recording = true,
	.or_files = true,
	.operands_max = RECORDINGS_MAX + 1,
	.run = run,
};
