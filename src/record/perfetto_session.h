/*
 * perfetto_session.h: runs a command inside a session of Perfetto's tracing service. One file gets
 * the machine's own data and the packets of the recorder inside the command
 * (capture/perfetto_live.h).
 *
 * The session belongs to the machine's program `perfetto`, which reads the configuration and writes
 * the file at the end.
 */
#ifndef PITOT_RECORD_PERFETTO_SESSION_H
#define PITOT_RECORD_PERFETTO_SESSION_H

#include <stdbool.h>

#include "base/error.h"

struct perfetto_session_request {
	/* TraceConfig file, text or binary; NULL: GPU work, calls, scheduling, processes */
	const char *config;
	const char *output;
	bool force; /* replaces output */
	bool force_injection;
	/*
	 * Called once if perfetto still writes the file after the command has ended; `bytes` is the
	 * size so far. May be NULL.
	 */
	void (*still_writes)(void *user, uint64_t bytes);
	void *user;
};

struct perfetto_session_result {
	int status; /* of the command, or of a shell that cannot run it; 0: not tried */
	uint64_t bytes; /* size of the file */
	bool has_sources; /* the configuration names data sources of the recorder */
	struct error problem; /* code 0: the file is complete */
};

/*
 * Begins a session, runs argv in it, ends it, and waits for the file. The wait ends early after 30
 * s in which the file does not grow, or by a signal after the command's end; earlier signals are
 * passed on as in recording.h. Returns 0, or a negative code; then the command did not run and
 * there is no file.
 */
int perfetto_session_run(const struct perfetto_session_request *request, char **argv,
			 struct perfetto_session_result *result, struct error *e) MUST_USE;

#endif
