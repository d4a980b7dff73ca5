/* completion.c: scripts for bash, zsh and fish that complete commands, options and their values. */
#include "cli/completion.h"

#include <string.h>

/* Text within single quotes of a shell. */
static void quoted(struct strbuf *out, const char *text)
{
	strbuf_addc(out, '\'');
	for (; *text; text++) {
		if (*text == '\'')
			strbuf_adds(out, "'\\''");
		else
			strbuf_addc(out, *text);
	}
	strbuf_addc(out, '\'');
}

static void add_words(struct strbuf *out, const char *const *words)
{
	for (size_t i = 0; words[i]; i++)
		strbuf_addf(out, "%s%s", i ? " " : "", words[i]);
}

static void add_command_names(struct strbuf *out)
{
	for (size_t i = 0; commands[i]; i++) {
		strbuf_addf(out, "%s%s", i ? " " : "", commands[i]->name);
		if (commands[i]->alias)
			strbuf_addf(out, " %s", commands[i]->alias);
	}
}

/* "record|profile" */
static void add_pattern(struct strbuf *out, const struct command *command)
{
	strbuf_adds(out, command->name);
	if (command->alias)
		strbuf_addf(out, "|%s", command->alias);
}

static void bash_option_names(struct strbuf *out, const struct option *option)
{
	for (; option->name; option++) {
		strbuf_addf(out, " --%s", option->name);
		if (option->negatable)
			strbuf_addf(out, " --no-%s", option->name);
	}
}

/* What may follow an option: its choices, file names, or nothing that could be known. */
static void bash_option_values(struct strbuf *out, const struct option *option)
{
	for (; option->name; option++) {
		if (option->type == OPTION_FLAG || option->bare)
			continue;
		strbuf_addf(out, "\t\t--%s", option->name);
		if (option->letter)
			strbuf_addf(out, "|-%c", option->letter);
		strbuf_adds(out, ") ");
		if (option->type == OPTION_ENUM && option->choices) {
			strbuf_adds(out, "COMPREPLY=($(compgen -W \"");
			add_words(out, option->choices);
			strbuf_adds(out, "\" -- \"$cur\")); ");
		} else if (option->type == OPTION_STRING) {
			strbuf_adds(out, "COMPREPLY=($(compgen -f -- \"$cur\")); ");
		}
		strbuf_adds(out, "return ;;\n");
	}
}

static void bash_command(struct strbuf *out, const struct command *command)
{
	struct option all[COMMAND_OPTIONS_MAX];

	command_options(command, all);
	strbuf_adds(out, "\t");
	add_pattern(out, command);
	strbuf_adds(out, ")\n\t\tcase $prev in\n");
	bash_option_values(out, all);
	strbuf_adds(out, "\t\tesac\n\t\toptions=\"");
	bash_option_names(out, all);
	strbuf_adds(out, " --help\"\n");
	if (!strcmp(command->name, "help"))
		strbuf_adds(out, "\t\toperands=$commands\n");
	else if (command->operands) {
		strbuf_adds(out, "\t\toperands=\"");
		add_words(out, command->operands);
		strbuf_adds(out, "\"\n");
	}
	if (command->stop_at_operand)
		strbuf_adds(out, "\t\toperands=$(compgen -c -- \"$cur\")\n");
	strbuf_adds(out, "\t\t;;\n");
}

void completion_bash(struct strbuf *out)
{
	strbuf_adds(out, "# bash completion for pitot\n"
			 "_pitot()\n"
			 "{\n"
			 "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
			 "\tlocal command= options= operands= i commands=\"");
	add_command_names(out);
	strbuf_adds(out, "\"\n"
			 "\tif [[ $prev == '=' ]]; then\n"
			 "\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n"
			 "\tfi\n"
			 "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
			 "\t\tif [[ ${COMP_WORDS[i]} != -* ]]; then\n"
			 "\t\t\tcommand=${COMP_WORDS[i]}\n"
			 "\t\t\tbreak\n"
			 "\t\tfi\n"
			 "\tdone\n"
			 "\tCOMPREPLY=()\n"
			 "\tcase $command in\n"
			 "\t'')\n"
			 "\t\toptions=\"--help --version");
	bash_option_names(out, global_options);
	strbuf_adds(out, "\"\n\t\toperands=$commands\n\t\t;;\n");
	for (size_t i = 0; commands[i]; i++)
		bash_command(out, commands[i]);
	strbuf_adds(out, "\tesac\n"
			 "\tif [[ $cur == -* ]]; then\n"
			 "\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
			 "\telif [[ -n $operands ]]; then\n"
			 "\t\tCOMPREPLY=($(compgen -W \"$operands\" -- \"$cur\"))\n"
			 "\telse\n"
			 "\t\tCOMPREPLY=($(compgen -f -- \"$cur\"))\n"
			 "\tfi\n"
			 "}\n"
			 "complete -o filenames -F _pitot pitot\n");
}

/* Brackets and colons have a meaning in zsh's descriptions of options. */
static void zsh_text(struct strbuf *out, const char *text)
{
	for (; *text; text++) {
		if (strchr("[]:\\", *text))
			strbuf_addc(out, '\\');
		if (*text == '\'')
			strbuf_adds(out, "'\\''");
		else
			strbuf_addc(out, *text);
	}
}

