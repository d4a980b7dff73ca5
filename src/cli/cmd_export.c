/* cmd_export.c: `pitot export`: a recording as a page, or in the format of another tool. */
#include <errno.h>
#include <string.h>

#include "base/human.h"
#include "base/json.h"
#include "base/plural.h"
#include "cli/ui.h"
#include "cli/window.h"
#include "export/exporter.h"

static const char *option_output, *option_kernel, *option_scope;
static int option_format;
static struct window_options option_window;
static uint64_t option_split;
static bool format_given, split_given;
static bool option_stacks = true, option_path, option_force, option_compact, option_partition;

#define FORMAT_NAME(name, ...) #name,
static const char *const format_choices[] = { EXPORTERS(FORMAT_NAME) NULL };

static const struct option options[] = {
	OPTION(STRING, "output", 'o', option_output, "FILE",
	       "file to write, - for standard output (default: the recording's name)",
	       .is_path = true),
	OPTION(ENUM, "format", 0, option_format, NULL,
	       "format of the file (default: by its name, else perfetto)", .given = &format_given,
	       .choices = format_choices),
	WINDOW_OPTIONS(option_window),
	KERNEL_OPTION(option_kernel),
	SCOPE_OPTION(option_scope),
	FLAG("critical-path", 0, option_path,
	     "to perfetto and html: also what bounded the time, as a track", .group = "output"),
	FLAG("stacks", 0, option_stacks,
	     "export call stacks of calls and, to perfetto and html, CPU samples (default: on)",
	     .negatable = true, .group = "output"),
	OPTION(SIZE, "split-size", 0, option_split, "SIZE",
	       "perfetto: start a new file at this size (default: just below 2 GiB)",
	       .given = &split_given, .group = "output"),
	OPTION_RANK(RANK_HELP "; json: rank of a recording whose processes have none"),
	FLAG("partition", 0, option_partition,
	     "parquet, arrow, csv: files by job, host and rank, in folders job=J/host=H/rank=R",
	     .group = "output"),
	FLAG("compact", 0, option_compact,
	     "gpufl: one detail record for all identical launches instead of one per kernel",
	     .group = "output"),
	FLAG("force", 'f', option_force, "replace files that exist"),
	OPTION_FILE_MODE("mode"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot export -o train.perfetto-trace",
	  "the newest recording, for https://ui.perfetto.dev" },
	{ "pitot export -o train.html", "a timeline in one file, for any browser" },
	{ "pitot export train.pitot -o train.json.gz", "for HolisticTraceAnalysis" },
	{ "pitot export train.pitot -o - --format json --since 10s --until 12s",
	  "two seconds, to standard output" },
	{ "pitot export train.pitot -o train.gpufl", "a folder of logs for gpufl's analyzer" },
	{ "pitot export train.pitot -o train.parquet",
	  "a folder with a Parquet file for each table, for DuckDB, pandas or Spark" },
	{ "pitot export train.pitot -o train.csv",
	  "a folder with a CSV file for each table; train.arrow: with Arrow IPC files" },
	{ "pitot export train.pitot -o train.sqlite",
	  "a SQLite database with a view for each table" },
	{ NULL, NULL },
};

static bool is_standard_output(void)
{
	return option_output && !strcmp(option_output, "-");
}

static int find_exporter(const struct context *c, const struct exporter **exporter)
{
	_cleanup_strbuf_ struct strbuf formats = STRBUF_INIT;

	*exporter = &exporters[option_format];
	if (format_given || !option_output)
		return EXIT_DONE;
	file_formats_list(exporters, sizeof(*exporters), &formats);
	if (is_standard_output())
		return cli_usage(c, "standard output needs --format: %s", strbuf_text(&formats));
	*exporter = exporter_by_path(option_output);
	if (!*exporter)
		return cli_usage(c, "no format has files like '%s': give --format; there are %s",
				 option_output, strbuf_text(&formats));
	return EXIT_DONE;
}

/* Returns "train.perfetto-trace" for /data/train.pitot; NULL without memory. */
static char *default_output(const char *recording, const struct exporter *exporter)
{
	size_t length = strlen(recording), start, end;
	struct strbuf name = STRBUF_INIT;

	while (length > 1 && recording[length - 1] == '/')
		length--;
	for (start = length; start > 0 && recording[start - 1] != '/'; start--)
		;
	for (end = length; end > start && recording[end - 1] != '.'; end--)
		;
	if (end <= start + 1)
		end = length + 1;
	strbuf_add(&name, recording + start, end - 1 - start);
	if (!name.length || !strcmp(strbuf_text(&name), "."))
		strbuf_adds(&name, name.length ? "/recording" : "recording");
	strbuf_add(&name, exporter->file.suffixes, strcspn(exporter->file.suffixes, " "));
	return name.failed ? NULL : name.data;
}

