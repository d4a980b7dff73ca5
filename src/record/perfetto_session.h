/*
 * perfetto_session.h: a command inside a session of Perfetto's tracing service: one file with the
 * machine's own data and what the recorder inside the command sends (capture/perfetto_live.h).
 *
 * The session belongs to the machine's program `perfetto`, which reads the configuration, and
 * writes the file at the end.
 */
#ifndef PITOT_RECORD_PERFETTO_SESSION_H
#define PITOT_RECORD_PERFETTO_SESSION_H

#include <stdbool.h>

#include "base/error.h"

struct perfetto_session_request {
	/*
	 * file with a TraceConfig, as text or encoded; NULL: GPU work, calls, scheduling, processes
	 */
	const char *config;
	const char *output;
	bool force; /* replaces output */
	bool force_injection;
	/*
	 * The command has ended, and perfetto has not: it has written so many bytes. Once.
	 * NULL: nobody wants to know.
	 */
	void (*still_writes)(void *user, uint64_t bytes);
	void *user;
};

struct perfetto_session_result {
	int status; /* of the command, or of a shell that cannot run it; 0: it was not tried */
	uint64_t bytes; /* of the file */
	bool has_sources; /* the configuration names data sources of the recorder */
	struct error problem; /* code 0: the file is complete */
};

/*
 * Begins a session, runs argv in it, ends it, and waits for the file while it grows: 30 s without a
 * byte more, or a signal after the command's end, end that. Signals before it are passed on as in
 * recording.h. 0, or a negative code, and then the command did not run and there is no file.
 */
int perfetto_session_run(const struct perfetto_session_request *request, char **argv,
			 struct perfetto_session_result *result, struct error *e) MUST_USE;

#endif
