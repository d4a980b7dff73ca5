/* cmd_view.c: `pitot view`: rows of tables. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/arena.h"
#include "base/human.h"
#include "base/map.h"
#include "base/plural.h"
#include "base/search.h"
#include "format/recording_dir.h"
#include "report/text_table.h"
#include "cli/ui.h"
#include "read/view_columns.h"
#include "read/view_where.h"
#include "cli/window.h"

#define LIMIT 50 /* default number of rows in text */
#define CELL_MAX 160 /* columns of a cell; --json has the whole text */
#define PAGE 2000 /* rows aligned together */
#define LAST UINT64_MAX /* sorts rows without a value after all others, in any order */

static struct window_options option_window;
static uint64_t option_limit;
static bool limit_given, option_full_names;
static struct option_list option_where;
static const char *option_columns, *option_sort;

static const struct option options[] = {
	OPTION(LIST, "where", 'w', option_where, "CONDITION",
	       "only rows that match: COLUMN=VALUE, or != < <= > >=; text values are globs, '-' "
	       "means missing; rows must match all conditions"),
	WINDOW_OPTIONS(option_window),
	OPTION_RANK(RANK_HELP),
	OPTION(STRING, "columns", 'c', option_columns, "LIST",
	       "comma-separated columns to show; 'config.grid_x' follows a reference; also the "
	       "derived columns duration, pid and scope"),
	OPTION(STRING, "sort", 0, option_sort, "COLUMN[:desc]",
	       "order the rows by a column, with :desc largest first; rows without a value come "
	       "last"),
	OPTION(U64, "limit", 'n', option_limit, "N",
	       "at most N rows (default 50, with --json all); 0 for all", .given = &limit_given),
	FLAG("full-names", 0, option_full_names, "kernel names with all their parameters"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot view", "the tables of the newest recording" },
	{ "pitot view kernel --since 1.5s -w stream=7 -w 'name=*gemm*'", "some kernels" },
	{ "pitot view train.pitot api_call -w 'duration>1ms'", "slow calls" },
	{ "pitot view kernel --sort duration:desc -n 10", "the ten longest kernels" },
	{ "pitot view train.pitot memcpy memset --json", "two tables, each row with its table" },
	{ "pitot view kernel -c start,duration,name,config.grid_x --limit 0",
	  "chosen columns, all rows" },
	{ NULL, NULL },
};

/* State while a table is printed. */
struct view {
	const struct context *context;
	size_t position; /* from 1, of several tables, whose names are printed; 0: the only one */
	struct view_table table;
	struct view_columns columns;
	struct view_where where;
	struct row_scopes scopes;
	struct view_columns sorted_by; /* at most one */
	uint64_t *order; /* --sort: rows that meet the conditions; NULL: all rows in turn */
	uint64_t order_count;
	uint64_t limit;
	uint64_t shown, left_out;
};

static int list_tables(const struct context *c, struct trace *t)
{
	static const struct text_column columns[] = { LEFT("table"), RIGHT("rows"),
						      FLEXIBLE("meaning") };
	_cleanup_table_ struct text_table table = TEXT_TABLE_INIT(columns);
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct json j = JSON_PRETTY(&out);
	struct error e = { 0 };

	if (trace_load_repeated(t, &e) < 0)
		return cli_fail(c, &e);
	json_object(&j);
	json_key_object(&j, "tables");
	for (uint32_t id = 1; id <= TABLE_MAX; id++) {
		const struct table_schema *schema = schema_table(id);

		json_key_u64(&j, schema->name, trace_rows(t, (enum table_id)id));
		if (!trace_rows(t, (enum table_id)id))
			continue;
		text_table_add(&table, schema->name);
		text_table_count(&table, trace_rows(t, (enum table_id)id));
		text_table_add(&table, schema->meaning);
	}
	json_finish(&j);
	if (!c->json) {
		strbuf_clear(&out);
		text_table_print(&table, 0, c->width, c->color, &out);
	}
	return cli_print(c, &out);
}

static int choose_columns(struct view *v, struct error *e)
{
	_cleanup_free_ char *names = option_columns ? strdup(option_columns) : NULL;
	char *rest = names, *name;
	int rc = 0;

	if (!option_columns)
		return view_columns_default(&v->table, &v->columns) < 0
			       ? error_set(e, -ENOMEM, "out of memory")
			       : 0;
	if (!names)
		return error_set(e, -ENOMEM, "out of memory");
	while (rc >= 0 && (name = strsep(&rest, ",")))
		rc = view_columns_add(&v->table, name, &v->columns, e);
	return rc;
}

static int choose_rows(struct view *v, struct error *e)
{
	int rc = 0;

	for (unsigned i = 0; i < option_where.count && rc >= 0; i++)
		rc = view_where_add(&v->table, option_where.items[i], &v->where, e);
	if (rc >= 0 && option_window.since_given)
		rc = view_where_time(&v->table, WHERE_AT_LEAST, option_window.since_ns, &v->where,
				     e);
	if (rc >= 0 && option_window.until_given)
		rc = view_where_time(&v->table, WHERE_LESS, option_window.until_ns, &v->where, e);
	if (rc >= 0)
		rc = view_columns_load(&v->table, &v->columns, e);
	if (rc >= 0)
		rc = view_columns_load(&v->table, &v->where.columns, e);
	if (rc >= 0 && view_where_prepare(&v->table, &v->where) < 0)
		rc = error_set(e, -ENOMEM, "out of memory");
	return rc;
}

/*
 * Moves *position to the next row that meets the conditions, and sets *row to it; returns false at
 * the end.
 */
static bool next_row(const struct view *v, uint64_t *position, uint64_t *row)
{
	uint64_t rows = trace_rows(v->table.trace, v->table.schema->id);

	if (v->order) {
		*row = *position < v->order_count ? v->order[*position] : 0;
		return *position < v->order_count;
	}
	for (; *position < rows; ++*position)
		if (view_where_holds(&v->table, &v->where, *position)) {
			*row = *position;
			return true;
		}
	return false;
}

/* --- sorting --- */

/* A row and the value that orders it: a text, or a number whose order is that of the values. */
struct sort_key {
	const char *text;
	uint64_t number, row;
};

ORDER(ascending, struct sort_key,
      (a->text && b->text ? strcmp(a->text, b->text) : 0) ?: UP(number) ?: UP(row))
ORDER(descending, struct sort_key,
      (a->number == LAST || b->number == LAST ? UP(number) : 0)
	      ?: (a->text && b->text ? strcmp(b->text, a->text) : 0) ?: DOWN(number) ?: UP(row))

/* Maps numbers of all kinds to unsigned ones of the same order. */
static uint64_t key_of_real(double value)
{
	uint64_t bits;

	memcpy(&bits, &value, sizeof(bits));
	return bits >> 63 ? ~bits : bits | UINT64_C(1) << 63;
}

static uint64_t key_number(const struct view *v, const struct view_column *c, uint64_t row,
			   uint64_t number)
{
	if (view_is_counter_value(&v->table, c)) {
		struct counter_value value = view_counter_value(&v->table, row);

		return key_of_real(counter_value_double(&value));
	}
	if (c->schema && (c->schema->type == COLUMN_TYPE_I32 || c->schema->type == COLUMN_TYPE_I64))
		return number ^ UINT64_C(1) << 63;
	return number;
}

/* Rows with one text have one id, so each text is made once. */
static int make_key(struct view *v, struct map *texts, struct arena *arena, struct sort_key *key)
{
	const struct view_column *c = v->sorted_by.items.data;
	struct view_value value = view_value(&v->table, c, key->row);
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t *known;

	key->number = LAST;
	if (value.missing)
		return 0;
	if (!view_is_text(c)) {
		key->number = MIN(key_number(v, c, key->row, value.number), LAST - 1);
		return 0;
	}
	known = map_at(texts, value.number, 0);
	if (!known)
		return -ENOMEM;
	if (!*known) {
		view_text(&v->table, c, key->row, &text);
		*known = (uintptr_t)arena_strndup(arena, strbuf_text(&text), text.length);
	}
	key->text = (const char *)(uintptr_t)*known;
	key->number = 0;
	return key->text ? 0 : -ENOMEM;
}

static int sort_rows(struct view *v, bool largest_first)
{
	VEC(struct sort_key) keys = VEC_INIT;
	_cleanup_(arena_release) struct arena arena = ARENA_INIT;
	_cleanup_(map_release) struct map texts = MAP_INIT;
	uint64_t position = 0;
	struct sort_key key = { 0 };
	int err = 0;

	for (; !err && next_row(v, &position, &key.row); position++) {
		err = make_key(v, &texts, &arena, &key);
		if (!err)
			err = vec_push(&keys, key);
		key.text = NULL;
	}
	if (!err && !(v->order = calloc(keys.count + 1, sizeof(*v->order))))
		err = -ENOMEM;
	if (!err && largest_first)
		vec_sort(&keys, descending);
	else if (!err)
		vec_sort(&keys, ascending);
	for (size_t i = 0; !err && i < keys.count; i++)
		v->order[i] = keys.data[i].row;
	v->order_count = keys.count;
	vec_release(&keys);
	return err;
}

static int choose_order(struct view *v, struct error *e)
{
	const char *colon = option_sort ? strrchr(option_sort, ':') : NULL;
	bool largest_first = colon && !strcmp(colon, ":desc");
	_cleanup_free_ char *name = NULL;
	int rc;

	if (!option_sort)
		return 0;
	if (colon && !largest_first && strcmp(colon, ":asc") != 0)
		return error_set(e, E_USAGE,
				 "--sort takes COLUMN, COLUMN:asc or COLUMN:desc, not '%s'",
				 option_sort);
	name = strndup(option_sort, colon ? (size_t)(colon - option_sort) : strlen(option_sort));
	rc = name ? view_columns_add(&v->table, name, &v->sorted_by, e)
		  : error_set(e, -ENOMEM, "out of memory");
	if (rc >= 0)
		rc = view_columns_load(&v->table, &v->sorted_by, e);
	if (rc >= 0 && sort_rows(v, largest_first) < 0)
		rc = error_set(e, -ENOMEM, "out of memory");
	return rc;
}

/* Makes the heads of the columns; texts are aligned left, numbers right. */
static struct text_column *make_heads(const struct view *v)
{
	struct text_column *heads = calloc(v->columns.items.count + 1, sizeof(*heads));

	for (size_t i = 0; heads && i < v->columns.items.count; i++) {
		const struct view_column *c = &v->columns.items.data[i];
		bool text = view_is_text(c) || (c->schema && c->schema->type == COLUMN_TYPE_ENUM);

		heads[i] = (struct text_column){ .head = c->head, .left = text };
	}
	return heads;
}

static int print_text(struct view *v)
{
	_cleanup_free_ struct text_column *heads = make_heads(v);
	_cleanup_table_ struct text_table t = { .columns = heads,
						.column_count = v->columns.items.count };
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT, cell = STRBUF_INIT;
	uint64_t position = 0, row;
	int status = EXIT_DONE;

	if (!heads)
		return cli_failf(v->context, "out of memory");
	if (v->position)
		strbuf_addf(&out, "%s%s\n", v->position > 1 ? "\n" : "", v->table.schema->name);
	for (; status == EXIT_DONE && next_row(v, &position, &row); position++) {
		if (v->shown == v->limit) {
			v->left_out++;
			continue;
		}
		for (size_t i = 0; i < v->columns.items.count; i++) {
			strbuf_clear(&cell);
			view_text(&v->table, &v->columns.items.data[i], row, &cell);
			text_shorten(&cell, CELL_MAX);
			text_table_add(&t, strbuf_text(&cell));
		}
		if (++v->shown % PAGE == 0) {
			text_table_print(&t, 0, UINT32_MAX, v->context->color, &out);
			text_table_clear(&t);
			status = cli_print(v->context, &out);
			strbuf_clear(&out);
		}
	}
	if (status == EXIT_DONE && (text_table_rows(&t) || !v->shown)) {
		text_table_print(&t, 0, UINT32_MAX, v->context->color, &out);
		status = cli_print(v->context, &out);
	}
	return status;
}

static int print_json(struct view *v)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	int status = EXIT_DONE;

	for (uint64_t position = 0, row;
	     status == EXIT_DONE && v->shown < v->limit && next_row(v, &position, &row);
	     position++) {
		struct json j = JSON_INIT(&out);

		json_object(&j);
		if (v->position)
			json_key_string(&j, "table", v->table.schema->name);
		for (size_t i = 0; i < v->columns.items.count; i++) {
			json_key(&j, v->columns.items.data[i].label);
			view_json(&v->table, &v->columns.items.data[i], row, &j);
		}
		json_finish(&j);
		if (++v->shown % PAGE == 0) {
			status = cli_print(v->context, &out);
			strbuf_clear(&out);
		}
	}
	return status == EXIT_DONE ? cli_print(v->context, &out) : status;
}

