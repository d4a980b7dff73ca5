/*
 * main.c: the global options, and parsing of the command line up to the call of a command.
 */
#include "cli/command.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/help.h"
#include "cli/ui.h"
#include "format/recording_dir.h"

#define COMMAND_ITEM(name) &cmd_##name,
const struct command *const commands[] = { COMMANDS(COMMAND_ITEM) NULL };

static const char *const color_choices[] = { "auto", "always", "never", NULL };
enum { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

static const char *const help_choices[] = { "common", "all", NULL };

static bool option_json, option_quiet, option_verbose, option_version, option_pager = true;
static bool option_help;
static int option_color, option_help_all;

const struct option global_options[] = {
	/* command_global_options() leaves out the first one. */
	FLAG("json", 0, option_json, "print the result as JSON"),
	FLAG("quiet", 'q', option_quiet, "no notes and no progress on stderr"),
	OPTION(ENUM, "help", 'h', option_help_all, "all",
	       "show this text; --help=all: with every option", .choices = help_choices,
	       .bare = "common", .given = &option_help),
	FLAG("verbose", 'v', option_verbose, "print details on stderr", .group = "terminal"),
	OPTION(ENUM, "color", 0, option_color, NULL,
	       "colours: auto (on a terminal, unless NO_COLOR is set), always, never",
	       .choices = color_choices, .group = "terminal"),
	FLAG("pager", 0, option_pager,
	     "show results longer than the terminal with $PITOT_PAGER, $PAGER or "
	     "less",
	     .negatable = true, .group = "terminal"),
	OPTION_END,
};

const struct option no_options[] = { OPTION_END };

const struct option *command_global_options(const struct command *command)
{
	return global_options + (command && command->no_json ? 1 : 0);
}

static const struct option leading_options[] = {
	FLAG("version", 'V', option_version, "same as `pitot version`"),
	OPTION_END,
};

const struct command *command_find(const char *name)
{
	for (size_t i = 0; commands[i]; i++) {
		const struct command *command = commands[i];

		if (!strcmp(command->name, name) ||
		    (command->alias && !strcmp(command->alias, name)))
			return command;
	}
	return strcmp(name, cmd_complete.name) ? NULL : &cmd_complete;
}

static size_t add_options(struct option *to, size_t count, const struct option *from)
{
	for (; from->name && count < COMMAND_OPTIONS_MAX - 1; from++)
		to[count++] = *from;
	to[count] = (struct option)OPTION_END;
	return count;
}

void command_options(const struct command *command, struct option all[COMMAND_OPTIONS_MAX])
{
	const struct option *own = command ? command->options : leading_options;

	add_options(all, add_options(all, 0, own), command_global_options(command));
}

static bool wants_color(int fd)
{
	const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");

	if (option_color != COLOR_AUTO)
		return option_color == COLOR_ALWAYS;
	return isatty(fd) && !(no_color && *no_color) && !(term && !strcmp(term, "dumb"));
}

static unsigned wanted_width(void)
{
	unsigned width = terminal_width(STDOUT_FILENO);
	const char *columns = getenv("COLUMNS");
	uint64_t given;

	if (width)
		return width;
	if (columns && !parse_u64(columns, &given) && given >= 40 && given <= 1000)
		return (unsigned)given;
	return 100;
}

static void resolve(struct context *c)
{
	c->json = option_json;
	c->quiet = option_quiet;
	c->pager = option_pager;
	c->verbose = option_verbose;
	c->color = wants_color(STDOUT_FILENO);
	c->color_errors = wants_color(STDERR_FILENO);
	c->width = wanted_width();
}

int command_unknown(const struct context *c, const char *name)
{
	const char *names[2 * COMMAND_OPTIONS_MAX];
	size_t count = 0;

	for (size_t i = 0; commands[i] && count < ARRAY_SIZE(names) - 2; i++) {
		names[count++] = commands[i]->name;
		if (commands[i]->alias)
			names[count++] = commands[i]->alias;
	}
	names[count] = NULL;
	return cli_unknown(c, "command", name, names, "pitot help");
}

/*
 * Parses the options before the command's name, and moves argv to that name. Returns -1 to
 * continue, else an exit status.
 */
static int parse_leading(struct context *c, int *argc, char ***argv)
{
	struct option options[COMMAND_OPTIONS_MAX];
	struct error e = { 0 };
	int operands = 0;

	command_options(NULL, options);
	if (options_parse(options, *argc, *argv, true, &operands, &e) < 0) {
		resolve(c);
		return cli_usage(c, "%s", e.text);
	}
	resolve(c);
	if (option_version) {
		c->command = &cmd_version;
		return cmd_version.run(c, 1, *argv);
	}
	if (option_help)
		return help_overview(c, stdout);
	if (!operands) {
		help_overview(c, stderr);
		return EXIT_USAGE;
	}
	*argc = operands;
	*argv += 1;
	return -1;
}

static char operand_between[] = OPERAND_BETWEEN;

static int unexpected(const struct context *c, char **argv)
{
	const char *extra = argv[c->command->operands_max + 1];

	if (c->command->takes_recording && recording_dir_has_segments(extra))
		return cli_usage(c,
				 "'%s' is a second recording; to read several as one: pitot merge "
				 "A B -o job.pitot",
				 extra);
	return cli_usage(c, "unexpected argument '%s'", extra);
}

static int run_command(struct context *c, int argc, char **argv)
{
	struct option options[COMMAND_OPTIONS_MAX];
	struct error e = { 0 };
	int operands = 0;

	add_options(options, add_options(options, 0, c->command->options), global_options);
	for (int i = 1; i < argc && c->command->has_sides; i++)
		if (!strcmp(argv[i], "--"))
			argv[i] = operand_between;
	if (options_parse(options, argc, argv, c->command->stop_at_operand, &operands, &e) < 0) {
		resolve(c);
		return cli_usage(c, "%s", e.text);
	}
	resolve(c);
	if (option_help)
		return help_command(c, c->command, option_help_all);
	if (c->json && c->command->no_json)
		return cli_usage(c, "--json: '%s' has no result to print as JSON",
				 c->command->name);
	if (!c->command->stop_at_operand && operands > (int)c->command->operands_max)
		return unexpected(c, argv);
	argv[operands + 1] = NULL;
	return c->command->run(c, operands + 1, argv);
}

static void on_signal(int number)
{
	(void)number;
}

void signal_to_error(int number)
{
	struct sigaction act;

	/* A handler rather than SIG_IGN, which a command that is executed would inherit. */
	if (sigaction(number, NULL, &act) < 0 || act.sa_handler != SIG_DFL)
		return;
	act = (struct sigaction){ .sa_handler = on_signal, .sa_flags = SA_RESTART };
	sigaction(number, &act, NULL);
}

int main(int argc, char **argv)
{
	struct context c = { 0 };
	int status;

	if (argc < 1)
		return EXIT_USAGE;
	signal_to_error(SIGXFSZ);
	status = parse_leading(&c, &argc, &argv);
	if (status >= 0)
		return status;
	c.command = command_find(argv[0]);
	if (!c.command)
		return command_unknown(&c, argv[0]);
	return run_command(&c, argc, argv);
}