static void zsh_option(struct strbuf *out, const struct option *option, const char *prefix)
{
	bool valued = option->type != OPTION_FLAG && !*prefix;

	strbuf_addf(out, " \\\n\t\t\t'--%s%s%s[", prefix, option->name,
		    !valued        ? ""
		    : option->bare ? "=-"
				   : "=");
	zsh_text(out, option->help);
	strbuf_adds(out, "]");
	if (valued && option->type == OPTION_ENUM && option->choices) {
		strbuf_addf(out, ":%s:(", option->name);
		add_words(out, option->choices);
		strbuf_adds(out, ")");
	} else if (valued) {
		strbuf_addf(out, "%s:%s:%s", option->bare ? ":" : "", option->name,
			    option->type == OPTION_STRING ? "_files" : "");
	}
	strbuf_adds(out, "'");
}

static void zsh_command(struct strbuf *out, const struct command *command)
{
	struct option all[COMMAND_OPTIONS_MAX];

	command_options(command, all);
	strbuf_adds(out, "\t");
	add_pattern(out, command);
	strbuf_adds(out, ")\n\t\t_arguments");
	for (const struct option *option = all; option->name; option++) {
		zsh_option(out, option, "");
		if (option->negatable)
			zsh_option(out, option, "no-");
	}
	if (command->stop_at_operand)
		strbuf_adds(out, " \\\n\t\t\t'*::command:_normal'");
	else if (!strcmp(command->name, "help"))
		strbuf_adds(out, " \\\n\t\t\t\"*:command:($commands)\"");
	else if (command->operands) {
		strbuf_adds(out, " \\\n\t\t\t'*:operand:(");
		add_words(out, command->operands);
		strbuf_adds(out, ")'");
	} else {
		strbuf_adds(out, " \\\n\t\t\t'*:file:_files'");
	}
	strbuf_adds(out, "\n\t\t;;\n");
}

void completion_zsh(struct strbuf *out)
{
	strbuf_adds(out, "#compdef pitot\n"
			 "_pitot()\n"
			 "{\n"
			 "\tlocal commands='");
	add_command_names(out);
	strbuf_adds(out, "'\n"
			 "\tif (( CURRENT == 2 )); then\n"
			 "\t\tcompadd -- ${=commands} --help --version");
	bash_option_names(out, global_options);
	strbuf_adds(out, "\n"
			 "\t\treturn\n"
			 "\tfi\n"
			 "\tlocal command=$words[2]\n"
			 "\tshift words\n"
			 "\t(( CURRENT-- ))\n"
			 "\tcase $command in\n");
	for (size_t i = 0; commands[i]; i++)
		zsh_command(out, commands[i]);
	strbuf_adds(out, "\tesac\n"
			 "}\n"
			 "_pitot \"$@\"\n");
}

static void fish_option(struct strbuf *out, const struct option *option, const char *prefix,
			const char *condition)
{
	strbuf_addf(out, "complete -c pitot %s -l %s%s", condition, prefix, option->name);
	if (option->letter && !*prefix)
		strbuf_addf(out, " -s %c", option->letter);
	strbuf_adds(out, " -d ");
	quoted(out, option->help);
	if (option->type == OPTION_ENUM && option->choices) {
		strbuf_adds(out, " -x -a '");
		add_words(out, option->choices);
		strbuf_adds(out, "'");
	} else if (option->type != OPTION_FLAG && !option->bare) {
		strbuf_adds(out, option->type == OPTION_STRING ? " -r" : " -x");
	}
	strbuf_addc(out, '\n');
}

static void fish_command(struct strbuf *out, const struct command *command)
{
	_cleanup_strbuf_ struct strbuf condition = STRBUF_INIT;

	strbuf_addf(out, "complete -c pitot -n __fish_use_subcommand -f -a %s -d ", command->name);
	quoted(out, command->summary);
	strbuf_addf(&condition, "-n '__fish_seen_subcommand_from %s%s%s'", command->name,
		    command->alias ? " " : "", command->alias ? command->alias : "");
	strbuf_addc(out, '\n');
	for (const struct option *option = command->options; option->name; option++) {
		fish_option(out, option, "", strbuf_text(&condition));
		if (option->negatable)
			fish_option(out, option, "no-", strbuf_text(&condition));
	}
	if (command->operands) {
		strbuf_addf(out, "complete -c pitot %s -f -a '", strbuf_text(&condition));
		add_words(out, command->operands);
		strbuf_adds(out, "'\n");
	}
	out->failed |= condition.failed;
}

void completion_fish(struct strbuf *out)
{
	strbuf_adds(out, "# fish completion for pitot\n");
	for (const struct option *option = global_options; option->name; option++)
		fish_option(out, option, "", "");
	for (size_t i = 0; commands[i]; i++)
		fish_command(out, commands[i]);
	strbuf_adds(out, "complete -c pitot -n '__fish_seen_subcommand_from help' -f -a '");
	add_command_names(out);
	strbuf_adds(out, "'\n");
}
