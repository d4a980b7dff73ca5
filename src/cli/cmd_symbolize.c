/* cmd_symbolize.c: `pitot symbolize`: resolves the call stacks of a recording. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/human.h"
#include "base/json.h"
#include "record/symbolize.h"
#include "report/text_table.h"
#include "cli/ui.h"

#define FOLDERS_MAX 128

static struct option_list option_debug_path;
static bool option_lines = true, option_debuginfod;

static const struct option options[] = {
	OPTION(LIST, "debug-path", 'd', option_debug_path, "DIR",
	       "folder of debug files, laid out like /usr/lib/debug, or of copies of the programs; "
	       "may be given several times",
	       .is_path = true),
	FLAG("debuginfod", 0, option_debuginfod,
	     "fetch missing debug files from the servers in DEBUGINFOD_URLS"),
	FLAG("lines", 0, option_lines,
	     "also resolve source lines and inlined functions (default); --no-lines is faster",
	     .negatable = true),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot symbolize", "the newest recording in this folder" },
	{ "pitot symbolize -d ~/symbols train.pitot", "with debug files from elsewhere" },
	{ NULL, NULL },
};

static const char *const source_names[SOURCE_COUNT] = {
	[SOURCE_NONE] = "unknown",      [SOURCE_BOUNDS] = "function_start",
	[SOURCE_SYMBOLS] = "symbols",   [SOURCE_DEBUG_FILE] = "debug_file",
	[SOURCE_PERF_MAP] = "perf_map", [SOURCE_KERNEL] = "kernel",
	[SOURCE_EARLIER] = "earlier",
};

static uint64_t named(const uint64_t by[SOURCE_COUNT])
{
	return by[SOURCE_SYMBOLS] + by[SOURCE_DEBUG_FILE] + by[SOURCE_PERF_MAP] +
	       by[SOURCE_KERNEL] + by[SOURCE_EARLIER];
}

static uint64_t unnamed(const uint64_t by[SOURCE_COUNT])
{
	return by[SOURCE_NONE] + by[SOURCE_BOUNDS];
}

static void write_sources(struct json *j, const uint64_t by[SOURCE_COUNT])
{
	for (unsigned i = 0; i < SOURCE_COUNT; i++)
		json_key_u64(j, source_names[i], by[i]);
}

static void print_json(const struct symbolize_result *r, const char *path, struct strbuf *out)
{
	struct json j = JSON_PRETTY(out);
	size_t count;
	const struct symbol_module_report *reports = symbolizer_reports(r->symbolizer, &count);

	json_object(&j);
	json_key_string(&j, "recording", path);
	json_key_u64(&j, "addresses", r->addresses);
	json_key_u64(&j, "named", named(r->by));
	json_key_u64(&j, "with_line", r->with_line);
	json_key_u64(&j, "rows", r->rows);
	json_key_object(&j, "by");
	write_sources(&j, r->by);
	json_end(&j);
	json_key_array(&j, "modules");
	for (size_t i = 0; i < count; i++) {
		if (!named(reports[i].addresses) && !unnamed(reports[i].addresses))
			continue;
		json_object(&j);
		json_key_string(&j, "path", reports[i].path);
		json_key_u64(&j, "with_line", reports[i].with_line);
		write_sources(&j, reports[i].addresses);
		json_key_string(&j, "reason", *reports[i].reason ? reports[i].reason : NULL);
		json_end(&j);
	}
	json_finish(&j);
}

/* Prints a table of modules with unresolved addresses. */
static void print_unnamed(const struct symbolize_result *r, const struct context *c,
			  struct strbuf *out)
{
	static const struct text_column columns[] = {
		RIGHT("without name"),
		RIGHT("of"),
		LEFT("module"),
		FLEXIBLE("why"),
	};
	_cleanup_table_ struct text_table t = TEXT_TABLE_INIT(columns);
	size_t count, shown = 0, unopened = 0;
	const struct symbol_module_report *reports = symbolizer_reports(r->symbolizer, &count);

	for (size_t i = 0; i < count; i++) {
		const struct symbol_module_report *m = &reports[i];

		if (!unnamed(m->addresses))
			continue;
		text_table_addf(&t, "%llu", (unsigned long long)unnamed(m->addresses));
		text_table_addf(&t, "%llu",
				(unsigned long long)(unnamed(m->addresses) + named(m->addresses)));
		text_table_safe(&t, m->path);
		text_table_safe(&t, *m->reason ? m->reason : "code without a symbol");
		shown++;
		unopened += *m->reason && *m->path == '/';
	}
	if (shown) {
		strbuf_addc(out, '\n');
		text_table_print(&t, 2, c->width, c->color, out);
	}
	if (unopened && !option_debug_path.count)
		strbuf_adds(out, "\n  try: pitot symbolize -d DIR, a folder with debug files or "
				 "copies of them\n");
}

