#include "base/options.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define HELP_INDENT 2
#define HELP_COLUMN_MAX 30 /* rightmost column where descriptions may start */
#define WORD_MAX 64 /* longer words match nothing */

static bool has_choice(const struct option *o)
{
	return o->type == OPTION_FLAG && o->choices && o->choice;
}

bool option_takes_argument(const struct option *o)
{
	return o->type != OPTION_FLAG || has_choice(o);
}

/* Returns how many insertions, deletions, replacements and swaps of neighbours turn a into b. */
static unsigned distance(const char *a, size_t a_length, const char *b, size_t b_length)
{
	unsigned rows[3][WORD_MAX + 1];
	unsigned *before = rows[0], *above = rows[1], *row = rows[2], *spare;

	for (unsigned j = 0; j <= b_length; j++)
		above[j] = before[j] = j;
	for (unsigned i = 1; i <= a_length; i++) {
		row[0] = i;
		for (unsigned j = 1; j <= b_length; j++) {
			bool same = a[i - 1] == b[j - 1];

			row[j] = MIN(above[j - 1] + !same, MIN(above[j], row[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = MIN(row[j], before[j - 2] + 1);
		}
		spare = before;
		before = above;
		above = row;
		row = spare;
	}
	return above[b_length];
}

/*
 * Returns the edit distance between `known` and the mistyped word, 1 if the word is a prefix of
 * `known`, 2 if it is the last of the words that make `known` ("name" of "config_name"), or
 * UINT32_MAX if they are too different.
 */
static unsigned nearness(const char *word, size_t length, const char *known)
{
	size_t known_length = strlen(known);
	unsigned d;

	if (!length || length > WORD_MAX || known_length > WORD_MAX)
		return UINT32_MAX;
	if (length >= 2 && strncmp(word, known, length) == 0)
		return 1;
	if (length >= 2 && known_length > length &&
	    strchr("_-", known[known_length - length - 1]) &&
	    strcmp(known + known_length - length, word) == 0)
		return 2;
	d = distance(word, length, known, known_length);
	return d <= MAX(length, known_length) / 3 ? d : UINT32_MAX;
}

const char *options_nearest(const char *word, const char *const *known)
{
	unsigned best = UINT32_MAX;
	const char *nearest = NULL;

	for (; *known; known++) {
		unsigned d = nearness(word, strlen(word), *known);

		if (d < best) {
			best = d;
			nearest = *known;
		}
	}
	return nearest;
}

int error_suggest(struct error *e, const char *word, const char *const *known,
		  const char *otherwise)
{
	const char *nearest = options_nearest(word, known);
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	strbuf_adds(&text, e ? e->text : "");
	if (nearest)
		strbuf_addf(&text, ", did you mean '%s'?", nearest);
	else if (otherwise)
		strbuf_adds(&text, otherwise);
	for (size_t i = 0; !nearest && !otherwise && known[i]; i++)
		strbuf_addf(&text, "%s%s", i ? ", " : "; choose from ", known[i]);
	return error_set(e, E_USAGE, "%s", strbuf_text(&text));
}

static bool starts_with_no(const char *name, size_t length)
{
	return length > 3 && memcmp(name, "no-", 3) == 0;
}

static int unknown_long(const struct option *options, const char *name, size_t length,
			struct error *e)
{
	const struct option *nearest = NULL;
	unsigned best = UINT32_MAX;
	bool no = starts_with_no(name, length), negated = false;

	for (const struct option *o = options; o->name; o++) {
		unsigned d = nearness(name, length, o->name);
		unsigned d_no =
			no && o->negatable ? nearness(name + 3, length - 3, o->name) : UINT32_MAX;

		if (MIN(d, d_no) < best) {
			best = MIN(d, d_no);
			nearest = o;
			negated = d_no < d;
		}
	}
	if (!nearest)
		return error_set(e, E_USAGE, "unknown option '--%.*s'", (int)length, name);
	return error_set(e, E_USAGE, "unknown option '--%.*s', did you mean '--%s%s'?", (int)length,
			 name, negated ? "no-" : "", nearest->name);
}

/* Returns the index of a choice, or E_USAGE. */
static int find_choice(const struct option *o, const char *subject, const char *text,
		       struct error *e)
{
	_cleanup_strbuf_ struct strbuf choices = STRBUF_INIT;

	for (int i = 0; o->choices[i]; i++) {
		if (strcmp(o->choices[i], text) == 0)
			return i;
		strbuf_addf(&choices, "%s%s",
			    !i                  ? ""
			    : o->choices[i + 1] ? ", "
						: " or ",
			    o->choices[i]);
	}
	return error_set(e, E_USAGE, "%s takes %s, not '%s'", subject, strbuf_text(&choices), text);
}

static int set_enum(const struct option *o, const char *subject, const char *text, struct error *e)
{
	int index = find_choice(o, subject, text, e);

	if (index < 0)
		return index;
	*(int *)o->value = index;
	return 0;
}

/* `text`: NULL, or what stands behind the = of the command line. */
static int set_flag(const struct option *o, const char *subject, const char *text, bool flag,
		    struct error *e)
{
	int index = -1;

	if (has_choice(o) && text && flag && strcmp(text, o->bare)) {
		index = find_choice(o, subject, text, e);
		if (index < 0)
			return index;
	}
	if (has_choice(o))
		*o->choice = index + 1;
	*(bool *)o->value = flag;
	return 0;
}

static int add_to_list(const struct option *o, const char *text, struct error *e)
{
	struct option_list *list = o->value;

	if (list->count == ARRAY_SIZE(list->items))
		return error_set(e, E_USAGE, "option '--%s' was given more than %zu times", o->name,
				 ARRAY_SIZE(list->items));
	list->items[list->count++] = text;
	return 0;
}

static const struct number_kind {
	int (*parse)(const char *text, uint64_t *value);
	const char *what;
} number_kinds[] = {
	[OPTION_U64] = { parse_u64, "a number" },
	[OPTION_SIZE] = { parse_size, "a size such as 64K, 10M or 1G" },
	[OPTION_DURATION] = { parse_duration, "a duration such as 10s, 250ms or 1.5m" },
};

static int set_number(const struct option *o, const char *subject, const char *text,
		      struct error *e)
{
	const struct number_kind *kind = &number_kinds[o->type];
	uint64_t value;

	if (kind->parse(text, &value) < 0)
		return error_set(e, E_USAGE, "%s takes %s, not '%s'", subject, kind->what, text);
	if (o->positive && !value)
		return error_set(e, E_USAGE, "%s must be greater than 0", subject);
	if (o->most && value > o->most)
		return error_set(e, E_USAGE, "%s takes at most %" PRIu64 ", not '%s'", subject,
				 o->most, text);
	if (value && value < o->least)
		return error_set(e, E_USAGE, "%s takes at least %s, not '%s'", subject,
				 o->least_text, text);
	*(uint64_t *)o->value = value;
	return 0;
}

static int set_text(const struct option *o, const char *subject, const char *text, struct error *e)
{
	if (strlen(text) >= OPTION_TEXT_MAX)
		return error_set(e, E_USAGE, "%s takes at most %u characters", subject,
				 OPTION_TEXT_MAX - 1);
	if (strchr(text, ';'))
		return error_set(e, E_USAGE, "%s takes no ';', as in '%s'", subject, text);
	strncpy(o->value, text, OPTION_TEXT_MAX); /* also zeroes the rest */
	return 0;
}

static int set_value(const struct option *o, const char *subject, const char *text, bool flag,
		     struct error *e)
{
	char own_subject[64];
	int err = 0;

	if (!subject) {
		snprintf(own_subject, sizeof(own_subject), "option '--%s'", o->name);
		subject = own_subject;
	}
	switch (o->type) {
	case OPTION_FLAG:
		err = set_flag(o, subject, text, flag, e);
		break;
	case OPTION_STRING:
		*(const char **)o->value = text;
		break;
	case OPTION_TEXT:
		err = set_text(o, subject, text, e);
		break;
	case OPTION_U64:
	case OPTION_SIZE:
	case OPTION_DURATION:
		err = set_number(o, subject, flag ? text : "0", e);
		break;
	case OPTION_ENUM:
		err = set_enum(o, subject, text, e);
		break;
	case OPTION_LIST:
		err = add_to_list(o, text, e);
		break;
	}
	if (!err && o->given)
		*o->given = true;
	return err;
}

bool parse_switch(const char *text, bool *on)
{
	static const char *const words[] = { "0", "1", "off", "on", "no", "yes", "false", "true" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strcasecmp(text, words[i]) == 0) {
			*on = i % 2;
			return true;
		}
	}
	return false;
}

int option_set(const struct option *o, const char *subject, const char *text, struct error *e)
{
	bool on = true, is_switch = parse_switch(text, &on);

	if (o->type == OPTION_FLAG && !is_switch)
		return error_set(e, E_USAGE, "%s takes on or off, not '%s'", subject, text);
	/* 0 and 1 are numbers for an option that takes a number. */
	is_switch = is_switch && (text[0] < '0' || text[0] > '9');
	if (o->type != OPTION_FLAG && !(is_switch && o->negatable))
		return set_value(o, subject, text, true, e);
	return set_value(o, subject, on ? o->bare : text, on, e);
}

void option_argument(const struct option *o, struct strbuf *out)
{
	if (o->argument || (o->type != OPTION_ENUM && !has_choice(o))) {
		strbuf_adds(out, o->argument ? o->argument : "VALUE");
		return;
	}
	for (int i = 0; o->choices[i]; i++)
		strbuf_addf(out, "%s%s", i ? "|" : "", o->choices[i]);
}

/* Whether the word after an option with a bare form is meant as its value. */
static bool is_value(const struct option *o, const char *word)
{
	uint64_t value;

	for (int i = 0; has_choice(o) && o->choices[i]; i++)
		if (strcmp(o->choices[i], word) == 0)
			return true;
	return o->type < ARRAY_SIZE(number_kinds) && number_kinds[o->type].parse &&
	       number_kinds[o->type].parse(word, &value) == 0;
}

static int needs_value(const struct option *o, struct error *e)
{
	_cleanup_strbuf_ struct strbuf argument = STRBUF_INIT;

	option_argument(o, &argument);
	return error_set(e, E_USAGE, "option '--%s' needs a value: %s", o->name,
			 strbuf_text(&argument));
}

static const struct option *find_long(const struct option *options, const char *name, size_t length,
				      bool *flag)
{
	*flag = true;
	for (const struct option *o = options; o->name; o++)
		if (strlen(o->name) == length && memcmp(o->name, name, length) == 0)
			return o;
	if (!starts_with_no(name, length))
		return NULL;
	for (const struct option *o = options; o->name; o++)
		if (o->negatable && strlen(o->name) == length - 3 &&
		    memcmp(o->name, name + 3, length - 3) == 0) {
			*flag = false;
			return o;
		}
	return NULL;
}

/*
 * Parses an argument that begins with "--". `next` is the argument after it, or NULL. Returns 1
 * when that was consumed, too.
 */
static int parse_long(const struct option *options, const char *argument, const char *next,
		      struct error *e)
{
	const char *name = argument + 2, *value = strchr(name, '=');
	size_t length = value ? (size_t)(value - name) : strlen(name);
	const struct option *o;
	bool flag, used_next = false;
	int err;

	o = find_long(options, name, length, &flag);
	if (!o)
		return unknown_long(options, name, length, e);
	if (value && (!option_takes_argument(o) || !flag))
		return error_set(e, E_USAGE, "option '--%.*s' takes no value", (int)length, name);
	if (value) {
		value++;
	} else if (o->bare && flag && next && is_value(o, next)) {
		return error_set(e, E_USAGE, "the value of '--%s' is given as --%s=%s", o->name,
				 o->name, next);
	} else if (o->bare && flag) {
		value = o->bare;
	} else if (option_takes_argument(o) && flag) {
		if (!next)
			return needs_value(o, e);
		value = next;
		used_next = true;
	}
	err = set_value(o, NULL, value, flag, e);
	return err < 0 ? err : used_next;
}

/* Parses an argument of letters, "-qv" or "-nvalue". Returns 1 when `next` was consumed, too. */
static int parse_letters(const struct option *options, const char *argument, const char *next,
			 struct error *e)
{
	for (const char *p = argument + 1; *p; p++) {
		const struct option *o = options;
		int err;

		while (o->name && o->letter != *p)
			o++;
		if (!o->name)
			return error_set(e, E_USAGE, "unknown option '-%c'", *p);
		if (option_takes_argument(o) && !o->bare) {
			bool attached = p[1] != '\0';

			if (!attached && !next)
				return needs_value(o, e);
			err = set_value(o, NULL, attached ? p + 1 : next, true, e);
			return err < 0 ? err : !attached;
		}
		err = set_value(o, NULL, o->bare, true, e);
		if (err < 0)
			return err;
	}
	return 0;
}

int options_parse(const struct option *options, int argc, char **argv, bool stop_at_operand,
		  int *operands, struct error *e)
{
	int to = 1, i;

	for (i = 1; i < argc; i++) {
		const char *next = i + 1 < argc ? argv[i + 1] : NULL;
		int used;

		if (strcmp(argv[i], "--") == 0) {
			i++;
			break;
		}
		if (argv[i][0] != '-' || !argv[i][1]) {
			if (stop_at_operand)
				break;
			argv[to++] = argv[i];
			continue;
		}
		used = argv[i][1] == '-' ? parse_long(options, argv[i], next, e)
					 : parse_letters(options, argv[i], next, e);
		if (used < 0)
			return used;
		i += used;
	}
	while (i < argc)
		argv[to++] = argv[i++];
	/* The operands may be a command to execute, so they end with NULL as argv does. */
	if (to < argc)
		argv[to] = NULL;
	*operands = to - 1;
	return 0;
}

static void help_left(const struct option *o, struct strbuf *out)
{
	if (o->letter)
		strbuf_addf(out, "-%c, ", o->letter);
	else
		strbuf_adds(out, "    ");
	strbuf_addf(out, "--%s%s", o->negatable ? "[no-]" : "", o->name);
	if (!option_takes_argument(o))
		return;
	strbuf_adds(out, o->bare ? "[=" : " ");
	option_argument(o, out);
	strbuf_adds(out, o->bare ? "]" : "");
}

/* Appends the text from `column` on, breaking lines before they exceed `width`. */
static void help_wrap(const char *text, unsigned column, unsigned width, struct strbuf *out)
{
	size_t at = column;

	for (;;) {
		size_t word;

		text += strspn(text, " ");
		word = strcspn(text, " ");
		if (!word)
			break;
		if (at > column && at + 1 + word > width) {
			strbuf_addf(out, "\n%*s", (int)column, "");
			at = column;
		} else if (at > column) {
			strbuf_addc(out, ' ');
			at++;
		}
		strbuf_add(out, text, word);
		at += word;
		text += word;
	}
	strbuf_addc(out, '\n');
}

static bool is_in(const struct option *o, const char *group)
{
	return o->group == group || (o->group && group && !strcmp(o->group, group));
}

const struct option *options_next_group(const struct option *options, const struct option *o)
{
	for (o = o ? o + 1 : options; o->name; o++) {
		const struct option *first = options;

		while (o->group && !is_in(first, o->group))
			first++;
		if (o->group && first == o)
			return o;
	}
	return NULL;
}

static void help_group(const struct option *o, const char *group, size_t column, unsigned width,
		       struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf left = STRBUF_INIT;

	for (; o->name; o++) {
		if (!is_in(o, group))
			continue;
		strbuf_clear(&left);
		help_left(o, &left);
		strbuf_addf(out, "%*s%s", HELP_INDENT, "", strbuf_text(&left));
		if (HELP_INDENT + left.length + 2 > column)
			strbuf_addf(out, "\n%*s", (int)column, "");
		else
			strbuf_addf(out, "%*s", (int)(column - HELP_INDENT - left.length), "");
		help_wrap(o->help, (unsigned)column, width, out);
		out->failed |= left.failed;
	}
}

void options_help(const struct option *options, bool all, unsigned width, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf left = STRBUF_INIT;
	const struct option *group = NULL;
	size_t column = 0;

	for (const struct option *o = options; o->name; o++) {
		strbuf_clear(&left);
		help_left(o, &left);
		if ((all || !o->group) && HELP_INDENT + left.length + 2 <= HELP_COLUMN_MAX)
			column = MAX(column, HELP_INDENT + left.length + 2);
	}
	strbuf_adds(out, "options:\n");
	help_group(options, NULL, column, width, out);
	while (all && (group = options_next_group(options, group))) {
		strbuf_addf(out, "\n%s:\n", group->group);
		help_group(options, group->group, column, width, out);
	}
}