/* Removes columns without any value. */
static void drop_empty_columns(struct view *v)
{
	const struct view_table *t = &v->table;
	size_t kept = 0;

	for (size_t i = 0; i < v->columns.items.count; i++) {
		struct view_column c = v->columns.items.data[i];
		const uint8_t *valid = c.kind == VIEW_STORED
					       ? trace_valid(t->trace, t->schema->id, c.column)
					       : NULL;

		if (valid && !memchr(valid, 1, trace_rows(t->trace, t->schema->id)))
			free(c.label);
		else
			v->columns.items.data[kept++] = c;
	}
	v->columns.items.count = kept;
}

static int print(struct view *v)
{
	int status;

	if (!option_columns && !v->context->json)
		drop_empty_columns(v);
	status = v->context->json ? print_json(v) : print_text(v);
	if (!v->shown && v->limit)
		cli_note(v->context,
			 trace_rows(v->table.trace, v->table.schema->id)
				 ? "no row meets the conditions in table %s"
				 : "the recording has no rows of table %s; `pitot info` lists its "
				   "tables",
			 v->table.schema->name);
	if (v->left_out) {
		_cleanup_strbuf_ struct strbuf count = STRBUF_INIT;

		human_count(&count, v->left_out);
		cli_note(v->context, "%s more row%s%s%s: --limit 0 shows all", strbuf_text(&count),
			 plural(v->left_out), v->position ? " of " : "",
			 v->position ? v->table.schema->name : "");
	}
	return status;
}

