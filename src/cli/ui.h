/*
 * ui.h: what every subcommand needs to talk to a person: errors, notes, colours, progress, finding
 * the recording.
 */
#ifndef PITOT_CLI_UI_H
#define PITOT_CLI_UI_H

#include "base/error.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "report/text.h"
#include "trace/trace.h"

/*
 * Prints "pitot CMD: text" on stderr. Returns the exit status that fits: EXIT_USAGE for E_USAGE,
 * else EXIT_FAILED.
 */
int cli_fail(const struct context *c, const struct error *e);
/* Prints an error. Returns EXIT_FAILED. */
int cli_failf(const struct context *c, const char *format, ...) PRINTF_LIKE(2, 3);
/* Prints a usage error, and a note that names --help. Returns EXIT_USAGE. */
int cli_usage(const struct context *c, const char *format, ...) PRINTF_LIKE(2, 3);
/*
 * Prints the error about a word that is none of `known` (ends with NULL): "unknown table 'x', did
 * you mean 'y'?", or, where none is near, "unknown table 'x'; `pitot schema` lists them". Returns
 * EXIT_USAGE.
 */
int cli_unknown(const struct context *c, const char *what, const char *word,
		const char *const *known, const char *list);
/* Prints a note on stderr, unless -q. */
void cli_note(const struct context *c, const char *format, ...) PRINTF_LIKE(2, 3);
/* Prints a warning on stderr, also with -q: the user needs it to trust the result. */
void cli_warn(const struct context *c, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * Writes a result to stdout. Returns EXIT_DONE, or EXIT_FAILED after saying why (out of memory,
 * disk full).
 */
int cli_print(const struct context *c, const struct strbuf *text);

/* Appends "1 kernel" or "1,002 kernels", behind `separator` if there is something before. */
void cli_add_count(struct strbuf *out, const char *separator, uint64_t n, const char *one,
		   const char *many);

/* Columns of the terminal behind fd, or 0 when it is none. */
unsigned terminal_width(int fd);

/*
 * A bar on stderr for work that takes longer than a second; nothing when stderr is no terminal or
 * with -q. progress_update has the signature that trace_options.progress and the exporters want;
 * user is the struct.
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
 * Path of the recording, to be freed: `argument`, or, for NULL, the newest *.pitot in the current
 * folder, with a note that names it. NULL: an error.
 */
char *cli_find_recording(const struct context *c, const char *argument, struct error *e) MUST_USE;

/*
 * Opens the recording; NULL: the newest. On failure it has printed the error, and returns an exit
 * status; on success EXIT_DONE, with *path (to be freed; path may be NULL) and *trace (trace_free).
 * The bar is started and goes on during trace_load; it must live as long as the trace, and
 * progress_end ends it before anything is printed.
 */
int cli_open_trace(const struct context *c, const char *recording, struct progress *progress,
		   char **path, struct trace **trace) MUST_USE;

/*
 * The file descriptor that this part of the result belongs to. Standard output is a terminal, the
 * text is longer than it is high, c->pager holds and there is one: a pager's, which has then been
 * started ($PITOT_PAGER, $PAGER, or less). All that follows goes there, too, and exit() waits for
 * it. Else standard output.
 */
int pager_output(const struct context *c, const struct strbuf *text);
/* Whether writing failed because whoever reads has seen enough. */
bool pager_has_quit(int write_error);

#endif
