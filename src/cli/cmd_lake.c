/* cmd_lake.c: `pitot lake`: makes a lake, lists what agents have shipped, gets windows back. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "agent/lake_compact.h"
#include "agent/lake_ddl.h"
#include "agent/lake_list.h"
#include "base/clock.h"
#include "base/human.h"
#include "base/json.h"
#include "base/plural.h"
#include "cli/s3_options.h"
#include "cli/ui.h"
#include "format/recording_dir.h"
#include "report/text_table.h"

static const char *option_output;
static bool option_force;
static uint64_t option_wait = 600 * NS_PER_S;
static bool given_wait;
static struct s3_options option_s3;
static struct s3_given given_s3;

static const struct option options[] = {
	OPTION(STRING, "output", 'o', option_output, "DIR",
	       "get: write into DIR (default: the window's name, here)", .is_path = true),
	FLAG("force", 'f', option_force, "get: replace DIR if it is a recording"),
	OPTION(DURATION, "wait", 0, option_wait, "TIME",
	       "compact: how long queries of a bucket may take; it is waited for twice (10m)",
	       .given = &given_wait),
	S3_OPTIONS(option_s3, given_s3),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot lake init /mnt/lake", "make a lake, with the DDL of engines in its folder sql" },
	{ "pitot lake ls /mnt/lake", "its tables and windows" },
	{ "pitot lake ls s3://pitot/v1", "those of a bucket" },
	{ "pitot lake compact /mnt/lake", "make few large objects of each day that is over" },
	{ "pitot lake get /mnt/lake 77.node1.20261129T140530Z.hang-4711.pitot",
	  "bring a window back, for `pitot report`" },
	{ NULL, NULL },
};

static int init(const struct context *c, const char *path)
{
	struct lake lake = { .mode = 0644 };
	struct error e = { 0 };
	int rc = lake_make(path, &e);

	rc = rc < 0 ? rc : lake_open(&lake, path, &option_s3, &e);
	rc = rc < 0 ? rc : lake_ddl_write(&lake, &e);
	lake_release(&lake);
	if (rc < 0)
		return cli_fail(c, &e);
	cli_note(c, "%s; next: pitot agent --lake %s --spool DIR", path, path);
	return EXIT_DONE;
}

/* --- ls --- */

static void list_json(const struct lake_list *l, struct strbuf *out)
{
	struct json j = JSON_PRETTY(out);

	json_object(&j);
	json_key_array(&j, "tables");
	for (size_t i = 0; i < l->tables.count; i++) {
		json_object(&j);
		json_key_string(&j, "name", l->tables.data[i].name);
		json_key_u64(&j, "objects", l->tables.data[i].objects);
		json_key_u64(&j, "bytes", l->tables.data[i].bytes);
		json_key_string(&j, "first_date", l->tables.data[i].first);
		json_key_string(&j, "last_date", l->tables.data[i].last);
		json_end(&j);
	}
	json_end(&j);
	json_key_array(&j, "windows");
	for (size_t i = 0; i < l->windows.count; i++) {
		json_object(&j);
		json_key_string(&j, "name", l->windows.data[i].name);
		json_key_string(&j, "date", l->windows.data[i].date);
		json_key_u64(&j, "bytes", l->windows.data[i].bytes);
		json_end(&j);
	}
	json_finish(&j);
}