static int choose(struct view *v, struct error *e)
{
	int rc = choose_columns(v, e);

	if (rc >= 0)
		rc = choose_rows(v, e);
	return rc < 0 ? rc : choose_order(v, e);
}

/* What the operands say. */
struct operands {
	char *recording; /* NULL: the newest */
	const struct table_schema **tables;
	size_t count;
};

/*
 * Accepts a recording and tables in any order. A word that is no table's name is the recording,
 * unless no file has it and a table's name is near. The first table's name is the recording if
 * there is no other and a recording has that name.
 */
static int sort_operands(const struct context *c, int argc, char **argv, struct operands *o)
{
	struct stat st;

	for (int i = 1; i < argc; i++) {
		const struct table_schema *table = schema_table_by_name(argv[i]);

		if (table)
			o->tables[o->count++] = table;
		else if (!o->recording &&
			 (stat(argv[i], &st) == 0 ||
			  (argc > 2 && !options_nearest(argv[i], schema_table_names))))
			o->recording = argv[i];
		else if (o->recording && recording_dir_has_segments(argv[i]))
			return cli_usage(c, "'%s' and '%s' are two recordings: name one",
					 o->recording, argv[i]);
		else
			return cli_unknown(c, "recording or table", argv[i], schema_table_names,
					   "pitot schema");
	}
	if (argc > 1 && !o->recording && recording_dir_has_segments(argv[1])) {
		o->recording = argv[1];
		o->tables++;
		o->count--;
	}
	return EXIT_DONE;
}

