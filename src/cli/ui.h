/* ui.h: what every subcommand needs to talk to a person: errors, notes, colours, progress, finding the recording. */
#ifndef PITOT_CLI_UI_H
#define PITOT_CLI_UI_H

#include "base/error.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "report/text.h"
#include "trace/trace.h"

/* Prints "pitot CMD: text" on stderr. Returns the exit status that fits: EXIT_USAGE for E_USAGE, else EXIT_FAILED. */
int cli_fail(const struct context *c, const struct error *e);
/* The same for a text; the status is EXIT_FAILED. */
int cli_failf(const struct context *c, const char *format, ...) PRINTF_LIKE(2, 3);
/* Wrong operands: the text, and where to find help. The status is EXIT_USAGE. */
int cli_usage(const struct context *c, const char *format, ...) PRINTF_LIKE(2, 3);
/* A line on stderr that is worth knowing but is no failure; not with -q. */
void cli_note(const struct context *c, const char *format, ...) PRINTF_LIKE(2, 3);
/* As cli_note, also with -q: something that the user must know to trust the result. */
void cli_warn(const struct context *c, const char *format, ...) PRINTF_LIKE(2, 3);

/* Writes a result to stdout. Returns EXIT_DONE, or EXIT_FAILED after saying why (out of memory, disk full). */
int cli_print(const struct context *c, const struct strbuf *text);

/* Columns of the terminal behind fd, or 0 when it is none. */
unsigned terminal_width(int fd);

/*
 * A bar on stderr for work that takes longer than a second; nothing when stderr is no terminal or with -q.
 * progress_update has the signature that trace_options.progress and the exporters want; user is the struct.
 */
struct progress {
	const struct context *context;
	const char *what; /* "reading", "exporting" */
	uint64_t start_ns, shown_ns;
	bool enabled, shown;
};

void progress_start(struct progress *p, const struct context *c, const char *what);
void progress_update(void *user, uint64_t done, uint64_t total);
void progress_end(struct progress *p); /* removes the bar */

/*
 * The recording to work on: `argument`, or, when it is NULL, the newest *.pitot in the current folder (with a note that
 * says which). Returns a path to be freed, or NULL.
 */
char *cli_find_recording(const struct context *c, const char *argument, struct error *e) MUST_USE;

/*
 * Finds (argv[1], or the newest) and opens the recording. On failure it has said what is wrong, and an exit status is
 * returned; on success EXIT_DONE, with *path (to be freed; path may be NULL) and *trace (trace_free). The bar is started
 * and goes on during trace_load; it must live as long as the trace, and progress_end ends it before anything is printed.
 */
int cli_open_trace(const struct context *c, int argc, char **argv, struct progress *progress,
		   char **path, struct trace **trace) MUST_USE;

#endif
