/* cmd_import.c: `pitot import`: converts the recording of another tool. */
#include <string.h>

#include "base/human.h"
#include "base/json.h"
#include "cli/ui.h"
#include "format/recording_dir.h"
#include "format/recording_json.h"
#include "import/importer.h"
#include "trace/columns.h"

#define OPERANDS_MAX 100

static const char *option_output, *option_into;
static uint64_t option_pid;
static int option_format;
static bool option_force, format_given, pid_given;

#define FORMAT_NAME(name, reads) #name,
#define FORMAT_READS(name, reads) "\n\n" #name ": " reads "."
static const char *const format_choices[] = { IMPORTERS(FORMAT_NAME) NULL };

static const struct option options[] = {
	OPTION(STRING, "output", 'o', option_output, "DIR",
	       "folder of the recording (default: NAME-DATE-TIME.pitot)", .is_path = true),
	OPTION(ENUM, "format", 0, option_format, NULL,
	       "format of the input (default: by its content)", .given = &format_given,
	       .choices = format_choices),
	FLAG("force", 'f', option_force, "replace a recording that exists"),
	OPTION(STRING, "into", 0, option_into, "RECORDING",
	       "torch_memory: add the memory of PyTorch's allocator to this recording of the "
	       "process, instead of making a new one",
	       .is_path = true),
	OPTION(U64, "pid", 0, option_pid, "PID",
	       "--into: the process, if the recording has several", .given = &pid_given),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot import ~/.gpufl/traces/20261101-120000_1a2b3c4d -o train.pitot",
	  "a run that gpufl recorded" },
	{ "pitot import logs && pitot report", "all sessions in a folder, then what they say" },
	{ "pitot import trace.json.gz && pitot report", "a trace of torch.profiler" },
	{ "pitot import snapshot.pickle --into train.pitot", "memory beside the run it is of" },
	{ "ssh node1 cat logs/device.1.log.gz | pitot import -", "from standard input" },
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

static int print_json(const struct context *c, const char *directory, const char *format,
		      const struct import_result *result)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct json j = JSON_PRETTY(&out);

	json_object(&j);
	json_key_string(&j, "recording", directory);
	json_key_string(&j, "format", format);
	json_key_u64(&j, "sessions", result->sessions);
	json_key_u64(&j, "files", result->files);
	json_key_u64(&j, "bytes", result->bytes);
	json_key_u64(&j, "records", result->records);
	json_key_u64(&j, "unknown", result->unknown);
	json_key_u64(&j, "damaged", result->damaged);
	json_key_array(&j, "notes");
	for (const char *p = strbuf_text(&result->notes); *p; p += strspn(p, "\n")) {
		size_t length = strcspn(p, "\n");

		json_bytes(&j, p, length);
		p += length;
	}
	json_end(&j);
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
	for (const char *p = strbuf_text(&result->notes); *p; p += strspn(p, "\n")) {
		size_t length = strcspn(p, "\n");

		cli_note(c, "%.*s", (int)length, p);
		p += length;
	}
}

/* The operands: all are opened before a recording is created, which may replace another. */
struct operand {
	struct import_source source;
	const struct importer *importer;
};

static int open_all(char **paths, int count, struct operand *operands, struct error *e)
{
	int rc = 0;

	for (int i = 0; i < count && rc >= 0; i++) {
		if (format_given)
			operands[i].importer = &importers[option_format];
		rc = import_open(&operands[i].source, paths[i], &terminal_stop_signal,
				 &operands[i].importer, e);
	}
	return rc;
}

/* folder: the identity of a new recording; NULL: rows are added to one that exists. */
static int import(const struct context *c, char **argv, struct operand *operands, int count,
		  const char *directory, const struct folder_id *folder,
		  const struct import_target *into)
{
	struct import_options o = { .into = into,
				    .progress = progress_update,
				    .cancel = &terminal_stop_signal };
	_cleanup_(import_result_release) struct import_result result = { 0 };
	struct error e = { 0 };
	struct progress progress;
	int rc = 0;

	progress_start(&progress, c, "importing");
	o.progress_user = &progress;
	for (int i = 0; i < count && rc >= 0; i++)
		rc = operands[i].importer->run(&operands[i].source, &o, directory, &result, &e);
	progress_end(&progress);
	if (rc >= 0 && folder)
		rc = write_identity(directory, folder, argv, &result, &e);
	import_note_ranks(&result);
	if (rc < 0) {
		if (folder)
			recording_dir_remove(directory, folder, NULL);
		rc = terminal_stop_signal ? 128 + terminal_stop_signal : cli_fail(c, &e);
	} else if (c->json) {
		rc = print_json(c, directory, operands->importer->name, &result);
	} else {
		print_note(c, directory, &result);
		rc = EXIT_DONE;
	}
	return rc;
}