/* Loads what is asked for of all tables, then prints them. */
static int print_tables(const struct context *c, struct trace *t, const struct operands *o,
			struct progress *progress)
{
	_cleanup_free_ struct view *views = calloc(o->count, sizeof(*views));
	uint64_t origin_ns, end_ns, limit = limit_given || c->json ? option_limit : LIMIT;
	struct error e = { 0 };
	int rc = views ? 0 : error_set(&e, -ENOMEM, "out of memory"), status;

	trace_span(t, &origin_ns, &end_ns);
	for (size_t i = 0; i < o->count && rc >= 0; i++) {
		struct view *v = &views[i];

		*v = (struct view){ .context = c, .limit = limit ? limit : UINT64_MAX };
		v->position = o->count > 1 ? i + 1 : 0;
		v->table = (struct view_table){ .trace = t,
						.schema = o->tables[i],
						.origin_ns = origin_ns,
						.full_names = option_full_names,
						.always_pid = c->json,
						.scopes = &v->scopes };
		rc = choose(v, &e);
	}
	progress_end(progress);
	status = rc < 0 ? cli_fail(c, &e) : EXIT_DONE;
	for (size_t i = 0; views && i < o->count; i++) {
		if (status == EXIT_DONE)
			status = print(&views[i]);
		view_columns_release(&views[i].columns);
		view_where_release(&views[i].where);
		view_columns_release(&views[i].sorted_by);
		free(views[i].order);
		row_scopes_release(&views[i].scopes);
	}
	return status;
}

