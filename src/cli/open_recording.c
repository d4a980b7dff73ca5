/* open_recording.c: the recording that a command works on: the one named, or the newest here. */
#include <errno.h>
#include <string.h>

#include "cli/ui.h"
#include "record/find_recording.h"

char *cli_find_recording(const struct context *c, const char *argument, struct error *e)
{
	char *name = argument ? strdup(argument) : find_newest_recording(e);

	if (argument && !name)
		error_set(e, -ENOMEM, "out of memory");
	if (!argument && name)
		cli_note(c, "reading %s", name);
	return name;
}

int cli_open_trace(const struct context *c, int argc, char **argv, struct progress *progress,
		   char **path, struct trace **trace)
{
	struct trace_options options = { .progress = progress_update, .progress_user = progress };
	struct error e = { 0 };
	_cleanup_free_ char *found = NULL;
	int r;

	if (argc > 2)
		return cli_usage(c, "one recording at a time: what is '%s'?", argv[2]);
	found = cli_find_recording(c, argc > 1 ? argv[1] : NULL, &e);
	if (!found)
		return cli_fail(c, &e);
	progress_start(progress, c, "reading");
	r = trace_open(found, &options, trace, &e);
	if (r < 0) {
		progress_end(progress);
		return cli_fail(c, &e);
	}
	if (path) {
		*path = found;
		found = NULL;
	}
	return EXIT_DONE;
}
