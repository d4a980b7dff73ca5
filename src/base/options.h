/*
 * options.h: command-line options declared as data. One table per command drives parsing, help,
 * shell completion and the man page.
 */
#ifndef PITOT_BASE_OPTIONS_H
#define PITOT_BASE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/strbuf.h"

enum option_type {
	OPTION_FLAG,		/* bool *; --name sets, --no-name clears where `negatable` */
	OPTION_STRING,		/* const char ** */
	OPTION_TEXT,		/* char[OPTION_TEXT_MAX]: a copy of a string without ';' */
	OPTION_U64,		/* uint64_t * */
	OPTION_SIZE,		/* uint64_t *, bytes: 10, 64K, 2M, 1G (powers of 1024) */
	/* uint64_t *, nanoseconds: 10s, 1.5s, 250ms, 40us, 5ns, 2m, 1h; a bare number is seconds */
	OPTION_DURATION,
	OPTION_ENUM,		/* int *: index into `choices` */
	OPTION_LIST,		/* struct option_list *: may be given several times */
};

struct option_list {
	const char *items[64];
	unsigned count;
};

struct option {
	const char *name;	/* long name without dashes */
	char letter;		/* short name, or 0 */
	enum option_type type;
	void *value;
	/* what help calls the value: "DIR"; NULL for an OPTION_ENUM: its choices */
	const char *argument;
	const char *help;	/* one line, lower case, no full stop */
	/* OPTION_ENUM, NULL-terminated; OPTION_STRING: what completion offers, or NULL */
	const char *const *choices;
	/*
	 * --name and --no-name; of a number, size or duration --no-name means 0, and `bare` must be
	 * set.
	 */
	bool negatable;
	/*
	 * what --name alone means; a value is then given as --name=VALUE only, and a number behind
	 * is an error
	 */
	const char *bare;
	bool *given;		/* set when the option was on the command line; may be NULL */
	bool is_path;		/* the value names a file or folder: completion offers them */
	bool positive;		/* a number, size or duration that cannot be 0 */
	uint64_t most;		/* of a number; 0: no limit */
	const char *key;	/* its name in PITOT_OPTIONS, or NULL (schema/settings.h) */
};

#define OPTION_TEXT_MAX 512u

/*
 * A row of a table: the letter may be 0, and what help calls the value NULL; members that few
 * options have follow.
 */
#define OPTION(type_, name_, letter_, value_, argument_, help_, ...)                               \
	{ .name = name_, .letter = letter_, .type = OPTION_##type_, .value = &(value_),            \
	  .argument = argument_, .help = help_, __VA_ARGS__ }
#define FLAG(name_, letter_, value_, ...) OPTION(FLAG, name_, letter_, value_, NULL, __VA_ARGS__)
#define OPTION_END { .name = NULL }

/*
 * Parses argv[1..argc). Options end at "--" or, when stop_at_operand, at the first operand.
 * Operands are moved to the front: argv[1..*operands]. "--name value", "--name=value", "-n value",
 * "-nvalue", "-qv" are understood. An unknown option is E_USAGE and names the nearest known one.
 * `help_wanted` is set for -h and --help.
 */
int options_parse(const struct option *options, int argc, char **argv, bool stop_at_operand,
		  int *operands, bool *help_wanted, struct error *e);

/*
 * Sets *o->value from a text that is not of the command line. What --name and --no-name say there
 * is a word here: on or off, yes or no, true or false, of a flag 1 or 0, too. `subject` is what
 * errors call the option. 0 or E_USAGE.
 */
int option_set(const struct option *o, const char *subject, const char *text, struct error *e);

/* Appends the "options:" part of a help text, aligned, wrapped at `width` columns. */
void options_help(const struct option *options, unsigned width, struct strbuf *out);

/* Appends what help calls the value of an option that has one: "DIR", "auto|always|never". */
void option_argument(const struct option *o, struct strbuf *out);

/* The nearest of a NULL-terminated list to a mistyped word, or NULL when none is near. */
const char *options_nearest(const char *word, const char *const *known);

int parse_size(const char *text, uint64_t *bytes);		/* 0 or -EINVAL */
int parse_duration(const char *text, uint64_t *ns);		/* 0 or -EINVAL */
/* 1, true, yes or on; 0, false, no or off, in any case */
bool parse_switch(const char *text, bool *on);
int parse_u64(const char *text, uint64_t *value);		/* decimal or 0x; 0 or -EINVAL */

#endif