static void list_text(const struct context *c, const struct lake_list *l, struct strbuf *out)
{
	static const struct text_column tables[] = { LEFT("table"), RIGHT("objects"), RIGHT("size"),
						     LEFT("from"), LEFT("to") };
	static const struct text_column windows[] = { LEFT("window"), RIGHT("size") };
	struct text_table t = TEXT_TABLE_INIT(tables), w = TEXT_TABLE_INIT(windows);

	for (size_t i = 0; i < l->tables.count; i++) {
		_cleanup_strbuf_ struct strbuf size = STRBUF_INIT;

		human_bytes(&size, l->tables.data[i].bytes);
		text_table_safe(&t, l->tables.data[i].name);
		text_table_addf(&t, "%" PRIu64, l->tables.data[i].objects);
		text_table_add(&t, strbuf_text(&size));
		text_table_safe(&t, l->tables.data[i].first);
		text_table_safe(&t, l->tables.data[i].last);
	}
	if (l->tables.count)
		text_table_print(&t, 0, c->width, c->color, out);
	for (size_t i = 0; i < l->windows.count; i++) {
		_cleanup_strbuf_ struct strbuf size = STRBUF_INIT;

		human_bytes(&size, l->windows.data[i].bytes);
		text_table_safe(&w, l->windows.data[i].name);
		text_table_add(&w, strbuf_text(&size));
	}
	if (l->tables.count && l->windows.count)
		strbuf_addc(out, '\n');
	if (l->windows.count)
		text_table_print(&w, 0, MAX(c->width, 160), c->color, out);
	text_table_release(&t);
	text_table_release(&w);
}

static int list(const struct context *c, const struct lake *lake)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	_cleanup_(lake_list_release) struct lake_list l = { .tables = VEC_INIT };
	struct error e = { 0 };
	int rc = lake_list_read(lake, &l, &e);

	if (rc == 0 && c->json)
		list_json(&l, &out);
	else if (rc == 0)
		list_text(c, &l, &out);
	if (rc == 0 && !c->json && !out.length)
		cli_note(c, "nothing has been shipped into '%s' yet", lake->path);
	return rc < 0 ? cli_fail(c, &e) : cli_print(c, &out);
}

/* --- compact --- */

struct compacting {
	const struct context *context;
	struct json *json; /* NULL: text */
	bool is_foreign;
};

static void compacted_json(struct json *j, const struct lake_compaction *d)
{
	json_object(j);
	json_key_string(j, "table", d->table);
	json_key_string(j, "date", d->date);
	json_key_u64(j, "objects_before", d->objects_before);
	json_key_u64(j, "bytes_before", d->bytes_before);
	json_key_u64(j, "objects_after", d->objects_after);
	json_key_u64(j, "bytes_after", d->bytes_after);
	json_key_u64(j, "rows", d->rows);
	json_key_u64(j, "unreadable", d->unreadable);
	json_end(j);
}

static void on_compacted(void *user, const struct lake_compaction *d)
{
	struct compacting *c = user;
	_cleanup_strbuf_ struct strbuf before = STRBUF_INIT, after = STRBUF_INIT;

	if (d->foreign) {
		c->is_foreign = true;
		cli_warn(c->context, "'%s/date=%s' is left as it is: '%s' is no object", d->table,
			 d->date, d->foreign);
		return;
	}
	if (d->unreadable)
		cli_warn(c->context,
			 "'%s/date=%s' has %" PRIu64 " %s that cannot be read: %s as %s", d->table,
			 d->date, d->unreadable, plural_of(d->unreadable, "object", "objects"),
			 plural_of(d->unreadable, "it stays", "they stay"),
			 plural_of(d->unreadable, "it is", "they are"));
	if (c->json) {
		compacted_json(c->json, d);
		return;
	}
	human_bytes(&before, d->bytes_before);
	human_bytes(&after, d->bytes_after);
	cli_note(c->context, "%s/date=%s: %" PRIu64 " %s of %s are now %" PRIu64 " of %s", d->table,
		 d->date, d->objects_before, plural_of(d->objects_before, "object", "objects"),
		 strbuf_text(&before), d->objects_after, strbuf_text(&after));
}

static void on_wait(void *user, uint64_t ns)
{
	const struct compacting *c = user;
	_cleanup_strbuf_ struct strbuf time = STRBUF_INIT;

	human_duration(&time, ns);
	if (ns)
		cli_note(c->context, "waiting %s for queries that have begun (--wait)",
			 strbuf_text(&time));
}

