/* cmd_merge.c: `pitot merge`: one recording of several, such as those of the hosts of a job. */
#include "base/human.h"
#include "base/json.h"
#include "base/plural.h"
#include "cli/ui.h"
#include "format/recording_json.h"
#include "record/merge.h"

#define RECORDINGS_MAX 65536

static const char *output;
static bool force;

static const struct option options[] = {
	OPTION(STRING, "output", 'o', output, "DIR", "write into DIR", .is_path = true),
	FLAG("force", 'f', force, "replace DIR if it is a recording"),
	OPTION_END,
};

static const struct command_example examples[] = {
	{ "pitot merge host-0.pitot host-1.pitot -o job.pitot", "the recordings of two hosts" },
	{ "pitot merge run.*.pitot -o job.pitot", "of `srun pitot record -o run.%n.pitot`" },
	{ "pitot report job.pitot --ranks", "which rank delays the others" },
	{ NULL, NULL },
};

static void print_json(const struct merge_result *r, size_t recordings, struct strbuf *out)
{
	struct json j = JSON_PRETTY(out);

	json_object(&j);
	json_key_string(&j, "recording", output);
	json_key_u64(&j, "recordings", recordings);
	json_key_u64(&j, "segments", r->segments);
	json_key_u64(&j, "unreadable_segments", r->unreadable);
	json_key_u64(&j, "linked_files", r->linked);
	json_key_u64(&j, "bytes", r->bytes);
	json_key_u64(&j, "hosts", r->hosts);
	json_key_u64(&j, "processes", r->processes);
	json_key_u64(&j, "ranks", r->ranks);
	json_finish(&j);
}

static void print_note(const struct context *c, const struct merge_result *r, size_t recordings)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	cli_add_count(&line, "", recordings, "recording", "recordings");
	if (r->hosts)
		cli_add_count(&line, " of ", r->hosts, "host", "hosts");
	cli_add_count(&line, ", ", r->processes, "process", "processes");
	if (r->ranks)
		cli_add_count(&line, ", ", r->ranks, "rank", "ranks");
	strbuf_adds(&line, ", ");
	human_bytes(&line, r->bytes);
	strbuf_adds(&line, r->linked ? " in files that both share" : " copied");
	strbuf_adds(&line, strbuf_text(&r->remarks));
	cli_note(c, "%s: %s", output, strbuf_text(&line));
}

/* What makes the result less than it may seem. */
static void warn(const struct context *c, const struct merge_result *r, char **recordings)
{
	for (; *recordings; recordings++) {
		if (recording_json_is_recording(*recordings))
			cli_warn(c,
				 "'%s' is not complete: if it still grows, merge again when it has "
				 "ended",
				 *recordings);
		else if (recording_json_is_unfinished(*recordings))
			cli_note(c, "'%s' has no function names yet: pitot symbolize %s",
				 *recordings, output);
	}
	if (r->unreadable)
		cli_warn(c, "%llu %s cannot be read; `pitot info --verify` lists them",
			 (unsigned long long)r->unreadable,
			 plural_of(r->unreadable, "segment", "segments"));
	if (r->other_cubins)
		cli_warn(c, "%llu %s of device code differ from others with their checksum",
			 (unsigned long long)r->other_cubins,
			 plural_of(r->other_cubins, "file", "files"));
}

static int run(struct context *c, int argc, char **argv)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct progress progress;
	struct merge_result result = { 0 };
	struct error e = { 0 };
	struct merge_request request = { .recordings = argv + 1,
					 .count = (size_t)argc - 1,
					 .output = output,
					 .force = force,
					 .command = argv,
					 .stop = &terminal_stop_signal,
					 .progress = progress_update,
					 .progress_user = &progress };
	int status = EXIT_DONE, rc;

	if (argc < 2)
		return cli_usage(c, "name the recordings to merge");
	if (!output)
		return cli_usage(c, "name the new recording with -o");
	terminal_catch_signals();
	progress_start(&progress, c, "merging");
	rc = merge_recordings(&request, &result, &e);
	progress_end(&progress);
	if (rc < 0)
		status = terminal_stop_signal ? 128 + terminal_stop_signal : cli_fail(c, &e);
	else
		warn(c, &result, argv + 1);
	if (rc >= 0 && c->json) {
		print_json(&result, request.count, &out);
		status = cli_print(c, &out);
	} else if (rc >= 0) {
		print_note(c, &result, request.count);
	}
	strbuf_release(&result.remarks);
	return status;
}

const struct command cmd_merge = {
	.name = "merge",
	.group = COMMAND_CONVERT,
	.summary = "make one recording of several, such as those of the hosts of a job",
	.usage = "-o DIR [options] RECORDING...",
	.description =
		"The new recording has the processes of all. It shares files with the others where "
		"the file system has hard links, and is a copy elsewhere; any of them can be "
		"removed without harm to the rest. It appears only when it is complete.\n\n"
		"A process that is in two of the recordings is an error. Ranks of the job that are "
		"in none of them are named, here and by `pitot report`. Clocks of hosts are "
		"aligned when the recording is read.",
	.options = options,
	.operands_max = RECORDINGS_MAX,
	.takes_recording = true,
	.examples = examples,
	.run = run,
};