/* The rank of all processes that have one; 0 if they differ. */
static uint32_t rank_of(const struct trace *t)
{
	uint32_t rank = TRACE_NO_RANK;

	for (size_t i = 0; i < trace_process_count(t); i++) {
		uint32_t own = trace_process(t, i)->rank;

		if (own != TRACE_NO_RANK && rank != TRACE_NO_RANK && own != rank)
			return 0;
		rank = own != TRACE_NO_RANK ? own : rank;
	}
	return rank != TRACE_NO_RANK ? rank : 0;
}

static int make_options(const struct context *c, const struct trace *t, struct export_options *x)
{
	int status;

	*x = (struct export_options)EXPORT_ALL;
	status = window_resolve(c, t, &option_window, &x->since_ns, &x->until_ns);
	if (status != EXIT_DONE)
		return status;
	x->kernel = option_kernel;
	x->scope = option_scope;
	x->rank = cli_rank_given ? (uint32_t)cli_rank : rank_of(t);
	x->overwrite = option_force;
	x->critical_path = option_path;
	x->no_stacks = !option_stacks;
	x->split_bytes = option_split;
	x->compact = option_compact;
	x->partition = option_partition;
	x->cancel = &terminal_stop_signal;
	return EXIT_DONE;
}

static void add_count(struct strbuf *out, uint64_t n, const char *one, const char *many)
{
	if (n)
		cli_add_count(out, ", ", n, one, many);
}

static const struct {
	enum table_id table;
	const char *one, *many;
} counted[] = {
	{ TABLE_kernel, "kernel", "kernels" },
	{ TABLE_memcpy, "copy", "copies" },
	{ TABLE_memset, "memset", "memsets" },
	{ TABLE_graph_launch, "graph", "graphs" },
	{ TABLE_api_call, "call", "calls" },
	{ TABLE_nvtx, "range or mark", "ranges and marks" },
	{ TABLE_counter_sample, "counter reading", "counter readings" },
	{ TABLE_cpu_sample, "CPU sample", "CPU samples" },
	{ TABLE_off_cpu, "time off the CPU", "times off the CPU" },
	{ TABLE_loss, "loss", "losses" },
};

/* The kinds of events add up to the events; arrows are not events. */
static void describe(const char *path, const struct export_result *result, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf what = STRBUF_INIT;
	uint64_t events = export_result_events(result), others = events;

	for (size_t i = 0; i < ARRAY_SIZE(counted); i++) {
		add_count(&what, result->written[counted[i].table], counted[i].one,
			  counted[i].many);
		others -= result->written[counted[i].table];
	}
	add_count(&what, others, "other", "others");
	strbuf_addf(out, "%s: ", strcmp(path, "-") ? path : "standard output");
	if (result->files > 1)
		strbuf_addf(out, "%u files, ", result->files);
	human_bytes(out, result->bytes);
	strbuf_adds(out, ", ");
	human_count(out, events);
	strbuf_addf(out, " %s", plural_of(events, "event", "events"));
	if (what.length)
		strbuf_addf(out, " (%s)", strbuf_text(&what));
	if (result->arrows)
		cli_add_count(out, ", ", result->arrows, "arrow", "arrows");
}

/* Number of CPU samples, or times off the CPU, of the recording that the format cannot show. */
static uint64_t unshown(const struct trace *t, const struct exporter *exporter, enum table_id table)
{
	return exporter->has_samples ? 0 : trace_rows(t, table);
}

static void describe_omissions(const struct trace *t, const struct exporter *exporter,
			       const struct export_result *result, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf what = STRBUF_INIT, samples = STRBUF_INIT;
	uint64_t untimed = 0;

	for (size_t i = 0; i < TABLE_END; i++)
		untimed += result->untimed[i];
	add_count(&what, untimed, "row without its times", "rows without their times");
	add_count(&what, result->unpaired, "end of an NVTX range that began before the recording",
		  "ends of NVTX ranges that began before the recording");
	add_count(&what, result->crowded, "slice of a track that is too crowded",
		  "slices of tracks that are too crowded");
	if (what.length)
		strbuf_addf(out, "; left out: %s", strbuf_text(&what));
	add_count(&samples, unshown(t, exporter, TABLE_cpu_sample), "CPU sample", "CPU samples");
	add_count(&samples, unshown(t, exporter, TABLE_off_cpu), "time off the CPU",
		  "times off the CPU");
	if (samples.length)
		strbuf_addf(out, "; %s cannot show the recording's %s", exporter->file.name,
			    strbuf_text(&samples));
}