static int compact(const struct context *c, const struct lake *lake)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct json j = JSON_PRETTY(&out);
	struct compacting user = { .context = c, .json = c->json ? &j : NULL };
	const struct lake_compact_options how = { .now_ns = clock_read_ns(CLOCK_REALTIME),
						  .wait_ns = option_wait,
						  .done = on_compacted,
						  .waits = on_wait,
						  .user = &user };
	struct error e = { 0 };
	int rc;

	if (given_wait && !lake->s3)
		return cli_usage(c, "--wait is for buckets: days of a folder are replaced at one "
				    "moment");
	json_object(&j);
	json_key_array(&j, "days");
	rc = lake_compact(lake, &how, &e);
	json_end(&j);
	json_finish(&j);
	if (rc < 0)
		return cli_fail(c, &e);
	if (c->json && cli_print(c, &out) != EXIT_DONE)
		return EXIT_FAILED;
	return user.is_foreign ? EXIT_FAILED : EXIT_DONE;
}

/* --- get --- */

static int get(const struct context *c, const struct lake *lake, const char *name)
{
	struct error e = { 0 };
	struct folder_id id;
	_cleanup_free_ char *directory = recording_dir_create(option_output ? option_output : name,
							      "window", option_force, &id, &e);
	int rc;

	if (!directory)
		return cli_fail(c, &e);
	rc = lake_get_window(lake, name, directory, &id, &e);
	if (rc < 0)
		(void)!recording_dir_remove(directory, &id, NULL);
	else
		cli_note(c, "%s: %d %s; next: pitot report %s", directory, rc,
			 plural_of(rc, "file", "files"), directory);
	return rc < 0 ? cli_fail(c, &e) : EXIT_DONE;
}

static const char *const actions[] = { "init", "ls", "compact", "get", NULL };

static int run_lake(struct context *c, int argc, char **argv)
{
	struct lake lake = { .mode = 0 };
	struct error e = { 0 };
	bool is_get = argc > 1 && !strcmp(argv[1], "get");
	bool is_compact = argc > 1 && !strcmp(argv[1], "compact");
	int status;

	if (argc < 3 || argc != (is_get ? 4 : 3))
		return cli_usage(c, "use: pitot lake init LAKE, ls LAKE, compact LAKE, or get LAKE "
				    "WINDOW");
	if (!is_get && (option_output || option_force))
		return cli_usage(c, "-o and -f belong to get");
	if (!is_compact && given_wait)
		return cli_usage(c, "--wait belongs to compact");
	if (!strcmp(argv[1], "init"))
		return init(c, argv[2]);
	if (!is_get && !is_compact && strcmp(argv[1], "ls") != 0)
		return cli_unknown(c, "action", argv[1], actions, "pitot lake --help");
	if (lake_open(&lake, argv[2], &option_s3, &e) < 0)
		return cli_fail(c, &e);
	status = is_get ? get(c, &lake, argv[3]) : is_compact ? compact(c, &lake) : list(c, &lake);
	lake_release(&lake);
	return status;
}

const struct command cmd_lake = {
	.name = "lake",
	.group = COMMAND_MACHINE,
	.summary = "make, list, compact and read what agents ship into",
	.usage = "init LAKE | ls LAKE | compact LAKE | get [options] LAKE WINDOW",
	.description =
		"A lake is a folder, or a bucket of object storage: s3://BUCKET/PREFIX. init makes "
		"the folder (a bucket has to exist), and writes statements below sql with which "
		"DuckDB, ClickHouse and Spark read its tables. ls lists tables and windows. "
		"compact makes few large objects of the many small ones of each day that is over. "
		"get copies a window, which is a recording of a few seconds that a "
		"rule has made; it "
		"is then read like any other.",
	.options = options,
	.examples = examples,
	.operands = actions,
	.or_files = true,
	.operands_max = 3,
	.run = run_lake,
};
