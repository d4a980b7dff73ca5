/*
 * command.h: the declaration of a subcommand. Each subcommand is a file cmd_<name>.c that defines
 * `const struct command cmd_<name>`, and a line in COMMANDS. Help, the man page and shell
 * completion are generated from the declaration.
 *
 * main.c parses the options: the command's own table together with the global ones below, before or
 * after the command's name. run() therefore finds its options in the variables that its table
 * points to, and only operands in argv.
 */
#ifndef PITOT_CLI_COMMAND_H
#define PITOT_CLI_COMMAND_H

#include <stdbool.h>

#include "base/options.h"

/* The resolved global options. */
struct context {
	const struct command *command; /* the one that runs */
	bool json; /* --json: results as one JSON value on stdout */
	bool quiet; /* -q: no notes, no progress, no live line */
	bool verbose; /* -v: details on stderr */
	bool color; /* use colours on stdout */
	bool color_errors; /* use colours on stderr */
	bool pager; /* long results may go through a pager */
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

/* What people want to do: the headings of `pitot help`. */
enum command_group {
	COMMAND_HIDDEN,
	COMMAND_RECORD,
	COMMAND_SHOW,
	COMMAND_LOOK_INTO,
	COMMAND_CONVERT,
	COMMAND_MACHINE,
	COMMAND_PITOT,
	COMMAND_GROUPS
};
extern const char *const command_group_titles[COMMAND_GROUPS];

#define OPERAND_BETWEEN "\001--" /* no file of a command line is called so by accident */

struct command {
	const char *name;
	enum command_group group;
	/* A second name, or NULL; and which options it stands for, if it is not the same. */
	const char *alias, *alias_options;
	/* One line, lower case, no full stop. */
	const char *summary;
	/* The command line after the name: "[options] [RECORDING]". */
	const char *usage;
	/* Plain sentences; paragraphs are separated by an empty line. */
	const char *description;
	/* Ends with OPTION_END; never NULL (no_options); without the global options. */
	const struct option *options;
	/* Ends with a NULL line; may be NULL. */
	const struct command_example *examples;
	/* Further sections of the man page: "EXIT STATUS\n\ntext…"; may be NULL. */
	const char *notes;
	/* Words that completion offers as operands, NULL-terminated; NULL: only file names. */
	const char *const *operands;
	/* The first operand is a recording: completion offers files only where there is none. */
	bool takes_recording;
	/* File names are operands, too. */
	bool or_files;
	/* Maximum number of operands. */
	unsigned operands_max;
	/* The first operand ends the options; from there on it is another command line. */
	bool stop_at_operand;
	/* "--" becomes the operand OPERAND_BETWEEN, and options go on after it. */
	bool has_sides;
	/* The command shows no call stacks and needs no symbols. */
	bool no_names;
	/* --json makes no sense here and is refused. */
	bool no_json;
	/*
	 * argv[0] is the command's name, argv[1..argc) are the operands, argv[argc] is NULL.
	 * Returns EXIT_DONE, EXIT_FAILED or EXIT_USAGE. Results go to stdout, everything else to
	 * stderr (see ui.h).
	 */
	int (*run)(struct context *c, int argc, char **argv);
};

/* All commands in the order in which help shows them. */
#define COMMANDS(C)                                                                                \
	C(record)                                                                                  \
	C(dump)                                                                                    \
	C(capture)                                                                                 \
	C(rules)                                                                                   \
	C(monitor)                                                                                 \
	C(top)                                                                                     \
	C(agent)                                                                                   \
	C(lake)                                                                                    \
	C(serve)                                                                                   \
	C(report)                                                                                  \
	C(info)                                                                                    \
	C(flame)                                                                                   \
	C(diff)                                                                                    \
	C(baseline)                                                                                \
	C(source)                                                                                  \
	C(timeline)                                                                                \
	C(what_if)                                                                                 \
	C(replay)                                                                                  \
	C(sql)                                                                                     \
	C(mcp)                                                                                     \
	C(view)                                                                                    \
	C(export)                                                                                  \
	C(import)                                                                                  \
	C(merge)                                                                                   \
	C(upload)                                                                                  \
	C(symbolize)                                                                               \
	C(schema)                                                                                  \
	C(doctor)                                                                                  \
	C(devices)                                                                                 \
	C(calibrate)                                                                               \
	C(metrics)                                                                                 \
	C(completion)                                                                              \
	C(version)                                                                                 \
	C(help)
/* Ends with NULL. */
extern const struct command *const commands[];
/* Finds a command by name or alias, or returns NULL. */
const struct command *command_find(const char *name);
/* Prints an error with the nearest name. Returns EXIT_USAGE. */
int command_unknown(const struct context *c, const char *name);

/*
 * Catches a signal that would otherwise end this program, so that the system call fails instead.
 * Commands that this program starts have the default action.
 */
void signal_to_error(int number);

/* Options of every command; ends with OPTION_END. --help is parsed as well. */
extern const struct option global_options[];
extern const struct option no_options[];
/* Those that a command has: without --json if it has `no_json`. NULL: all. */
const struct option *command_global_options(const struct command *command);

/*
 * Lists the command's options, then the global ones, then OPTION_END. `command` NULL: the options
 * that may precede the command's name.
 */
#define COMMAND_OPTIONS_MAX 64
void command_options(const struct command *command, struct option all[COMMAND_OPTIONS_MAX]);

extern const struct command cmd_complete; /* hidden: found by its name, but not in the list */
#define COMMAND_DECLARE(name) extern const struct command cmd_##name;
COMMANDS(COMMAND_DECLARE)

#endif