static int print_json(const struct context *c, const struct trace *t, const char *path,
		      const struct exporter *exporter, const struct export_result *result)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct json j = JSON_PRETTY(&out);
	static const char *const keys[] = { "written", "untimed" };
	const uint64_t *const counts[] = { result->written, result->untimed };

	json_object(&j);
	json_key_string(&j, "file", path);
	json_key_string(&j, "format", exporter->file.name);
	json_key_u64(&j, "files", result->files);
	json_key_u64(&j, "bytes", result->bytes);
	json_key_u64(&j, "events", export_result_events(result));
	for (size_t k = 0; k < ARRAY_SIZE(keys); k++) {
		json_key_object(&j, keys[k]);
		for (uint32_t id = 1; id <= TABLE_MAX; id++)
			if (counts[k][id])
				json_key_u64(&j, schema_table(id)->name, counts[k][id]);
		json_end(&j);
	}
	json_key_object(&j, "unshown");
	for (uint32_t id = TABLE_cpu_sample; id <= TABLE_off_cpu; id++)
		if (unshown(t, exporter, id))
			json_key_u64(&j, schema_table(id)->name, unshown(t, exporter, id));
	json_end(&j);
	json_key_u64(&j, "arrows", result->arrows);
	json_key_u64(&j, "unlinked", result->unlinked);
	json_key_u64(&j, "unpaired", result->unpaired);
	json_key_u64(&j, "crowded", result->crowded);
	json_finish(&j);
	return cli_print(c, &out);
}

/* Explains why there is no event, and how to get some. No file was written. */
static int nothing_to_export(const struct context *c, const struct trace *t,
			     const struct exporter *exporter, const struct export_result *result)
{
	_cleanup_strbuf_ struct strbuf why = STRBUF_INIT;
	bool samples = trace_rows(t, TABLE_cpu_sample) || trace_rows(t, TABLE_off_cpu);

	if (option_window.since_given || option_window.until_given)
		strbuf_adds(&why, "no event starts between --since and --until");
	else if (option_kernel)
		strbuf_addf(&why, "no kernel matches '%s', and there is nothing else",
			    option_kernel);
	else if (option_scope)
		strbuf_addf(&why,
			    "nothing is inside scopes that match '%s'; `pitot report --scopes` "
			    "lists the scopes",
			    option_scope);
	else if (samples && !exporter->has_samples)
		strbuf_addf(
			&why,
			"%s cannot show CPU samples, and there is nothing else; `pitot export "
			"-o x.html`, `pitot export --format perfetto` and `pitot flame` show them",
			exporter->file.name);
	else if (samples)
		strbuf_adds(&why, "--no-stacks leaves out CPU samples, and there is nothing else");
	else {
		strbuf_adds(&why, "the recording has no GPU work, calls or CPU samples; `pitot "
				  "report` says why");
		describe_omissions(t, exporter, result, &why);
	}
	return cli_failf(c, "nothing to export: %s", strbuf_text(&why));
}

/* Replaces the progress bar of loading when the first event is written. */
static void show_writing(void *user, uint64_t done, uint64_t total)
{
	static const char writing[] = "writing";
	struct progress *p = user;

	if (p->what != writing) {
		progress_end(p);
		progress_start(p, p->context, writing);
	}
	progress_update(p, done, total);
}

static int write_trace(struct progress *progress, struct trace *t, const struct exporter *exporter,
		       const char *path)
{
	const struct context *c = progress->context;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	struct export_result result;
	struct export_options x;
	struct error e = { 0 };
	int status = make_options(c, t, &x), rc;

	if (status != EXIT_DONE)
		return status;
	x.progress = show_writing;
	x.progress_user = progress;
	rc = exporter->write(t, &x, path, &result, &e);
	progress_end(progress);
	if (rc < 0 && terminal_stop_signal)
		return 128 + terminal_stop_signal;
	if (rc == -ENODATA)
		return nothing_to_export(c, t, exporter, &result);
	if (rc < 0)
		return cli_fail(c, &e);
	if (option_kernel && !result.written[TABLE_kernel])
		cli_warn(c, "no kernel matches '%s'", option_kernel);
	else if (option_scope && !result.written[TABLE_kernel])
		cli_warn(c, "no kernel was launched inside of '%s': pitot report --scopes",
			 option_scope);
	if (result.left)
		cli_warn(c,
			 "%u %s of an earlier export %s still in '%s', and readers take %s for "
			 "%s of this one: remove the folder, then export again",
			 result.left, plural_of(result.left, "file", "files"),
			 plural_of(result.left, "is", "are"), path,
			 plural_of(result.left, "it", "them"),
			 plural_of(result.left, "a part", "parts"));
	if (c->json)
		return print_json(c, t, path, exporter, &result);
	describe(path, &result, &line);
	describe_omissions(t, exporter, &result, &line);
	cli_note(c, "%s", strbuf_text(&line));
	return EXIT_DONE;
}