static void print_text(const struct symbolize_result *r, const struct context *c,
		       struct strbuf *out)
{
	human_count(out, r->addresses);
	strbuf_adds(out, " addresses: ");
	human_count(out, named(r->by));
	strbuf_adds(out, " with a function, ");
	human_count(out, r->with_line);
	strbuf_adds(out, " with a line, ");
	human_count(out, unnamed(r->by));
	strbuf_adds(out, " unknown\n");
	if (r->by[SOURCE_EARLIER])
		strbuf_addf(out, "%llu keep their earlier function\n",
			    (unsigned long long)r->by[SOURCE_EARLIER]);
	print_unnamed(r, c, out);
}

/* Lists the folders of --debug-path, then of $PITOT_DEBUG_PATH, which is split in place. */
static size_t debug_folders(char *environment, const char *folders[FOLDERS_MAX])
{
	size_t count = 0;

	for (unsigned i = 0; i < option_debug_path.count; i++)
		folders[count++] = option_debug_path.items[i];
	for (char *p = environment; p && *p && count < FOLDERS_MAX;) {
		size_t length = strcspn(p, ":");
		bool is_last = p[length] == 0;

		p[length] = 0;
		if (length)
			folders[count++] = p;
		p += length + !is_last;
	}
	return count;
}

/* Missing servers are not an error: only names are missing. */
static struct debuginfod *open_servers(const struct context *c)
{
	struct debuginfod *servers = NULL;
	struct error e = { 0 };

	if (option_debuginfod && debuginfod_open(&servers, &e) < 0)
		cli_warn(c, "without debuginfod: %s", e.text);
	return servers;
}

static void close_servers(const struct context *c, struct debuginfod *servers)
{
	if (servers && *debuginfod_problem(servers))
		cli_warn(c, "a debuginfod server failed: %s", debuginfod_problem(servers));
	debuginfod_free(servers);
}

static void warn_of_missing_folders(const struct context *c)
{
	for (unsigned i = 0; i < option_debug_path.count; i++)
		if (access(option_debug_path.items[i], F_OK) < 0)
			cli_warn(c, "--debug-path: '%s': %s", option_debug_path.items[i],
				 strerror(errno));
}

static int symbolize(struct context *c, const char *path, struct symbolizer_options *how)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct symbolize_result result;
	struct error e = { 0 };

	how->servers = open_servers(c);
	if (symbolize_recording(path, &(struct folder_id){ 0 }, how, &result, &e) < 0) {
		close_servers(c, how->servers);
		return cli_fail(c, &e);
	}
	if (c->json)
		print_json(&result, path, &out);
	else if (!result.addresses)
		cli_note(c,
			 "'%s' has no native call stacks; `pitot record --stacks all` records them",
			 path);
	else
		print_text(&result, c, &out);
	symbolize_release(&result);
	close_servers(c, how->servers);
	return cli_print(c, &out);
}

static int run(struct context *c, int argc, char **argv)
{
	const char *folders[FOLDERS_MAX], *variable = secure_getenv("PITOT_DEBUG_PATH");
	_cleanup_free_ char *environment = variable ? strdup(variable) : NULL, *path = NULL;
	struct symbolizer_options symbolizer_options = { .debug_folders = folders };
	struct error e = { 0 };

	(void)argc;
	path = cli_find_recording(c, argv[1], &e);
	if (!path)
		return cli_fail(c, &e);
	warn_of_missing_folders(c);
	symbolizer_options.debug_folder_count = debug_folders(environment, folders);
	symbolizer_options.no_lines = !option_lines;
	return symbolize(c, path, &symbolizer_options);
}

const struct command cmd_symbolize = {
	.name = "symbolize",
	.group = COMMAND_LOOK_INTO,
	.summary = "give names, files and lines to the call stacks of a recording",
	.usage = "[options] [RECORDING]",
	.description =
		"Resolves the addresses of all call stacks: functions from symbol tables, "
		"MiniDebugInfo or separate debug files, source lines and inlined functions from "
		"DWARF, JIT code from perf's maps, functions of the operating system's kernel from "
		"/proc/kallsyms. The names are written into the recording, so that it can be read "
		"on other machines. Names that the recording already has are kept where no new "
		"name is found. Without RECORDING it works on the newest *.pitot in the current "
		"folder.\n\n"
		"A file is used only if its build id matches the recorded one. Code without a name "
		"is shown as LIBRARY+0xFUNCTION, never with the name of a neighbouring function.",
	.options = options,
	.takes_recording = true,
	.operands_max = 1,
	.examples = examples,
	.notes = "ENVIRONMENT\n\n"
		 "PITOT_DEBUG_PATH: more folders with debug files, separated by colons.\n\n"
		 "DEBUGINFOD_URLS: servers for --debuginfod, separated by blanks.",
	.run = run,
};
