/*
 * ui.h: the user interface that all subcommands share: errors, notes, colours, progress, finding
 * the recording.
 */
#ifndef PITOT_CLI_UI_H
#define PITOT_CLI_UI_H

#include <poll.h>
#include <signal.h>

#include "base/error.h"
#include "base/options.h"
#include "base/strbuf.h"
#include "cli/command.h"
#include "report/text.h"
#include "trace/trace.h"

/*
 * Prints "pitot CMD: text" on stderr. Returns the exit status for the error: EXIT_USAGE for
 * E_USAGE, else EXIT_FAILED.
 */
int cli_fail(const struct context *c, const struct error *e);
/* Prints an error. Returns EXIT_FAILED. */
int cli_failf(const struct context *c, const char *format, ...) PRINTF_LIKE(2, 3);
/* Prints a usage error, and a note that names --help. Returns EXIT_USAGE. */
int cli_usage(const struct context *c, const char *format, ...) PRINTF_LIKE(2, 3);
/*
 * Prints an error for a word that is not in `known` (NULL-terminated): "unknown table 'x', did you
 * mean 'y'?" or, if no word is similar, "unknown table 'x'; `pitot schema` lists them". Returns
 * EXIT_USAGE.
 */
int cli_unknown(const struct context *c, const char *what, const char *word,
		const char *const *known, const char *list);
/* Prints a note on stderr, unless -q. */
void cli_note(const struct context *c, const char *format, ...) PRINTF_LIKE(2, 3);
/* Prints a warning on stderr, even with -q, because it affects trust in the result. */
void cli_warn(const struct context *c, const char *format, ...) PRINTF_LIKE(2, 3);

/*
 * Writes a result to stdout. Returns EXIT_DONE, or EXIT_FAILED after printing an error (out of
 * memory, disk full).
 */
int cli_print(const struct context *c, const struct strbuf *text);

/* Appends "1 kernel" or "1,002 kernels", after `separator` unless `out` is empty. */
void cli_add_count(struct strbuf *out, const char *separator, uint64_t n, const char *one,
		   const char *many);

/* Returns the columns of the terminal fd, or 0 if fd is not a terminal. */
unsigned terminal_width(int fd);

/*
 * A progress bar on stderr for work that takes longer than a second. Shows nothing with -q, or if
 * stderr is not a terminal. progress_update is a callback for trace_options.progress and the
 * exporters; its user pointer is the struct.
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
 * Returns the path of the recording: `argument` or, if that is NULL, the newest *.pitot in the
 * current folder, which a note names. The caller frees it. NULL on error.
 */
char *cli_find_recording(const struct context *c, const char *argument, struct error *e) MUST_USE;

/*
 * The option of all commands with an output file; its name is "file-mode" where "mode" has another
 * meaning.
 */
#define OPTION_FILE_MODE(name_)                                                                    \
	OPTION(STRING, name_, 0, cli_file_mode, "OCTAL",                                           \
	       "permissions of the file, such as 0644 (default: 0600, and readable for those who " \
	       "may read the recording)",                                                          \
	       .group = "output")
extern const char *cli_file_mode;

/* The option of commands that can show a single process: option_process and process_given. */
#define OPTION_PROCESS(help)                                                                       \
	OPTION(U64, "process", 0, option_process, "PID", help, .given = &process_given,            \
	       .group = "selection")

/* The option of commands that can show a single rank of a job. */
#define OPTION_RANK(help)                                                                          \
	OPTION(U64, "rank", 0, cli_rank, "N", help, .given = &cli_rank_given, .group = "selection")
#define RANK_HELP "only the processes with this rank in their job"
extern uint64_t cli_rank;
extern bool cli_rank_given, cli_rank_is_label; /* is_label: also of recordings without ranks */

/*
 * Opens the recording; NULL: the newest. On success returns EXIT_DONE, *path (the caller frees it;
 * path may be NULL) and *trace (trace_free). On failure prints the error and returns an exit
 * status. Starts the progress bar, which continues during trace_load. The bar must outlive the
 * trace; call progress_end before printing anything.
 */
int cli_open_trace(const struct context *c, const char *recording, struct progress *progress,
		   char **path, struct trace **trace) MUST_USE;

/*
 * Replaces the trace of a recording that `pitot record` has not completed: it has no function names
 * yet, which are resolved in memory, for this reader only. Returns 0 or a negative code; then the
 * trace stays as it is.
 */
int cli_open_with_names(const char *path, struct trace_options options, struct trace **trace,
			struct error *e);

/*
 * Warns of damaged or missing parts, and of losses that make figures unsafe; for commands that show
 * no losses.
 */
void cli_warn_loss(const struct context *c, struct trace *t);

/*
 * Returns the file descriptor for this part of the result. If standard output is a terminal, the
 * text has more lines than the terminal, and c->pager is set, starts a pager ($PITOT_PAGER, $PAGER,
 * or less) and returns its descriptor; all later parts go there, too, and exit() waits for the
 * pager. Otherwise returns standard output.
 */
int pager_output(const struct context *c, const struct strbuf *text);
/* Whether writing failed because the user has left the pager. */
bool pager_has_quit(int write_error);

/* Whether the locale allows block characters. */
bool terminal_shows_utf8(void);
/* The last SIGINT, SIGTERM or SIGHUP after terminal_catch_signals(), else 0. */
extern volatile sig_atomic_t terminal_stop_signal;
/*
 * From now on these signals only set terminal_stop_signal, so that incomplete files can be removed.
 */
void terminal_catch_signals(void);
/*
 * Sleeps until `until_ns` (CLOCK_MONOTONIC), input, or a signal. Returns false if one of these
 * signals has arrived; none is missed between the check and the sleep.
 */
bool terminal_wait(uint64_t until_ns, struct pollfd *polled, unsigned count);

#endif