/* Refuses options that the format does not support. */
static int check_format(const struct context *c, const struct exporter *exporter)
{
	bool standard_output = is_standard_output();

	if (split_given && (!exporter->splits || standard_output))
		return cli_usage(c, "--split-size: %s is one file; Perfetto files can be split",
				 standard_output ? "standard output" : exporter->file.name);
	if (option_compact && exporter->write != gpufl_write)
		return cli_usage(c, "--compact: %s has no detail records; only gpufl has them",
				 exporter->file.name);
	if (option_partition && (!exporter->is_folder || exporter->write == gpufl_write))
		return cli_usage(c, "--partition: %s has no folder of tables", exporter->file.name);
	if (option_path && exporter->write != perfetto_write && exporter->write != html_write)
		return cli_usage(
			c, "--critical-path: %s has no track for it; perfetto and html have%s",
			exporter->file.name,
			exporter->write == dot_write ? ", and dot shows it in red anyway" : "");
	if (standard_output && exporter->is_folder)
		return cli_usage(c, "%s is a folder: name one with -o", exporter->file.name);
	if (standard_output && (c->json || isatty(STDOUT_FILENO)))
		return cli_usage(c, c->json ? "--json goes to standard output: name a file with -o"
					    : "standard output is a terminal: name a file with -o");
	return EXIT_DONE;
}

static int run(struct context *c, int argc, char **argv)
{
	const struct exporter *exporter;
	_cleanup_free_ char *recording = NULL, *made = NULL;
	struct trace *trace = NULL;
	struct progress progress;
	int status = find_exporter(c, &exporter);

	(void)argc;
	if (status == EXIT_DONE)
		status = check_format(c, exporter);
	if (status != EXIT_DONE)
		return status;
	cli_rank_is_label = exporter->has_rank;
	terminal_catch_signals();
	status = cli_open_trace(c, argv[1], &progress, &recording, &trace);
	if (status != EXIT_DONE)
		return status;
	if (!option_output)
		option_output = made = default_output(recording, exporter);
	if (!option_output)
		status = cli_failf(c, "out of memory");
	else
		status = write_trace(&progress, trace, exporter, option_output);
	cli_warn_loss(c, trace);
	trace_free(trace);
	return status;
}

#define END_OF(name, suffixes, ...) " " suffixes
#define ENDS EXPORTERS(END_OF)

const struct command cmd_export = {
	.name = "export",
	.group = COMMAND_CONVERT,
	.summary = "write a recording as a page, or in the format of another tool",
	.usage = "[options] [RECORDING]",
	.description =
		"Writes a recording, by default the newest in the current folder, as a Perfetto "
		"trace, as Chrome trace JSON in the dialect of PyTorch's profiler, as an HTML "
		"timeline that needs only a browser, as gpufl's logs, as an SBT file for "
		"TraceSmith, with all its tables as Parquet, Arrow or CSV files or a SQLite "
		"database, or what waited for what as a graph for Graphviz. The format follows "
		"from the end of the file's name:" ENDS ".\n\n"
		"Every kernel, copy and memset appears once, with an arrow from the call that "
		"launched it. Events that cannot be shown, such as kernels whose times the GPU did "
		"not deliver, are counted at the end. A Perfetto trace that would exceed 2 GiB is "
		"written as several files that follow each other in time: x.perfetto-trace, "
		"x-2.perfetto-trace and so on. A file gets its name when it is complete. gpufl's "
		"logs are a folder with one subfolder per process, Parquet files a folder with one "
		"for each table.",
	.options = options,
	.takes_recording = true,
	.operands_max = 1,
	.examples = examples,
	.notes = "EXIT STATUS\n\n"
		 "1 when there is nothing to export; then no file is written.",
	.run = run,
};
