/*
 * cmd_complete.c: `pitot __complete -- WORD…`, a hidden command that lists the candidates for the
 * current word of a command line.
 *
 * The shell functions that `pitot completion` prints call it with the words after "pitot", up to
 * the current one, which may be empty. The first line of the answer says what else the shell
 * completes by itself:
 *
 *	words		nothing
 *	files		file names
 *	command N	the words from N on (0 is "pitot") are another command line
 *
 * Each further line is a candidate, followed by a tab and its meaning.
 */
#include <string.h>

#include "base/folder.h"
#include "cli/ui.h"
#include "format/recording_dir.h"

/* The parser's state after the words before the current one. */
struct place {
	const struct command *command; /* NULL: its name is incomplete */
	struct option options[COMMAND_OPTIONS_MAX]; /* allowed here */
	const struct option *value_of; /* the option whose value the current word is, or NULL */
	unsigned operands;
	int target; /* index of the first word of the command after `record`, or -1 */
	bool only_operands; /* after "--" */
};

/* Finds "--name" or "-n", which has `length` bytes. */
static const struct option *find_option(const struct option *o, const char *word, size_t length)
{
	for (; o->name; o++) {
		if (length == 2 && o->letter && word[1] == o->letter)
			return o;
		if (length == strlen(o->name) + 2 && !strncmp(word, "--", 2) &&
		    !strncmp(word + 2, o->name, length - 2))
			return o;
	}
	return NULL;
}

/*
 * Moves *i from an option to its value, if it has one. bash splits "--name=value" into three words.
 */
static void read_option(struct place *p, char **words, int current, int *i)
{
	const struct option *o = find_option(p->options, words[*i], strlen(words[*i]));

	if (!strcmp(words[*i + 1], "="))
		*i += *i + 1 < current ? 2 : 1;
	else if (o && o->type != OPTION_FLAG && !o->bare)
		*i += 1;
	else
		return;
	if (*i >= current)
		p->value_of = o;
}

/* Returns false after the name of an unknown command. */
static bool read_words(struct place *p, char **words, int current)
{
	for (int i = 0; i < current; i++) {
		if (!p->only_operands && !strcmp(words[i], "--")) {
			p->only_operands = true;
		} else if (!p->only_operands && words[i][0] == '-' && words[i][1]) {
			read_option(p, words, current, &i);
		} else if (!p->command) {
			p->command = command_find(words[i]);
			if (!p->command)
				return false;
			command_options(p->command, p->options);
		} else if (p->command->stop_at_operand) {
			p->target = i;
			return true;
		} else {
			p->operands++;
		}
	}
	if (p->command && p->command->stop_at_operand && !p->value_of &&
	    (p->only_operands || words[current][0] != '-'))
		p->target = current;
	return true;
}

/* Appends the candidate "<prefix><word>" if it begins with the typed text. */
static void offer(struct strbuf *out, const char *typed, const char *prefix, const char *word,
		  const char *meaning)
{
	_cleanup_strbuf_ struct strbuf candidate = STRBUF_INIT;

	strbuf_addf(&candidate, "%s%s", prefix, word);
	if (!strncmp(strbuf_text(&candidate), typed, strlen(typed)))
		strbuf_addf(out, "%s%s%s\n", strbuf_text(&candidate), *meaning ? "\t" : "",
			    meaning);
}

static void offer_words(struct strbuf *out, const char *typed, const char *prefix,
			const char *const *words)
{
	for (; words && *words; words++)
		offer(out, typed, prefix, *words, "");
}

struct offered {
	struct strbuf *out;
	const char *typed, *prefix;
};

static void offer_word(void *user, const char *word)
{
	const struct offered *o = user;

	offer(o->out, o->typed, o->prefix, word, "");
}