static int run(struct context *c, int argc, char **argv)
{
	_cleanup_free_ const struct table_schema **tables = calloc((size_t)argc, sizeof(*tables));
	struct operands operands = { .tables = tables };
	struct progress progress = { 0 };
	struct trace *trace = NULL;
	int status;

	if (!tables)
		return cli_failf(c, "out of memory");
	status = sort_operands(c, argc, argv, &operands);
	if (status == EXIT_DONE)
		status = cli_open_trace(c, operands.recording, &progress, NULL, &trace);
	if (status != EXIT_DONE)
		return status;
	if (operands.count) {
		status = print_tables(c, trace, &operands, &progress);
	} else {
		progress_end(&progress);
		status = list_tables(c, trace);
	}
	cli_warn_loss(c, trace);
	trace_free(trace);
	return status;
}

const struct command cmd_view = {
	.name = "view",
	.group = COMMAND_LOOK_INTO,
	.summary = "print rows of tables",
	.usage = "[options] [RECORDING] [TABLE...]",
	.description =
		"Prints rows in order of process and time, with references, strings and enums "
		"resolved. Times are seconds from the start of the recording. With --json each row "
		"is an object on its own line, with times in nanoseconds from the start of the "
		"recording.\n\n"
		"Of several tables each has its name above it, with --json in each row.\n\n"
		"Without RECORDING it reads the newest *.pitot in the current folder; without "
		"TABLE it lists the tables. Conditions use the column names of `pitot schema "
		"TABLE`; the unit at the end can be left out (start for start_ns). A value for "
		"text is a glob, or, without * ? [, a part of the text.",
	.options = options,
	.examples = examples,
	.operands = schema_table_names,
	.or_files = true,
	.takes_recording = true,
	.operands_max = 1 + TABLE_MAX,
	.run = run,
};
