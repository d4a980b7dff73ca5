#include "cli/measure_recording.h"

#include <stdlib.h>

int measure_recording(const struct context *c, const char *recording, struct measured_run *run)
{
	_cleanup_free_ char *path = NULL;
	struct trace *trace = NULL;
	struct progress progress;
	struct error e = { 0 };
	int status = cli_open_trace(c, recording, &progress, &path, &trace);

	if (status != EXIT_DONE)
		return status;
	if (measured_run_init(run, path ? path : recording, trace, &e) < 0)
		status = EXIT_FAILED;
	progress_end(&progress);
	if (status != EXIT_DONE)
		cli_fail(c, &e);
	trace_free(trace);
	return status;
}
