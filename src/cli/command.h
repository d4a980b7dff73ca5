/*
 * command.h: what a subcommand is. Each one is a file cmd_<name>.c that defines `const struct command cmd_<name>`, and
 * one line in the table of main.c. Help, the man page and shell completion come from the declaration.
 *
 * main.c parses the options: the command's own table together with the global ones below, before or after the command's
 * name. run() therefore finds its options in the variables that its table points to, and only operands in argv.
 */
#ifndef PITOT_CLI_COMMAND_H
#define PITOT_CLI_COMMAND_H

#include <stdbool.h>

#include "base/options.h"

/* What the global options say, resolved. */
struct context {
	const struct command *command; /* the one that runs */
	bool json; /* --json: results as one JSON value on stdout */
	bool quiet; /* -q: no notes, no progress, no live line */
	bool verbose; /* -v: say more on stderr */
	bool color; /* use colours on stdout */
	bool color_errors; /* use colours on stderr */
	unsigned width; /* columns to fill on stdout: the terminal's, $COLUMNS, or 100 */
};

enum {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
};

struct command_example {
	const char *line; /* "pitot report --top 5" */
	const char *meaning; /* lower case, no full stop */
};

struct command {
	const char *name;
	const char *alias; /* a second name, or NULL */
	const char *summary; /* one line, lower case, no full stop */
	const char *usage; /* what follows the name: "[options] [RECORDING]" */
	const char *description; /* paragraphs of plain sentences, separated by an empty line */
	const struct option
		*options; /* ends with OPTION_END; never NULL; no global options in it */
	const struct command_example *examples; /* ends with a NULL line; may be NULL */
	const char
		*notes; /* further sections for the man page: "EXIT STATUS\n\ntext…"; may be NULL */
	const char *const
		*operands; /* fixed words that completion offers as operands; NULL: file names */
	bool stop_at_operand; /* options end at the first operand: it starts another command line */
	bool no_json; /* --json makes no sense here and is refused */
	/*
	 * argv[0] is the command's name, argv[1..argc) are the operands, argv[argc] is NULL. Returns the exit status:
	 * EXIT_DONE, EXIT_FAILED, EXIT_USAGE. Results go to stdout, everything else to stderr (see ui.h).
	 */
	int (*run)(struct context *c, int argc, char **argv);
};

/* All commands in the order in which help shows them, ends with NULL. */
extern const struct command *const commands[];
/* By name or alias; NULL when there is none. */
const struct command *command_find(const char *name);
/* Says that there is no such command, and the nearest one. Returns EXIT_USAGE. */
int command_unknown(const struct context *c, const char *name);

/* Options that every command takes; ends with OPTION_END. --help is understood besides. */
extern const struct option global_options[];

extern const struct command cmd_completion;
extern const struct command cmd_devices;
extern const struct command cmd_doctor;
extern const struct command cmd_export;
extern const struct command cmd_help;
extern const struct command cmd_info;
extern const struct command cmd_record;
extern const struct command cmd_report;
extern const struct command cmd_schema;
extern const struct command cmd_version;
extern const struct command cmd_view;

#endif