static void offer_commands(struct strbuf *out, const char *typed)
{
	for (size_t i = 0; commands[i]; i++) {
		offer(out, typed, "", commands[i]->name, commands[i]->summary);
		if (commands[i]->alias)
			offer(out, typed, "", commands[i]->alias, commands[i]->summary);
	}
}

static void offer_options(struct strbuf *out, const char *typed, const struct option *o)
{
	for (; o->name; o++) {
		offer(out, typed, "--", o->name, o->help);
		if (o->negatable)
			offer(out, typed, "--no-", o->name, o->help);
	}
}

/* Offers the recordings in the folder that the typed path names; returns whether there are any. */
static bool offer_recordings(struct strbuf *out, const char *typed)
{
	const char *slash = strrchr(typed, '/');
	_cleanup_strbuf_ struct strbuf folder = STRBUF_INIT, path = STRBUF_INIT;
	size_t before = out->length;
	struct dirent *entry;
	_cleanup_list_ DIR *dir = NULL;

	if (slash)
		strbuf_add(&folder, typed, (size_t)(slash + 1 - typed));
	dir = opendir(folder.length ? strbuf_text(&folder) : ".");
	while (dir && (entry = readdir(dir))) {
		strbuf_clear(&path);
		strbuf_addf(&path, "%s%s", strbuf_text(&folder), entry->d_name);
		if (entry->d_name[0] != '.' && entry->d_type != DT_REG &&
		    recording_dir_has_segments(strbuf_text(&path)))
			offer(out, typed, "", strbuf_text(&path), "");
	}
	return out->length > before;
}

/* Returns whether the operand may be a file. */
static bool offer_operands(struct strbuf *out, const char *typed, const struct place *p)
{
	if (!p->command || (p->command == &cmd_help && !p->operands)) {
		offer_commands(out, typed);
		return false;
	}
	if (p->operands >= p->command->operands_max)
		return false;
	offer_words(out, typed, "", p->command->operands);
	if (p->command->takes_recording && offer_recordings(out, typed))
		return false;
	return !p->command->operands || p->command->or_files;
}

/* Appends the candidates. Returns whether file names are candidates, too. */
static bool answer(const struct place *p, const char *typed, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf prefix = STRBUF_INIT;
	const struct option *o = p->value_of;
	size_t length = strcspn(typed, "=");

	if (o) {
		typed += !strcmp(typed, "=");
	} else if (typed[0] == '-' && !p->only_operands) {
		if (!typed[length]) {
			offer_options(out, typed, p->options);
			return false;
		}
		o = find_option(p->options, typed, length);
		strbuf_add(&prefix, typed, length + 1);
	} else {
		return offer_operands(out, typed, p);
	}
	if (o)
		offer_words(out, typed, strbuf_text(&prefix), o->choices);
	if (o && o->complete)
		o->complete(offer_word, &(struct offered){ out, typed, strbuf_text(&prefix) });
	return o && o->is_path;
}

static int run_complete(struct context *c, int argc, char **argv)
{
	_cleanup_strbuf_ struct strbuf words = STRBUF_INIT, out = STRBUF_INIT;
	struct place p = { .target = -1 };
	bool files = false;

	if (argc < 2)
		return cli_usage(c, "no word to complete");
	command_options(NULL, p.options);
	if (read_words(&p, argv + 1, argc - 2) && p.target < 0)
		files = answer(&p, argv[argc - 1], &words);
	if (p.target >= 0)
		strbuf_addf(&out, "command %d\n", p.target + 1);
	else
		strbuf_adds(&out, files ? "files\n" : "words\n");
	strbuf_add(&out, strbuf_text(&words), words.length);
	return cli_print(c, &out);
}

const struct command cmd_complete = {
	.name = "__complete",
	.summary = "list the completions of the last word of a command line",
	.usage = "-- WORD...",
	.description = "Lists the completions of the last word; see `pitot completion`.",
	.options = no_options,
	.stop_at_operand = true,
	.no_json = true,
	.run = run_complete,
};
