/*
 * name_tree.c: a lenient parser of demangled names. It skips text that it does not understand,
 * never reads past the end and always advances, so that it needs one pass over the text, or two
 * inside brackets.
 *
 * A name is parsed from left to right. Each "::" discards the component before it, and each blank
 * the words before it ("void f" is f), except where they belong together ("unsigned int").
 */
#include "names/name_tree.h"

#include <ctype.h>
#include <string.h>

#define DEPTH_MAX 40 /* nesting of template arguments; deeper ones are dropped */
#define PARTS_MAX 4096
#define REWINDS_MAX 64 /* bracketed groups that are parsed after they were skipped */

struct parser {
	const char *p, *end;
	struct arena *arena;
	unsigned depth, parts, rewinds;
	bool failed;
};

struct slice {
	const char *text;
	size_t length;
};

/* The parts of a name read so far. */
struct reading {
	struct slice label, scope;
	struct slice lambda; /* starts with "{lambda(" */
	struct slice suffix;
	struct name *args;
	bool number;
	/* after a parameter list: a local name or a qualifier follows */
	bool called;
};

static bool is_word_char(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '~' || c == '.' ||
	       c == '@' || (c & 0x80);
}

static bool at(const struct parser *in, const char *text)
{
	size_t length = strlen(text);

	return (size_t)(in->end - in->p) >= length && memcmp(in->p, text, length) == 0;
}

static bool skip(struct parser *in, const char *text)
{
	if (!at(in, text))
		return false;
	in->p += strlen(text);
	return true;
}

static bool slice_is(struct slice s, const char *text)
{
	return s.length == strlen(text) && memcmp(s.text, text, s.length) == 0;
}

/* Skips the bracketed group at in->p. Comparisons are bracketed, so '<' and '>' do not count. */
static struct slice skip_group(struct parser *in)
{
	const char *start = in->p;
	unsigned depth = 0;

	while (in->p < in->end) {
		char c = *in->p++;

		if (c == '(' || c == '[' || c == '{')
			depth++;
		else if ((c == ')' || c == ']' || c == '}') && --depth == 0)
			break;
	}
	return (struct slice){ start, (size_t)(in->p - start) };
}

/* Skips template arguments that are nested too deeply. */
static void skip_arguments(struct parser *in)
{
	unsigned depth = 0;

	while (in->p < in->end) {
		if (*in->p == '(' || *in->p == '[' || *in->p == '{') {
			skip_group(in);
			continue;
		}
		if (*in->p == '<')
			depth++;
		if (*in->p++ == '>' && --depth == 0)
			return;
	}
}

static char *copy(struct parser *in, struct slice s)
{
	char *text = arena_strndup(in->arena, s.text, s.length);

	if (!text)
		in->failed = true;
	return text;
}

/* Converts "{lambda(float)#1}" to "lambda(float)", with another number to "lambda#2(float)". */
static const char *lambda_label(struct parser *in, struct slice lambda)
{
	const char *open = memchr(lambda.text, '(', lambda.length);
	const char *hash = memrchr(lambda.text, '#', lambda.length);
	const char *end = lambda.text + lambda.length - 1, *close; /* `end` is at the '}' */
	struct strbuf s = STRBUF_INIT;
	char *label;

	if (!open || !hash || open > hash)
		return copy(in, (struct slice){ "lambda", 6 });
	strbuf_adds(&s, "lambda");
	if (end - hash != 2 || hash[1] != '1')
		strbuf_add(&s, hash, (size_t)(end - hash));
	/* One simple type shows what the lambda works on; more types would only be long. */
	close = open + 1;
	while (close < hash && (is_word_char(*close) || strchr(":* ", *close)))
		close++;
	if (*close == ')' && close > open + 1) {
		const char *scope = memrchr(open, ':', (size_t)(close - open));

		strbuf_addc(&s, '(');
		open = scope ? scope : open;
		strbuf_add(&s, open + 1, (size_t)(close - open));
	}
	label = copy(in, (struct slice){ strbuf_text(&s), s.length });
	in->failed |= s.failed;
	strbuf_release(&s);
	return label;
}

static struct name *finish(struct parser *in, const struct reading *r)
{
	struct name *n = NULL;

	if (++in->parts <= PARTS_MAX)
		n = arena_alloc(in->arena, sizeof(*n));
	if (!n) {
		in->failed = true;
		return NULL;
	}
	*n = (struct name){ .args = r->args, .is_number = r->number };
	n->label = copy(in, r->label);
	n->suffix = copy(in, r->suffix);
	if (r->scope.length)
		n->scope = copy(in, r->scope);
	if (r->lambda.length)
		n->lambda = lambda_label(in, r->lambda);
	return n;
}

static struct name *parse_name(struct parser *in, bool is_argument);

/* Parses the template arguments at '<', up to its '>'. */
static struct name *parse_arguments(struct parser *in)
{
	struct name *first = NULL, **next = &first;

	if (in->depth >= DEPTH_MAX) {
		skip_arguments(in);
		return NULL;
	}
	in->depth++;
	in->p++;
	while (in->p < in->end && !in->failed && *in->p != '>') {
		struct name *n;

		if (*in->p == ' ' || *in->p == ',' || *in->p == ')') {
			in->p++;
			continue;
		}
		n = parse_name(in, true);
		if (!n)
			break;
		*next = n;
		next = &n->next;
	}
	if (in->p < in->end)
		in->p++;
	in->depth--;
	return first;
}

static bool is_one_of(struct slice s, const char *const *words)
{
	for (; *words; words++)
		if (slice_is(s, *words))
			return true;
	return false;
}

