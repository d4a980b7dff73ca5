/* man.c: generates man pages (roff) from the declarations of the commands. */
#include <ctype.h>
#include <string.h>

#include "base/utf8.h"
#include "cli/help.h"

/*
 * Escapes text for roff: backslashes, hyphens, leading dots and quotes would be markup, and
 * formatters differ in their treatment of UTF-8.
 */
static void roff_text(struct strbuf *out, const char *text)
{
	bool line_start = true;
	size_t length, bad;
	uint32_t code;

	for (; *text; text += MAX(length, 1)) {
		length = utf8_decode(text, UTF8_MAX, &code, &bad);
		if (line_start && (*text == '.' || *text == '\''))
			strbuf_adds(out, "\\&");
		line_start = *text == '\n';
		if (*text == '\\')
			strbuf_adds(out, "\\e");
		else if (*text == '-')
			strbuf_adds(out, "\\-");
		else if ((unsigned char)*text >= 0x80)
			strbuf_addf(out, "\\[u%04X]", code);
		else
			strbuf_addc(out, *text);
	}
}

/* Appends paragraphs separated by empty lines; a paragraph in capitals is a section's heading. */
static void roff_paragraphs(struct strbuf *out, const char *text)
{
	bool behind_heading = true;

	while (*text) {
		const char *end = strstr(text, "\n\n");
		size_t length = end ? (size_t)(end - text) : strlen(text);
		char *paragraph = strndup(text, length);
		bool is_heading = length > 0;

		if (!paragraph) {
			out->failed = true;
			return;
		}
		for (size_t i = 0; i < length; i++)
			is_heading =
				is_heading && (isupper((unsigned char)text[i]) || text[i] == ' ');
		strbuf_adds(out, is_heading ? ".SH " : behind_heading ? "" : ".PP\n");
		behind_heading = is_heading;
		roff_text(out, paragraph);
		strbuf_addc(out, '\n');
		free(paragraph);
		text += length + (end ? 2 : 0);
	}
}

/* Appends the options of a group. */
static void roff_group(struct strbuf *out, const struct option *option, const char *group)
{
	_cleanup_strbuf_ struct strbuf argument = STRBUF_INIT;

	for (; option->name; option++) {
		if (strcmp(group, option->group ? option->group : "") != 0)
			continue;
		strbuf_adds(out, ".TP\n");
		if (option->letter)
			strbuf_addf(out, "\\fB\\-%c\\fR, ", option->letter);
		strbuf_adds(out, "\\fB\\-\\-");
		if (option->negatable)
			strbuf_adds(out, "[no\\-]");
		roff_text(out, option->name);
		strbuf_adds(out, "\\fR");
		if (option_takes_argument(option)) {
			strbuf_adds(out, option->bare ? "[=\\fI" : " \\fI");
			option_argument(option, &argument);
			roff_text(out, strbuf_text(&argument));
			strbuf_clear(&argument);
			strbuf_adds(out, option->bare ? "\\fR]" : "\\fR");
		}
		strbuf_addc(out, '\n');
		roff_text(out, option->help);
		strbuf_addc(out, '\n');
	}
}

static void roff_options(struct strbuf *out, const struct option *options)
{
	const struct option *group = NULL;

	strbuf_adds(out, ".SH OPTIONS\n");
	roff_group(out, options, "");
	while ((group = options_next_group(options, group))) {
		strbuf_adds(out, ".SS ");
		roff_text(out, group->group);
		strbuf_addc(out, '\n');
		roff_group(out, options, group->group);
	}
}

static void roff_examples(struct strbuf *out, const struct command_example *example)
{
	strbuf_adds(out, ".SH EXAMPLES\n");
	for (; example->line; example++) {
		strbuf_adds(out, ".TP\n\\fB");
		roff_text(out, example->line);
		strbuf_adds(out, "\\fR\n");
		roff_text(out, example->meaning);
		strbuf_addc(out, '\n');
	}
}

static void man_header(struct strbuf *out, const char *command)
{
	strbuf_adds(out, ".TH \"PITOT");
	if (*command)
		strbuf_adds(out, "\\-");
	for (; *command; command++)
		strbuf_addc(out, (char)toupper((unsigned char)*command));
	strbuf_addf(out, "\" \"1\" \"\" \"Pitot %s\" \"Pitot\"\n.nh\n", PITOT_VERSION);
}

static void man_overview(struct strbuf *out)
{
	struct option options[COMMAND_OPTIONS_MAX];

	man_header(out, "");
	strbuf_adds(out, ".SH NAME\npitot \\- flight recorder for GPU programs\n"
			 ".SH SYNOPSIS\n\\fBpitot\\fR [\\fIoptions\\fR] \\fICOMMAND\\fR \\[u2026]\n"
			 ".SH DESCRIPTION\nPitot records what a GPU program did, keeps it in a "
			 "folder, and explains it.\n"
			 ".SH COMMANDS\n");
	for (unsigned group = 1; group < COMMAND_GROUPS; group++) {
		strbuf_addf(out, ".SS %s\n", command_group_titles[group]);
		for (size_t i = 0; commands[i]; i++) {
			if (commands[i]->group != group)
				continue;
			strbuf_addf(out, ".TP\n\\fBpitot\\-%s\\fR(1)\n", commands[i]->name);
			roff_text(out, commands[i]->summary);
			strbuf_addc(out, '\n');
		}
	}
	command_options(NULL, options);
	roff_options(out, options);
	strbuf_adds(
		out,
		".SH EXIT STATUS\n0 done, 1 failed, 2 wrong usage; \\fBpitot record\\fR "
		"returns the status of "
		"the command.\n"
		".SH ENVIRONMENT\n.TP\n\\fBNO_COLOR\\fR\nno colours, unless \\-\\-color "
		"always is given\n"
		".TP\n\\fBPITOT_PAGER\\fR, \\fBPAGER\\fR\nthe pager for results that are longer "
		"than the terminal; empty or cat: none\n");
}

void man_page(const struct command *command, struct strbuf *out)
{
	struct option options[COMMAND_OPTIONS_MAX];

	if (!command) {
		man_overview(out);
		return;
	}
	man_header(out, command->name);
	strbuf_addf(out, ".SH NAME\npitot\\-%s \\- ", command->name);
	roff_text(out, command->summary);
	strbuf_addf(out, "\n.SH SYNOPSIS\n\\fBpitot %s\\fR ", command->name);
	roff_text(out, command->usage);
	strbuf_adds(out, "\n.SH DESCRIPTION\n");
	roff_paragraphs(out, command->description);
	command_options(command, options);
	roff_options(out, options);
	if (command->notes)
		roff_paragraphs(out, command->notes);
	if (command->examples)
		roff_examples(out, command->examples);
	strbuf_adds(out, ".SH SEE ALSO\n\\fBpitot\\fR(1)\n");
}
