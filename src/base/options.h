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
	/* bool *; --name sets, --no-name clears where `negatable`, --name=CHOICE sets *choice */
	OPTION_FLAG,
	OPTION_STRING, /* const char ** */
	OPTION_TEXT, /* char[OPTION_TEXT_MAX]: a copy; ';' is refused */
	OPTION_U64, /* uint64_t * */
	OPTION_SIZE, /* uint64_t *, bytes: 10, 64K, 2M, 1G (powers of 1024) */
	/* uint64_t *, nanoseconds: 10s, 1.5s, 250ms, 40us, 5ns, 2m, 1h; a bare number is seconds */
	OPTION_DURATION,
	OPTION_ENUM, /* int *: index into `choices` */
	OPTION_LIST, /* struct option_list *: may be given several times */
};

struct option_list {
	const char *items[64];
	unsigned count;
};

struct option {
	const char *name; /* long name without dashes */
	char letter; /* short name, or 0 */
	enum option_type type;
	void *value;
	/* placeholder of the value in help: "DIR"; NULL for an OPTION_ENUM: its choices */
	const char *argument;
	const char *help; /* one line, lower case, no full stop */
	/*
	 * NULL-terminated: choices of an OPTION_ENUM, completions of an OPTION_STRING, or what an
	 * OPTION_FLAG accepts behind an = ; or NULL
	 */
	const char *const *choices;
	int *choice; /* of an OPTION_FLAG with choices: 1 + the index; 0: none was given */
	/*
	 * accepts --no-name, too; for a number, size or duration that means 0, and `bare` must be
	 * set
	 */
	bool negatable;
	/*
	 * the value that --name alone stands for; other values need --name=VALUE, and a number as
	 * the next word is an error
	 */
	const char *bare;
	bool *given; /* set to true when the option was given; may be NULL */
	bool is_path; /* completion offers files and folders */
	/* completion offers what it calls `offer` with; NULL: nothing else */
	void (*complete)(void (*offer)(void *user, const char *word), void *user);
	bool positive; /* 0 is refused */
	uint64_t most; /* largest number accepted; 0: no limit */
	uint64_t least; /* smallest number accepted besides 0, and how it is written */
	const char *least_text;
	const char *key; /* name in PITOT_OPTIONS (schema/settings.h), or NULL */
	/* heading in the whole help; NULL: a common option, which the short help has too */
	const char *group;
};

#define OPTION_TEXT_MAX 512u

/* A row of an option table. `letter_` may be 0, `argument_` NULL; further members follow. */
#define OPTION(type_, name_, letter_, value_, argument_, help_, ...)                               \
	{                                                                                          \
		.name = name_, .letter = letter_, .type = OPTION_##type_, .value = &(value_),      \
		.argument = argument_, .help = help_, __VA_ARGS__                                  \
	}
#define FLAG(name_, letter_, value_, ...) OPTION(FLAG, name_, letter_, value_, NULL, __VA_ARGS__)
#define OPTION_END                                                                                 \
	{                                                                                          \
		.name = NULL                                                                       \
	}

/*
 * Parses argv[1..argc). Options end at "--" or, with stop_at_operand, at the first operand.
 * Operands are moved to argv[1..*operands]. Accepts "--name value", "--name=value", "-n value",
 * "-nvalue" and "-qv". An unknown option is E_USAGE; the message names the nearest known one.
 */
int options_parse(const struct option *options, int argc, char **argv, bool stop_at_operand,
		  int *operands, struct error *e);

/*
 * Sets *o->value from a text that is not from the command line. on, yes and true replace --name,
 * off, no and false --no-name; flags accept 1 and 0, too. `subject` names the option in errors.
 * Returns 0 or E_USAGE.
 */
int option_set(const struct option *o, const char *subject, const char *text, struct error *e);

/*
 * Appends the common options and, with `all`, those of each group under its heading, aligned and
 * wrapped at `width` columns.
 */
void options_help(const struct option *options, bool all, unsigned width, struct strbuf *out);
/* The first option of the next group after `o`, or of the first group for NULL; NULL: no more. */
const struct option *options_next_group(const struct option *options, const struct option *o);

bool option_takes_argument(const struct option *o);
/* Appends the placeholder of an option's value: "DIR", "auto|always|never". */
void option_argument(const struct option *o, struct strbuf *out);

/* Returns the word of a NULL-terminated list that is nearest to a mistyped one, or NULL. */
const char *options_nearest(const char *word, const char *const *known);
/*
 * Appends ", did you mean '...'?" with the nearest word to the text of *e; if none is near
 * `otherwise`, or with NULL the whole list. Returns E_USAGE, the code of *e, which may be NULL.
 */
int error_suggest(struct error *e, const char *word, const char *const *known,
		  const char *otherwise);

int parse_size(const char *text, uint64_t *bytes); /* 0 or -EINVAL */
int parse_duration(const char *text, uint64_t *ns); /* 0 or -EINVAL */
/* true for 1, true, yes and on; false for 0, false, no and off; in any case of letters */
bool parse_switch(const char *text, bool *on);
int parse_u64(const char *text, uint64_t *value); /* decimal or 0x; 0 or -EINVAL */

#endif
