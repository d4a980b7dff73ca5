/*
 * completion.c: scripts for bash, zsh and fish that complete commands, options and their values.
 * Behind `record` and its options another command line begins, which the shell completes by itself.
 */
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

/* Whether the word after the option is its value. */
static bool takes_word(const struct option *option)
{
	return option->type != OPTION_FLAG && !option->bare;
}

static bool takes_file(const struct option *option)
{
	return option->argument &&
	       (!strcmp(option->argument, "FILE") || !strcmp(option->argument, "DIR") ||
		!strcmp(option->argument, "OTHER"));
}

/* Names of the options that the next word belongs to: "--output -o --name". */
static void add_valued(struct strbuf *out, const struct option *option, char separator)
{
	size_t before = out->length;

	for (; option->name; option++) {
		if (!takes_word(option))
			continue;
		if (out->length > before)
			strbuf_addc(out, separator);
		strbuf_addf(out, "--%s", option->name);
		if (option->letter)
			strbuf_addf(out, "%c-%c", separator, option->letter);
	}
}

/* What may follow an option: its choices, file names, or nothing that could be known. */
static void bash_option_values(struct strbuf *out, const struct option *option)
{
	for (; option->name; option++) {
		if (!takes_word(option))
			continue;
		strbuf_addf(out, "\t\t--%s", option->name);
		if (option->letter)
			strbuf_addf(out, "|-%c", option->letter);
		strbuf_adds(out, ") ");
		if (option->choices) {
			strbuf_adds(out, "COMPREPLY=($(compgen -W \"");
			add_words(out, option->choices);
			strbuf_adds(out, "\" -- \"$cur\")); ");
		} else if (takes_file(option)) {
			strbuf_adds(out, "mapfile -t COMPREPLY < <(compgen -f -- \"$cur\"); ");
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
	strbuf_adds(out, ")\n");
	if (command->stop_at_operand) {
		strbuf_adds(out, "\t\t_pitot_target $((i + 1)) \"");
		add_valued(out, all, ' ');
		strbuf_adds(out, "\" && return\n");
	}
	strbuf_adds(out, "\t\tcase $prev in\n");
	bash_option_values(out, all);
	strbuf_adds(out, "\t\tesac\n\t\toptions=\"");
	bash_option_names(out, all);
	strbuf_adds(out, " --help\"\n");
	if (!strcmp(command->name, "help"))
		strbuf_adds(out, "\t\toperands=$commands files=\n");
	else if (command->operands) {
		strbuf_adds(out, "\t\toperands=\"");
		add_words(out, command->operands);
		strbuf_addf(out, "\"%s\n", command->or_files ? "" : " files=");
	}
	strbuf_adds(out, "\t\t;;\n");
}

/* The command line behind `record`: i is the place of its first word. */
static const char bash_target[] =
	"# The command line from word $1 on, behind options; $2: those that take a word.\n"
	"_pitot_target()\n"
	"{\n"
	"\tlocal i=$1 behind=0 cur=${COMP_WORDS[COMP_CWORD]}\n"
	"\tfor ((; i < COMP_CWORD && !behind; i++)); do\n"
	"\t\tif [[ ${COMP_WORDS[i]} == -- ]]; then\n"
	"\t\t\tbehind=1\n"
	"\t\telif [[ ${COMP_WORDS[i + 1]} == '=' ]]; then\n"
	"\t\t\t((i += 2))\n"
	"\t\telif [[ \" $2 \" == *\" ${COMP_WORDS[i]} \"* ]]; then\n"
	"\t\t\t((i++))\n"
	"\t\telif [[ ${COMP_WORDS[i]} != -* ]]; then\n"
	"\t\t\tbreak\n"
	"\t\tfi\n"
	"\tdone\n"
	"\tif ((i > COMP_CWORD)) || { ((i == COMP_CWORD && !behind)) && [[ $cur == -* ]]; }; then\n"
	"\t\treturn 1\n"
	"\telif declare -F _command_offset >/dev/null; then\n"
	"\t\t_command_offset $i\n"
	"\telif ((i == COMP_CWORD)); then\n"
	"\t\tCOMPREPLY=($(compgen -c -- \"$cur\"))\n"
	"\telse\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	"\tfi\n"
	"}\n";

void completion_bash(struct strbuf *out)
{
	strbuf_adds(out, "# bash completion for pitot\n");
	strbuf_adds(out, bash_target);
	strbuf_adds(out, "_pitot()\n"
			 "{\n"
			 "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
			 "\tlocal command= options= operands= files=1 i commands=\"");
	add_command_names(out);
	strbuf_adds(out, "\"\n"
			 "\tif [[ $cur == '=' ]]; then\n"
			 "\t\tcur=\n"
			 "\telif [[ $prev == '=' ]]; then\n"
			 "\t\tprev=${COMP_WORDS[COMP_CWORD-2]}\n"
			 "\tfi\n"
			 "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
			 "\t\tif [[ ${COMP_WORDS[i]} == --color ]]; then\n"
			 "\t\t\t((i++))\n"
			 "\t\telif [[ ${COMP_WORDS[i]} != -* ]]; then\n"
			 "\t\t\tcommand=${COMP_WORDS[i]}\n"
			 "\t\t\tbreak\n"
			 "\t\tfi\n"
			 "\tdone\n"
			 "\tCOMPREPLY=()\n"
			 "\tcase $command in\n"
			 "\t'')\n"
			 "\t\tcase $prev in\n");
	bash_option_values(out, global_options);
	strbuf_adds(out, "\t\tesac\n"
			 "\t\toptions=\"--help --version");
	bash_option_names(out, global_options);
	strbuf_adds(out, "\"\n\t\toperands=$commands files=\n\t\t;;\n");
	for (size_t i = 0; commands[i]; i++)
		bash_command(out, commands[i]);
	strbuf_adds(out, "\tesac\n"
			 "\tif [[ $cur == -* ]]; then\n"
			 "\t\tCOMPREPLY=($(compgen -W \"$options\" -- \"$cur\"))\n"
			 "\telse\n"
			 "\t\tmapfile -t COMPREPLY < <(compgen -W \"$operands\" -- \"$cur\"\n"
			 "\t\t\t[[ -z $files ]] || compgen -f -- \"$cur\")\n"
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

/* What zsh's _arguments wants to know of --name, or of -n. */
static void zsh_option(struct strbuf *out, const struct option *option, const char *prefix,
		       bool letter)
{
	bool valued = option->type != OPTION_FLAG && !*prefix;

	strbuf_adds(out, " \\\n\t\t\t'");
	if (letter)
		strbuf_addf(out, "-%c%s[", option->letter, valued ? "+" : "");
	else
		strbuf_addf(out, "--%s%s%s[", prefix, option->name,
			    !valued        ? ""
			    : option->bare ? "=-"
					   : "=");
	zsh_text(out, option->help);
	strbuf_adds(out, "]");
	if (valued && option->choices) {
		strbuf_addf(out, ":%s:(", option->name);
		add_words(out, option->choices);
		strbuf_adds(out, ")");
	} else if (valued) {
		strbuf_addf(out, "%s:%s:%s", option->bare ? ":" : "", option->name,
			    takes_file(option) ? "_files" : "");
	}
	strbuf_adds(out, "'");
}

static void zsh_operands(struct strbuf *out, const struct command *command)
{
	strbuf_adds(out, " \\\n\t\t\t");
	if (!strcmp(command->name, "help")) {
		strbuf_adds(out, "\"*:command:($names)\"");
	} else if (command->operands && command->or_files) {
		strbuf_adds(out, "'*:operand:{_alternative \"files::_files\" \"words::(");
		add_words(out, command->operands);
		strbuf_adds(out, ")\"}'");
	} else if (command->operands) {
		strbuf_adds(out, "'*:operand:(");
		add_words(out, command->operands);
		strbuf_adds(out, ")'");
	} else {
		strbuf_adds(out, "'*:file:_files'");
	}
}

static void zsh_command(struct strbuf *out, const struct command *command)
{
	struct option all[COMMAND_OPTIONS_MAX];

	command_options(command, all);
	strbuf_adds(out, "\t");
	add_pattern(out, command);
	strbuf_adds(out, ")\n");
	if (command->stop_at_operand) {
		strbuf_adds(out, "\t\t_pitot_target ");
		add_valued(out, all, ' ');
		strbuf_adds(out, " && return\n");
	}
	strbuf_adds(out, "\t\t_arguments -s -S");
	for (const struct option *option = all; option->name; option++) {
		zsh_option(out, option, "", false);
		if (option->letter)
			zsh_option(out, option, "", true);
		if (option->negatable)
			zsh_option(out, option, "no-", false);
	}
	if (!command->stop_at_operand)
		zsh_operands(out, command);
	strbuf_adds(out, "\n\t\t;;\n");
}

static const char zsh_target[] =
	"# The command line behind options; the arguments are those options that take a word.\n"
	"_pitot_target()\n"
	"{\n"
	"\tinteger i=2 behind=0\n"
	"\twhile (( i < CURRENT && ! behind )); do\n"
	"\t\tif [[ $words[i] == -- ]]; then\n"
	"\t\t\tbehind=1\n"
	"\t\telif (( ${@[(Ie)$words[i]]} )); then\n"
	"\t\t\t(( i++ ))\n"
	"\t\telif [[ $words[i] != -* ]]; then\n"
	"\t\t\tbreak\n"
	"\t\tfi\n"
	"\t\t(( i++ ))\n"
	"\tdone\n"
	"\tif (( i > CURRENT )) ||\n"
	"\t    { (( i == CURRENT && ! behind )) && [[ $words[i] == -* ]] }; then\n"
	"\t\treturn 1\n"
	"\tfi\n"
	"\tshift $(( i - 1 )) words\n"
	"\t(( CURRENT -= i - 1 ))\n"
	"\t_normal\n"
	"\treturn 0\n"
	"}\n";

void completion_zsh(struct strbuf *out)
{
	strbuf_adds(out, "#compdef pitot\n");
	strbuf_adds(out, zsh_target);
	strbuf_adds(out, "_pitot()\n"
			 "{\n"
			 "\tlocal names='");
	add_command_names(out);
	strbuf_adds(out, "'\n"
			 "\tinteger i\n"
			 "\tfor ((i = 2; i < CURRENT; i++)); do\n"
			 "\t\tif [[ $words[i] == --color ]]; then\n"
			 "\t\t\t((i++))\n"
			 "\t\telif [[ $words[i] != -* ]]; then\n"
			 "\t\t\tbreak\n"
			 "\t\tfi\n"
			 "\tdone\n"
			 "\tif (( i >= CURRENT )); then\n"
			 "\t\tcompadd -- ${=names} --help --version");
	bash_option_names(out, global_options);
	strbuf_adds(out, "\n"
			 "\t\treturn\n"
			 "\tfi\n"
			 "\tlocal command=$words[i]\n"
			 "\tshift $((i - 1)) words\n"
			 "\t(( CURRENT -= i - 1 ))\n"
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
	if (takes_word(option) && !*prefix) {
		strbuf_adds(out, takes_file(option) ? " -r" : " -x");
		if (option->choices) {
			strbuf_adds(out, " -a '");
			add_words(out, option->choices);
			strbuf_adds(out, "'");
		}
	}
	strbuf_addc(out, '\n');
}

static void fish_command(struct strbuf *out, const struct command *command)
{
	_cleanup_strbuf_ struct strbuf condition = STRBUF_INIT;

	strbuf_addf(out, "complete -c pitot -n 'test -z (__pitot_place)' -f -a %s -d ",
		    command->name);
	quoted(out, command->summary);
	strbuf_addc(out, '\n');
	strbuf_addf(&condition, "-n 'contains -- (__pitot_place) %s%s%s'", command->name,
		    command->alias ? " " : "", command->alias ? command->alias : "");
	for (const struct option *option = command->options; option->name; option++) {
		fish_option(out, option, "", strbuf_text(&condition));
		if (option->negatable)
			fish_option(out, option, "no-", strbuf_text(&condition));
	}
	if (command->operands) {
		strbuf_addf(out, "complete -c pitot %s%s -a '", strbuf_text(&condition),
			    command->or_files ? "" : " -f");
		add_words(out, command->operands);
		strbuf_adds(out, "'\n");
	}
	if (command->stop_at_operand) {
		struct option all[COMMAND_OPTIONS_MAX];

		command_options(command, all);
		strbuf_addf(out,
			    "complete -c pitot -n 'contains -- (__pitot_place) target %s%s%s' -f "
			    "-a '(__fish_complete_subcommand --fcs-skip=2 ",
			    command->name, command->alias ? " " : "",
			    command->alias ? command->alias : "");
		add_valued(out, all, ' ');
		strbuf_adds(out, ")'\n");
	}
	out->failed |= condition.failed;
}

/* Options that take a word, of all commands; a name that several have is there several times. */
static void fish_valued(struct strbuf *out)
{
	add_valued(out, global_options, ' ');
	for (size_t i = 0; commands[i]; i++) {
		strbuf_addc(out, ' ');
		add_valued(out, commands[i]->options, ' ');
	}
}

void completion_fish(struct strbuf *out)
{
	strbuf_adds(out, "# fish completion for pitot\n"
			 "function __pitot_place -d 'the command, or target behind record'\n"
			 "\tset -l command ''\n"
			 "\tset -l value no\n"
			 "\tfor word in (commandline -opc)[2..-1]\n"
			 "\t\tif test $value = yes\n"
			 "\t\t\tset value no\n"
			 "\t\telse if contains -- $word ");
	fish_valued(out);
	strbuf_adds(out, "\n"
			 "\t\t\tset value yes\n"
			 "\t\telse if test -z \"$command\"\n"
			 "\t\t\tstring match -q -- '-*' $word; or set command $word\n"
			 "\t\telse if contains -- $command");
	for (size_t i = 0; commands[i]; i++)
		if (commands[i]->stop_at_operand)
			strbuf_addf(out, " %s%s%s", commands[i]->name,
				    commands[i]->alias ? " " : "",
				    commands[i]->alias ? commands[i]->alias : "");
	strbuf_adds(out, "; and begin\n"
			 "\t\t\ttest $word = --; or not string match -q -- '-*' $word\n"
			 "\t\tend\n"
			 "\t\t\tset command target\n"
			 "\t\t\tbreak\n"
			 "\t\tend\n"
			 "\tend\n"
			 "\techo $command\n"
			 "end\n");
	for (const struct option *option = global_options; option->name; option++)
		fish_option(out, option, "", "-n 'test (__pitot_place) != target'");
	for (size_t i = 0; commands[i]; i++)
		fish_command(out, commands[i]);
	strbuf_adds(out, "complete -c pitot -n 'test (__pitot_place) = help' -f -a '");
	add_command_names(out);
	strbuf_adds(out, "'\n");
}
