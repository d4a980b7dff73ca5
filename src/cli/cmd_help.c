/* cmd_help.c: `pitot help [COMMAND]`. */
#include "cli/help.h"
#include "cli/ui.h"

static bool as_man_page, all_options;

static const struct option options[] = {
	FLAG("all", 'a', all_options, "every option, not only the common ones"),
	FLAG("man", 0, as_man_page, "print the man page (roff) instead of the help text"),
	OPTION_END,
};

static int print_man_page(const struct context *c, const struct command *command)
{
	_cleanup_strbuf_ struct strbuf page = STRBUF_INIT;

	man_page(command, &page);
	return cli_print(c, &page);
}

static int run_help(struct context *c, int argc, char **argv)
{
	const struct command *command = NULL;

	if (argc == 2) {
		command = command_find(argv[1]);
		if (!command)
			return command_unknown(c, argv[1]);
	}
	if (c->json)
		return help_json(c, command);
	if (as_man_page)
		return print_man_page(c, command);
	return command ? help_command(c, command, all_options) : help_overview(c, stdout);
}

const struct command cmd_help = {
	.name = "help",
	.group = COMMAND_PITOT,
	.summary = "explain a command",
	.usage = "[--all|--man] [COMMAND]",
	.description =
		"Prints the list of commands, or the description and common options of "
		"one command, with --all every option; `pitot COMMAND --help` and `--help=all` "
		"print the same. --json describes all "
		"commands, or one, and their options for tools.",
	.options = options,
	.operands_max = 1,
	.run = run_help,
};