/* The process of --pid, or the only one that was recorded. */
static const struct trace_process *target_process(const struct context *c, const struct trace *t)
{
	const struct trace_process *found = NULL;

	for (size_t i = 0; i < trace_process_count(t); i++) {
		const struct trace_process *p = trace_process(t, i);

		if (p->subject != i || !p->inside || (pid_given && p->pid != option_pid))
			continue;
		if (found && found->pid != p->pid) {
			cli_failf(c,
				  "'%s' has several processes: choose one with --pid, as `pitot "
				  "info` lists them",
				  option_into);
			return NULL;
		}
		found = p;
	}
	if (!found && pid_given)
		cli_failf(c, "'%s' has no process %llu; `pitot info` lists them", option_into,
			  (unsigned long long)option_pid);
	else if (!found)
		cli_failf(c, "'%s' has no recorded process", option_into);
	return found;
}

/* A second history of an allocator would count its blocks twice. */
static int check_allocator(const struct context *c, struct trace *t, uint32_t pid)
{
	struct error e = { 0 };

	if (trace_load(t, TABLE_allocation, COLUMN_BITS(allocation, kind), &e) < 0)
		return cli_fail(c, &e);
	for (uint64_t row = 0; row < trace_rows(t, TABLE_allocation); row++) {
		uint8_t kind = allocation_columns(t)->kind[row];

		if ((kind == memory_kind_allocator_segment ||
		     kind == memory_kind_allocator_block) &&
		    trace_process(t, trace_row_process(t, TABLE_allocation, row))->pid == pid)
			return cli_failf(c, "'%s' has the history of an allocator of process %u",
					 option_into, pid);
	}
	return EXIT_DONE;
}

static int import_into(const struct context *c, char **argv, struct operand *operands, int count)
{
	const struct trace_process *process;
	struct trace *t = NULL;
	struct error e = { 0 };
	int status = EXIT_FAILED;

	if (trace_open(option_into, NULL, &t, &e) < 0)
		return cli_fail(c, &e);
	process = target_process(c, t);
	if (process && check_allocator(c, t, process->pid) == EXIT_DONE) {
		struct import_target into = {
			.pid = process->pid,
			.boot_id = trace_string(t, process->boot_id),
			.host = process->host,
			.unix_offset_ns =
				(uint64_t)trace_unix_ns(t, process->end_ns) - process->end_ns,
		};

		status = import(c, argv, operands, count, option_into, NULL, &into);
	}
	trace_free(t);
	return status;
}

static int open_and_import(const struct context *c, char **argv, struct operand *operands,
			   int count)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	_cleanup_free_ char *directory = NULL;
	struct folder_id folder;
	struct error e = { 0 };

	terminal_catch_signals();
	if (open_all(argv + 1, count, operands, &e) < 0)
		return terminal_stop_signal ? 128 + terminal_stop_signal : cli_fail(c, &e);
	for (int i = 0; option_into && i < count; i++)
		if (strcmp(operands[i].importer->name, "torch_memory") != 0)
			return cli_failf(
				c,
				"'%s' is of format %s: only torch_memory can be added to a "
				"recording; leave out --into",
				argv[1 + i], operands[i].importer->name);
	if (option_into)
		return import_into(c, argv, operands, count);
	recording_name(1, argv + 1, &name);
	directory =
		recording_dir_create(option_output, strbuf_text(&name), option_force, &folder, &e);
	return directory ? import(c, argv, operands, count, directory, &folder, NULL)
			 : cli_fail(c, &e);
}

static int run(struct context *c, int argc, char **argv)
{
	struct operand operands[OPERANDS_MAX];
	int status;

	if (argc < 2)
		return cli_usage(c, "name what to import");
	if (option_into && (option_output || option_force))
		return cli_usage(c, "--into adds to a recording: leave out -o and --force");
	if (pid_given && !option_into)
		return cli_usage(c, "--pid needs --into RECORDING");
	for (int i = 0; i < argc - 1; i++)
		operands[i] = (struct operand){ .source = { .folder = -1, .input.fd = -1 } };
	status = open_and_import(c, argv, operands, argc - 1);
	for (int i = 0; i < argc - 1; i++)
		import_close(&operands[i].source);
	return status;
}

const struct command cmd_import = {
	.name = "import",
	.group = COMMAND_RECORD,
	.summary = "turn the recording of another tool into a Pitot recording",
	.usage = "[options] PATH...",
	.description = "Reads recordings of other tools and writes one that report, flame, view, "
		       "export and Python read like any other. PATH is a folder, a file, or - for "
		       "standard input, also compressed with gzip, zstd or xz. The format is found "
		       "by the content." IMPORTERS(
			       FORMAT_READS) "\n\n"
					     "Data that the input does not contain is missing in "
					     "the recording; `pitot "
					     "info` names it. Records that cannot be converted are "
					     "counted as a loss. "
					     "What is truncated is read as far as it goes.",
	.options = options,
	.operands_max = OPERANDS_MAX,
	.or_files = true,
	.examples = examples,
	.notes = "EXIT STATUS\n\n"
		 "1 if there is nothing to import or the recording cannot be written; then no "
		 "recording is left behind.",
	.run = run,
};
