/*
 * cmd_completion.c: `pitot completion SHELL` prints shell functions that pass the words of a
 * command line to `pitot __complete`.
 */
#include <string.h>

#include "cli/ui.h"

static const char bash[] =
	"# bash completion for pitot\n"
	"_pitot()\n"
	"{\n"
	"\tlocal cur=${COMP_WORDS[COMP_CWORD]} answer offset\n"
	"\tmapfile -t answer < <(\n"
	"\t\t\"${1/#\\~/$HOME}\" __complete -- \"${COMP_WORDS[@]:1:COMP_CWORD}\" 2>/dev/null)\n"
	"\toffset=${answer[0]#command }\n"
	"\tCOMPREPLY=(\"${answer[@]:1}\")\n"
	"\tCOMPREPLY=(\"${COMPREPLY[@]%%$'\\t'*}\")\n"
	"\t[[ $cur != '=' ]] || cur=\n"
	"\tif [[ ${answer[0]} == files ]]; then\n"
	"\t\tmapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- \"$cur\")\n"
	"\telif [[ $offset == \"${answer[0]}\" ]]; then\n"
	"\t\treturn\n"
	"\telif declare -F _command_offset >/dev/null; then\n"
	"\t\t_command_offset \"$offset\"\n"
	"\telif ((offset == COMP_CWORD)); then\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -c -- \"$cur\")\n"
	"\telse\n"
	"\t\tmapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
	"\tfi\n"
	"}\n"
	"complete -o filenames -F _pitot pitot\n";

static const char zsh[] = "#compdef pitot\n"
			  "_pitot()\n"
			  "{\n"
			  "\tlocal -a answer matches shown\n"
			  "\tanswer=(\"${(@f)$(${~words[1]} __complete -- "
			  "\"${(@Q)words[2,CURRENT]}\" 2>/dev/null)}\")\n"
			  "\tmatches=(\"${(@)answer[2,-1]%%$'\\t'*}\")\n"
			  "\tshown=(\"${(@)answer[2,-1]/$'\\t'/  -- }\")\n"
			  "\t(( $#answer < 2 )) || compadd -l -d shown -a matches\n"
			  "\tcase $answer[1] in\n"
			  "\tfiles)\n"
			  "\t\tcompset -P '--*='\n"
			  "\t\t_files ;;\n"
			  "\tcommand*)\n"
			  "\t\tinteger offset=${answer[1]#command }\n"
			  "\t\tshift $offset words\n"
			  "\t\t(( CURRENT -= offset ))\n"
			  "\t\t_normal ;;\n"
			  "\tesac\n"
			  "}\n"
			  "if [[ $funcstack[1] == _pitot ]]; then\n"
			  "\t_pitot \"$@\"\n"
			  "else\n"
			  "\tcompdef _pitot pitot\n"
			  "fi\n";

static const char fish[] =
	"# fish completion for pitot\n"
	"function __pitot_complete\n"
	"\tset -l current (commandline -ct)\n"
	"\tset -l words (commandline -opc) \"$current\"\n"
	"\tset -l pitot (string replace -r -- '^~' $HOME $words[1])\n"
	"\tset -l answer ($pitot __complete -- $words[2..-1] 2>/dev/null)\n"
	"\tstring match -r -- '^.*\\S.*$' $answer[2..-1]\n"
	"\tswitch \"$answer[1]\"\n"
	"\t\tcase files\n"
	"\t\t\tset -l option (string match -r -- '^--[^=]*=' \"$current\")\n"
	"\t\t\tset -l paths (__fish_complete_path (string replace -- \"$option\" '' "
	"\"$current\"))\n"
	"\t\t\tprintf '%s\\n' \"$option\"$paths\n"
	"\t\tcase 'command *'\n"
	"\t\t\tset -l from (math (string replace 'command ' '' $answer[1]) + 1)\n"
	"\t\t\tset -l before (string escape -- $words[$from..-2])\n"
	"\t\t\tcomplete -C (string join ' ' -- $before \"$current\")\n"
	"\tend\n"
	"end\n"
	"complete -c pitot -f -a '(__pitot_complete)'\n";

static const char *const shells[] = { "bash", "zsh", "fish", NULL };
static const char *const scripts[] = { bash, zsh, fish };

static int run_completion(struct context *c, int argc, char **argv)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;

	for (size_t i = 0; argc == 2 && shells[i]; i++) {
		if (!strcmp(argv[1], shells[i])) {
			strbuf_adds(&out, scripts[i]);
			return cli_print(c, &out);
		}
	}
	if (argc == 2)
		return cli_usage(c, "unknown shell '%s'; bash, zsh and fish are known", argv[1]);
	return cli_usage(c, "no shell given: bash, zsh or fish");
}

static const struct command_example examples[] = {
	{ "source <(pitot completion bash)",
	  "enable completion in this shell; `make install` enables it in all" },
	{ NULL, NULL },
};

const struct command cmd_completion = {
	.name = "completion",
	.group = COMMAND_PITOT,
	.summary = "print a script that completes pitot's commands in a shell",
	.usage = "bash|zsh|fish",
	.description = "Prints a script for the shell to load. It completes commands, options, "
		       "their values, file names, and the command after `pitot record`.",
	.options = no_options,
	.examples = examples,
	.operands = shells,
	.operands_max = 1,
	.no_json = true,
	.run = run_completion,
};
