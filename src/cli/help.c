/* help.c: generates help texts from the declarations of the commands. */
#include "cli/help.h"

#include <limits.h>
#include <string.h>

#include "base/json.h"
#include "cli/ui.h"

#define HELP_WIDTH_MAX 100u
#define EXAMPLES_SHORT 4u /* in the short help */

const char *const command_group_titles[COMMAND_GROUPS] = {
	[COMMAND_RECORD] = "record",
	[COMMAND_SHOW] = "find out where the time went",
	[COMMAND_LOOK_INTO] = "work with recordings",
	[COMMAND_CONVERT] = "use a recording elsewhere",
	[COMMAND_MACHINE] = "this machine",
	[COMMAND_PITOT] = "pitot itself",
};

static int print_to(const struct context *c, FILE *to, struct strbuf *text)
{
	int status = EXIT_DONE;

	if (to == stdout)
		status = cli_print(c, text);
	else
		fputs(strbuf_text(text), to);
	strbuf_release(text);
	return status;
}

static void heading(struct strbuf *out, bool color, const char *text)
{
	style_add(out, color, STYLE_BOLD, text);
	strbuf_adds(out, ":\n");
}

int help_overview(const struct context *c, FILE *to)
{
	struct strbuf out = STRBUF_INIT;
	bool color = to == stdout ? c->color : c->color_errors;
	struct option all[COMMAND_OPTIONS_MAX];

	strbuf_adds(&out, "pitot: flight recorder for GPU programs\n\n");
	heading(&out, color, "usage");
	strbuf_adds(&out, "  pitot [options] COMMAND ...\n"
			  "  pitot record -- python train.py     then: pitot report\n\n");
	for (unsigned group = 1; group < COMMAND_GROUPS; group++) {
		heading(&out, color, command_group_titles[group]);
		for (size_t i = 0; commands[i]; i++)
			if (commands[i]->group == group)
				strbuf_addf(&out, "  %-12s%s\n", commands[i]->name,
					    commands[i]->summary);
		strbuf_addc(&out, '\n');
	}
	command_options(NULL, all);
	options_help(all, true, MIN(c->width, HELP_WIDTH_MAX), &out);
	strbuf_adds(&out, "\n`pitot COMMAND --help` explains a command, `--help=all` all its "
			  "options.\n");
	return print_to(c, to, &out);
}

static void add_examples(struct strbuf *out, bool color, const struct command_example *example,
			 unsigned most)
{
	strbuf_addc(out, '\n');
	heading(out, color, "examples");
	for (; example->line && most--; example++) {
		strbuf_addf(out, "  %s\n", example->line);
		strbuf_addf(out, "      %s\n", example->meaning);
	}
}

/* Names the groups of options that the short help leaves out. */
static void add_more(struct strbuf *out, const struct command *command,
		     const struct option *options, unsigned width)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const struct option *group = options_next_group(options, NULL);

	strbuf_addf(&text, "more with `pitot %s --help=all`", command->name);
	for (const char *before = ": "; group; before = ", ") {
		strbuf_addf(&text, "%s%s", before, group->group);
		group = options_next_group(options, group);
	}
	strbuf_addc(out, '\n');
	text_fold(out, strbuf_text(&text), 0, width);
}

int help_command(const struct context *c, const struct command *command, bool all)
{
	struct strbuf out = STRBUF_INIT;
	unsigned width = MIN(c->width, HELP_WIDTH_MAX);
	struct option options[COMMAND_OPTIONS_MAX];
	bool is_short = !all && options_next_group(command->options, NULL);

	strbuf_addf(&out, "pitot %s: %s\n\n", command->name, command->summary);
	heading(&out, c->color, "usage");
	strbuf_addf(&out, "  pitot %s %s\n", command->name, command->usage);
	if (command->alias_options)
		strbuf_addf(&out, "  pitot %s is pitot %s %s\n", command->alias, command->name,
			    command->alias_options);
	else if (command->alias)
		strbuf_addf(&out, "  pitot %s is the same command\n", command->alias);
	strbuf_addc(&out, '\n');
	text_fold(&out, command->description, 0, width);
	strbuf_addc(&out, '\n');
	command_options(command, options);
	options_help(options, !is_short, width, &out);
	if (is_short)
		add_more(&out, command, options, width);
	if (command->examples)
		add_examples(&out, c->color, command->examples,
			     is_short ? EXAMPLES_SHORT : UINT_MAX);
	return print_to(c, stdout, &out);
}

static const char *type_name(enum option_type type)
{
	static const char *const names[] = {
		[OPTION_FLAG] = "flag",   [OPTION_STRING] = "string",
		[OPTION_TEXT] = "string", [OPTION_U64] = "number",
		[OPTION_SIZE] = "size",   [OPTION_DURATION] = "duration",
		[OPTION_ENUM] = "choice", [OPTION_LIST] = "list",
	};

	return names[type];
}

static void option_argument_json(struct json *json, const struct option *option)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (!option_takes_argument(option)) {
		json_null(json);
		return;
	}
	option_argument(option, &text);
	json_string(json, strbuf_text(&text));
}

static void options_json(struct json *json, const struct option *option)
{
	json_key_array(json, "options");
	for (; option->name; option++) {
		json_object(json);
		json_key_string(json, "name", option->name);
		json_key(json, "letter");
		if (option->letter)
			json_bytes(json, &option->letter, 1);
		else
			json_null(json);
		json_key_string(json, "type", type_name(option->type));
		json_key(json, "argument");
		option_argument_json(json, option);
		json_key_string(json, "without_argument", option->bare);
		json_key_string(json, "setting", option->key);
		json_key_bool(json, "negatable", option->negatable);
		json_key_string(json, "help", option->help);
		json_key_string(json, "group", option->group);
		json_key_array(json, "choices");
		for (size_t i = 0; option->choices && option->choices[i]; i++)
			json_string(json, option->choices[i]);
		json_end(json);
		json_end(json);
	}
	json_end(json);
}

static void command_json(struct json *json, const struct command *command)
{
	json_object(json);
	json_key_string(json, "name", command->name);
	json_key_string(json, "alias", command->alias);
	json_key_string(json, "group", command_group_titles[command->group]);
	json_key_string(json, "summary", command->summary);
	json_key_string(json, "usage", command->usage);
	json_key_bool(json, "json", !command->no_json);
	options_json(json, command->options);
	json_end(json);
}

int help_json(const struct context *c, const struct command *only)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct json json = JSON_PRETTY(&out);

	json_object(&json);
	options_json(&json, global_options);
	json_key_array(&json, "commands");
	for (size_t i = 0; commands[i]; i++)
		if (!only || only == commands[i])
			command_json(&json, commands[i]);
	json_finish(&json);
	return cli_print(c, &out);
}