static bool joins(struct slice before, struct slice word)
{
	static const char *const first[] = { "unsigned",      "signed", "long",
					     "unsigned long", "short",  NULL };
	static const char *const then[] = { "int",    "long",     "char", "short",
					    "double", "__int128", NULL };

	return is_one_of(before, first) && is_one_of(word, then);
}

static bool skip_qualifier(struct parser *in)
{
	static const char *const words[] = { "const", "volatile", "restrict", "__restrict" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		const char *after = in->p + strlen(words[i]);

		if (at(in, words[i]) && (after == in->end || !is_word_char(*after))) {
			in->p = after;
			return true;
		}
	}
	return false;
}

static struct slice read_word(struct parser *in)
{
	const char *start = in->p;

	while (in->p < in->end && is_word_char(*in->p))
		in->p++;
	return (struct slice){ start, (size_t)(in->p - start) };
}

/* Extends the label "operator" to "operator()", "operator<<" and so on. */
static void read_operator(struct parser *in, struct reading *r)
{
	if (!skip(in, "()"))
		while (in->p < in->end && strchr("<>=!+-*/%&|^~[],", *in->p))
			in->p++;
	r->label.length = (size_t)(in->p - r->label.text);
}

/* Parses a word. After a blank it replaces the label, a return type; after "::" there is none. */
static void parse_word(struct parser *in, struct reading *r)
{
	struct slice word = read_word(in);

	if (joins(r->label, word) && !r->args && !r->called) {
		r->label.length = (size_t)(word.text + word.length - r->label.text);
		return;
	}
	r->number = isdigit((unsigned char)word.text[0]) || slice_is(word, "true") ||
		    slice_is(word, "false");
	if (isdigit((unsigned char)word.text[0]))
		while (word.length > 1 && strchr("ul", word.text[word.length - 1]))
			word.length--;
	if (r->label.length)
		r->scope.length = 0;
	r->label = word;
	r->args = NULL;
	r->suffix.length = 0;
	r->called = false;
	if (slice_is(word, "operator"))
		read_operator(in, r);
}

/*
 * Handles "::". What follows is something inside a function or the call operator of a functor, so
 * that the label stays; or it is another component.
 */
static void parse_scope(struct parser *in, struct reading *r)
{
	if (at(in, "{lambda(") || at(in, "{unnamed")) {
		r->lambda = skip_group(in);
		r->called = true;
		return;
	}
	if ((r->label.length || r->lambda.length) && skip(in, "operator()")) {
		if (in->p < in->end && *in->p == '<')
			skip_arguments(in);
		return;
	}
	if (r->label.length && r->label.text[0] != '(')
		r->scope = r->label;
	r->label.length = 0;
	r->args = NULL;
	r->suffix.length = 0;
	r->lambda.length = 0;
	r->called = r->number = false;
}

/*
 * Parses a group at '(': a scope, a cast before a value, the address of a function, a function type
 * or parameters. Returns false at the end of the name.
 */
static bool parse_parenthesis(struct parser *in, struct reading *r, bool is_argument)
{
	bool after_blank = r->label.length && in->p[-1] == ' ';
	struct slice group = skip_group(in);

	if (slice_is(group, "(anonymous namespace)"))
		return true;
	if (!r->label.length && group.length > 3 && group.text[1] == '&' &&
	    in->rewinds++ < REWINDS_MAX) {
		in->p = group.text + 2; /* the ')' ends the name */
		return true;
	}
	if (!r->label.length) {
		/* A value follows a cast. */
		if (in->p == in->end || (!isdigit((unsigned char)*in->p) && *in->p != '-')) {
			r->label = group;
			r->called = true;
		}
		return true;
	}
	if (after_blank && !r->called)
		r->suffix = (struct slice){ "()", 2 };
	else if (!is_argument && !at(in, "::") && !at(in, " const::"))
		return false;
	r->called = true;
	return true;
}

/* Parses a character or group that is no word. Returns false at the end of the name. */
static bool parse_other(struct parser *in, struct reading *r, bool is_argument)
{
	char c = *in->p;

	if (is_argument && (c == ',' || c == '>' || c == ')'))
		return false;
	if (c == '(')
		return parse_parenthesis(in, r, is_argument);
	if (skip(in, "::")) {
		parse_scope(in, r);
	} else if (c == '<') {
		r->args = parse_arguments(in);
	} else if (c == '{' || c == '[') {
		struct slice group = skip_group(in);

		if (!r->label.length && c == '{')
			r->lambda = group;
	} else if (c == ' ') {
		in->p++;
		skip_qualifier(in);
	} else {
		if ((c == '*' || (c == '&' && r->label.length)) && r->suffix.length == 0)
			r->suffix = (struct slice){ in->p, 1 };
		else if (c == '*' && r->suffix.text + r->suffix.length == in->p)
			r->suffix.length++;
		in->p++;
		if (c == '&' && !r->label.length)
			skip(in, "(");
	}
	return true;
}

static struct name *parse_name(struct parser *in, bool is_argument)
{
	struct reading r = { 0 };

	skip_qualifier(in);
	while (in->p < in->end && !in->failed) {
		if (!r.label.length && *in->p == '-' && in->end - in->p > 1 &&
		    isdigit((unsigned char)in->p[1])) {
			const char *minus = in->p++;

			parse_word(in, &r);
			r.label = (struct slice){ minus, r.label.length + 1 };
		} else if (is_word_char(*in->p)) {
			parse_word(in, &r);
		} else if (!parse_other(in, &r, is_argument)) {
			break;
		}
	}
	return finish(in, &r);
}

struct name *name_tree_parse(const char *text, size_t length, struct arena *arena)
{
	struct parser in = { .p = text, .end = text + length, .arena = arena };
	struct name *root = parse_name(&in, false);

	return in.failed ? NULL : root;
}
