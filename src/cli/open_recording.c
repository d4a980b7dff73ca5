/* open_recording.c: finds and opens the recording of a command: the operand, or the newest here. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/cost.h"
#include "base/folder.h"
#include "base/output.h"
#include "cli/ui.h"
#include "format/recording_dir.h"
#include "format/recording_json.h"
#include "record/symbolize.h"

#define READABLE 0044u /* for the group, for all */

const char *cli_file_mode;
uint64_t cli_rank;
bool cli_rank_given, cli_rank_is_label;

/*
 * Sets the permissions of the files that the command makes: the option's, or for those who may read
 * the recording.
 */
static int choose_file_mode(const struct context *c, const char *recording)
{
	_cleanup_close_ int folder = folder_open(recording, FOLDER_ANY);
	struct stat outer, inner;
	unsigned long mode = 0600;
	char *end;

	if (cli_file_mode) {
		mode = strtoul(cli_file_mode, &end, 8);
		if (*end || end == cli_file_mode || mode > 0777 || !(mode & 0200))
			return cli_usage(c, "'%s' is no octal number of permissions, such as 0644",
					 cli_file_mode);
	} else if (folder >= 0 && fstat(folder, &outer) == 0 &&
		   folder_stat(folder, RECORDING_JSON, &inner) == 0) {
		mode |= outer.st_mode & inner.st_mode & READABLE;
	}
	output_set_mode((unsigned)mode);
	return EXIT_DONE;
}

char *cli_find_recording(const struct context *c, const char *argument, struct error *e)
{
	char *name = argument ? strdup(argument) : recording_dir_find_newest(e);

	if (argument && !name)
		error_set(e, -ENOMEM, "out of memory");
	if (!argument && name)
		cli_note(c, "reading %s", name);
	return name;
}

int cli_open_with_names(const char *path, struct trace_options options, struct trace **trace,
			struct error *e)
{
	struct trace *named;
	char *folder = NULL;
	int rc;

	if (!recording_json_is_unfinished(path))
		return 0;
	rc = symbolize_temporary(path, &folder, e);
	options.symbols = folder;
	if (rc >= 0)
		rc = trace_open(path, &options, &named, e);
	symbolize_remove_temporary(folder);
	if (rc < 0)
		return rc;
	trace_free(*trace);
	*trace = named;
	return 0;
}

int cli_open_trace(const struct context *c, const char *recording, struct progress *progress,
		   char **path, struct trace **trace)
{
	struct trace_options options = { .progress = progress_update,
					 .progress_user = progress,
					 .only_rank = cli_rank_given,
					 .rank = (uint32_t)cli_rank };
	struct error e = { 0 };
	_cleanup_free_ char *found = NULL;
	int rc;

	if (cli_rank >= TRACE_NO_RANK)
		return cli_usage(c, "--rank takes a number below 2^32 - 1");
	found = cli_find_recording(c, recording, &e);
	if (!found)
		return cli_fail(c, &e);
	rc = choose_file_mode(c, found);
	if (rc != EXIT_DONE)
		return rc;
	progress_start(progress, c, "reading");
	rc = trace_open(found, &options, trace, &e);
	if (rc < 0) {
		progress_end(progress);
		cli_fail(c, &e);
		if (rc == -EACCES)
			cli_note(c,
				 "a recording is private; its owner shares it with: chmod -R go+rX "
				 "%s",
				 found);
		return EXIT_FAILED;
	}
	if (!c->command->no_names && cli_open_with_names(found, options, trace, &e) < 0)
		cli_note(c, "call stacks have no names: %s", e.text);
	if (cli_rank_given && !cli_rank_is_label && !trace_only_rank(*trace, NULL)) {
		progress_end(progress);
		trace_free(*trace);
		return cli_failf(c,
				 "--rank: the processes of '%s' have no ranks: no launcher of a "
				 "job that Pitot knows started them (docs/ranks.md)",
				 found);
	}
	if (path) {
		*path = found;
		found = NULL;
	}
	return EXIT_DONE;
}

void cli_warn_loss(const struct context *c, struct trace *t)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const struct loss_sum *worst;
	struct cost cost;

	if (cost_analyze(t, &cost, NULL) < 0)
		return;
	worst = cost_worst_loss(&cost);
	if (cost_find_loss(&cost, loss_reason_damaged_file) ||
	    cost_find_loss(&cost, loss_reason_missing_segment)) {
		cli_warn(c, "parts of the recording are damaged or missing and left out here; "
			    "`pitot info --verify` lists them");
	} else if (cost.effect == LOSS_UNSAFE && worst) {
		loss_sum_text(worst, &text);
		cli_warn(c, "%s: this covers only the rest; `pitot report` lists all losses",
			 strbuf_text(&text));
	}
	cost_release(&cost);
}
