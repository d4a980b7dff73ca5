/* cmd_import.c: `pitot import`: converts the recording of another tool. */
#include <errno.h>
#include <string.h>

#include "base/folder.h"
#include "base/human.h"
#include "base/json.h"
#include "cli/ui.h"
#include "format/recording_dir.h"
#include "format/recording_json.h"
#include "import/importer.h"

static const char *option_output;
static int option_format;
static bool option_force;

#define FORMAT_NAME(name, ...) #name,
static const char *const format_choices[] = { IMPORTERS(FORMAT_NAME) NULL };

static const struct option options[] = {
	OPTION(STRING, "output", 'o', option_output, "DIR",
	       "folder of the recording (default: NAME-DATE-TIME.pitot)", .is_path = true),
	OPTION(ENUM, "format", 0, option_format, NULL, "format of the input (default: gpufl)",
	       .choices = format_choices),
	FLAG("force", 'f', option_force, "replace a recording that exists"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot import ~/.gpufl/traces/20261101-120000_1a2b3c4d -o train.pitot",
	  "a run that gpufl recorded" },
	{ "pitot import logs && pitot report", "all sessions in a folder, then what they say" },
	{ NULL, NULL },
};

/* Writes recording.json with the name and times of the imported sessions, which are known now. */
static int write_identity(const char *directory, const struct folder_id *folder, char **argv,
			  const struct import_result *result, struct error *e)
{
	struct recording_identity id = { .folder = *folder,
					 .name = *result->name ? result->name : "import",
					 .recorded_by = "pitot import",
					 .command = argv,
					 .start_monotonic_ns = result->start_ns,
					 .start_realtime_ns = result->start_ns,
					 .end_monotonic_ns = result->end_ns };

	return recording_json_write(directory, &id, e);
}

static int print_json(const struct context *c, const char *directory,
		      const struct import_result *result)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct json j = JSON_PRETTY(&out);

	json_object(&j);
	json_key_string(&j, "recording", directory);
	json_key_string(&j, "format", format_choices[option_format]);
	json_key_u64(&j, "sessions", result->sessions);
	json_key_u64(&j, "files", result->files);
	json_key_u64(&j, "bytes", result->bytes);
	json_key_u64(&j, "records", result->records);
	json_key_u64(&j, "unknown", result->unknown);
	json_key_u64(&j, "damaged", result->damaged);
	json_key_object(&j, "rows");
	for (uint32_t id = 1; id <= TABLE_MAX; id++)
		if (result->rows[id])
			json_key_u64(&j, schema_table(id)->name, result->rows[id]);
	json_finish(&j);
	return cli_print(c, &out);
}

static void print_note(const struct context *c, const char *directory,
		       const struct import_result *result)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	strbuf_addf(&line, "%s: ", directory);
	cli_add_count(&line, "", result->sessions, "session", "sessions");
	cli_add_count(&line, ", ", result->rows[TABLE_kernel], "kernel", "kernels");
	strbuf_adds(&line, ", ");
	human_bytes(&line, result->bytes);
	strbuf_adds(&line, " read");
	if (result->unknown)
		cli_add_count(&line, "; left out: ", result->unknown,
			      "record that cannot be converted",
			      "records that cannot be converted");
	if (result->damaged)
		cli_add_count(&line, result->unknown ? ", " : "; left out: ", result->damaged,
			      "damaged line", "damaged lines");
	cli_note(c, "%s", strbuf_text(&line));
}

static int import(const struct context *c, char **argv, const char *directory,
		  const struct folder_id *folder)
{
	struct import_options o = { .progress = progress_update, .cancel = &terminal_stop_signal };
	struct import_result result;
	struct error e = { 0 };
	struct progress progress;
	int rc;

	progress_start(&progress, c, "importing");
	o.progress_user = &progress;
	rc = importers[option_format].read(argv[1], &o, directory, &result, &e);
	progress_end(&progress);
	if (rc >= 0)
		rc = write_identity(directory, folder, argv, &result, &e);
	if (rc < 0) {
		recording_dir_remove(directory, folder, NULL);
		return terminal_stop_signal ? 128 + terminal_stop_signal : cli_fail(c, &e);
	}
	if (c->json)
		return print_json(c, directory, &result);
	print_note(c, directory, &result);
	return EXIT_DONE;
}

static int run(struct context *c, int argc, char **argv)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	_cleanup_free_ char *directory = NULL;
	_cleanup_list_ DIR *input = NULL;
	struct folder_id folder;
	struct error e = { 0 };

	if (argc < 2)
		return cli_usage(c, "name the folder to import");
	input = opendir(argv[1]);
	if (!input) {
		error_errno(&e, errno, "cannot read '%s'", argv[1]);
		return cli_fail(c, &e);
	}
	terminal_catch_signals();
	recording_name(1, argv + 1, &name);
	directory =
		recording_dir_create(option_output, strbuf_text(&name), option_force, &folder, &e);
	return directory ? import(c, argv, directory, &folder) : cli_fail(c, &e);
}

const struct command cmd_import = {
	.name = "import",
	.group = COMMAND_RECORD,
	.summary = "turn the recording of another tool into a Pitot recording",
	.usage = "[options] DIR",
	.description = "Reads a folder of gpufl's logs, of one session or of many, and writes a "
		       "recording that report, flame, view, export and Python read like any other. "
		       "Each session becomes a process. Windows that are not closed and truncated "
		       "logs are read as far as they go.\n\n"
		       "Data that the logs do not contain is missing in the recording; `pitot "
		       "info` names it. Records that cannot be converted are counted as a loss. "
		       "Call stacks are those of the logs; times of calls are not available.",
	.options = options,
	.operands_max = 1,
	.or_files = true,
	.examples = examples,
	.notes = "EXIT STATUS\n\n"
		 "1 if there is nothing to import or the recording cannot be written; then no "
		 "recording is left behind.",
	.run = run,
};
