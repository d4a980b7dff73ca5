/*
 * json_pull.c: finds tokens in a stream. json_read.c decodes them, as the items of an array of one,
 * so that both readers accept the same.
 */
#include "base/json_pull.h"

#include <errno.h>
#include <string.h>

#define PIECE_BYTES ((size_t)64 << 10)
#define AT_END (-1)

static int wrong(const struct json_pull *p, const char *what, struct error *e)
{
	return error_set(e, E_FORMAT, "line %llu: %s", (unsigned long long)p->line + 1, what);
}

/* Returns the next byte without consuming it, AT_END, or an error below that. */
static int peek(struct json_pull *p)
{
	ssize_t n;

	if (p->at < p->input.length)
		return (unsigned char)p->input.data[p->at];
	p->at = 0;
	strbuf_clear(&p->input);
	if (!strbuf_reserve(&p->input, PIECE_BYTES))
		return -ENOMEM;
	n = p->read(p->user, p->input.data, PIECE_BYTES);
	if (n <= 0)
		return n < 0 ? (int)MIN(n, AT_END - 1) : AT_END;
	p->input.length = (size_t)n;
	return (unsigned char)p->input.data[0];
}

static int skip_blanks(struct json_pull *p)
{
	int c;

	while ((c = peek(p)) == ' ' || c == '\t' || c == '\r' || c == '\n') {
		p->line += c == '\n';
		p->at++;
	}
	return c;
}

/* Decodes the token into `out`. */
static int decode(struct json_pull *p, struct strbuf *out, struct error *e)
{
	struct json_members *m = &p->members;
	int rc;

	strbuf_addc(&p->token, ']');
	if (p->token.failed)
		return error_set(e, -ENOMEM, "out of memory");
	*m = (struct json_members){ .p = p->token.data,
				    .end = p->token.data + p->token.length,
				    .line = (unsigned)p->line + 1,
				    .is_array = true,
				    .key = m->key,
				    .text = *out };
	rc = json_members_next(m, e);
	*out = m->text;
	m->text = (struct strbuf)STRBUF_INIT;
	p->kind = m->kind;
	if (rc > 0 && m->p + 1 != m->end)
		return wrong(p, "neither a value nor a number", e);
	return MIN(rc, 0);
}

static int failed(const struct json_pull *p, int c, struct error *e)
{
	return c == AT_END ? wrong(p, "the text ends within a value", e)
			   : error_set(e, c, "%s", error_code_text(c));
}

/*
 * Reads a string of printable ASCII without escapes, if all of it is in the buffer: it needs no
 * decoding. This and read_plain_number() make reading four times as fast.
 */
static bool read_plain_string(struct json_pull *p, struct strbuf *out)
{
	const char *begin = p->input.data + p->at + 1, *end = p->input.data + p->input.length;
	const char *at = begin;

	while (at < end && *at >= ' ' && *at < 127 && *at != '"' && *at != '\\')
		at++;
	if (at >= end || *at != '"')
		return false;
	strbuf_add(out, begin, (size_t)(at - begin));
	p->at += (size_t)(at - begin) + 2;
	p->kind = JSON_STRING;
	return true;
}

static const char *skip_digits(const char *at, const char *end)
{
	while (at < end && *at >= '0' && *at <= '9')
		at++;
	return at;
}

/* Reads a number without an exponent in the same way. */
static bool read_plain_number(struct json_pull *p)
{
	const char *begin = p->input.data + p->at, *end = p->input.data + p->input.length;
	const char *integer = begin + (begin < end && *begin == '-');
	const char *at = skip_digits(integer, end), *fraction = at + 1;

	if (at == integer || (*integer == '0' && at - integer > 1))
		return false;
	if (at < end && *at == '.' && (at = skip_digits(fraction, end)) == fraction)
		return false;
	if (at >= end || !memchr(",]} \n\r\t", *at, 7))
		return false;
	strbuf_add(&p->text, begin, (size_t)(at - begin));
	p->at += (size_t)(at - begin);
	p->kind = JSON_NUMBER;
	return true;
}

static int read_string(struct json_pull *p, struct strbuf *out, struct error *e)
{
	bool escaped = false, is_open = false;
	int c;

	if (read_plain_string(p, out))
		return out->failed ? error_set(e, -ENOMEM, "out of memory") : 0;
	strbuf_clear(&p->token);
	strbuf_addc(&p->token, '[');
	while ((c = peek(p)) >= 0) {
		p->at++;
		p->line += c == '\n';
		/* An escape is left out as a whole. */
		p->is_cut |= p->token.length >= JSON_PULL_TEXT_MAX && !escaped;
		if (!p->is_cut)
			strbuf_addc(&p->token, (char)c);
		if (is_open && c == '"' && !escaped)
			break;
		escaped = c == '\\' && !escaped;
		is_open = true;
	}
	if (c < 0)
		return failed(p, c, e);
	if (p->is_cut)
		strbuf_addc(&p->token, '"');
	return decode(p, out, e);
}

static bool is_nan(const char *word)
{
	return !strcmp(word, "NaN") || !strcmp(word + (*word == '-'), "Infinity");
}

/* A number or a word, up to what can follow it. */
static int read_word(struct json_pull *p, struct error *e)
{
	int c;

	if (read_plain_number(p))
		return p->text.failed ? error_set(e, -ENOMEM, "out of memory") : 0;
	strbuf_clear(&p->token);
	strbuf_addc(&p->token, '[');
	while ((c = peek(p)) >= 0 && !strchr(" \t\r\n,:]}[{\"", c)) {
		if (p->token.length > JSON_PULL_TEXT_MAX)
			return wrong(p, "a number of more than a million digits", e);
		strbuf_addc(&p->token, (char)c);
		p->at++;
	}
	if (c < AT_END || (c == AT_END && p->open) || p->token.length == 1)
		return c < 0 ? failed(p, c, e) : wrong(p, "a value is missing", e);
	if (p->accepts_nan && is_nan(strbuf_text(&p->token) + 1)) {
		p->kind = JSON_NULL;
		return 0;
	}
	return decode(p, &p->text, e);
}

static bool in_object(const struct json_pull *p)
{
	size_t level = p->open - 1;

	return p->levels.data[level / 8] >> level % 8 & 1;
}

static int open_container(struct json_pull *p, bool is_object, struct error *e)
{
	size_t level = p->open;

	if (level == JSON_PULL_DEPTH_MAX)
		return wrong(p, "more than a million arrays and objects within each other", e);
	if (level / 8 == p->levels.length)
		strbuf_addc(&p->levels, 0);
	if (p->levels.failed)
		return error_set(e, -ENOMEM, "out of memory");
	p->levels.data[level / 8] &= (char)~(1 << level % 8);
	p->levels.data[level / 8] |= (char)(is_object << level % 8);
	p->kind = is_object ? JSON_OBJECT : JSON_ARRAY;
	p->open++;
	p->follows = false;
	p->at++;
	return JSON_PULL_VALUE;
}

static int read_key(struct json_pull *p, struct error *e)
{
	int c = skip_blanks(p), rc;

	if (c != '"')
		return c < 0 ? failed(p, c, e) : wrong(p, "a name in quotes is missing", e);
	rc = read_string(p, &p->key, e);
	if (rc < 0)
		return rc;
	c = skip_blanks(p);
	if (c != ':')
		return c < 0 ? failed(p, c, e) : wrong(p, "no ':' after a name", e);
	p->at++;
	return 0;
}

static int read_value(struct json_pull *p, struct error *e)
{
	int c = skip_blanks(p), rc;

	p->depth = p->open;
	p->begun = p->follows = true;
	if (c == '{' || c == '[')
		return open_container(p, c == '{', e);
	rc = c == '"' ? read_string(p, &p->text, e) : c < 0 ? failed(p, c, e) : read_word(p, e);
	return rc < 0 ? rc : JSON_PULL_VALUE;
}

int json_pull_next(struct json_pull *p, struct error *e)
{
	int c = skip_blanks(p), rc = 0;

	strbuf_clear(&p->key);
	strbuf_clear(&p->text);
	p->is_cut = false;
	if (!p->open && p->begun && c == AT_END)
		return JSON_PULL_END;
	if (c < 0)
		return failed(p, c, e);
	if (!p->open)
		return p->begun ? wrong(p, "unexpected text after the value", e) : read_value(p, e);
	if (c == (in_object(p) ? '}' : ']')) {
		p->at++;
		p->depth = --p->open;
		p->follows = true;
		return JSON_PULL_CLOSE;
	}
	if (p->follows) {
		if (c != ',')
			return wrong(p, "neither ',' nor the end after a value", e);
		p->at++;
	}
	if (in_object(p))
		rc = read_key(p, e);
	return rc < 0 ? rc : read_value(p, e);
}

int json_pull_skip(struct json_pull *p, struct error *e)
{
	size_t depth = p->depth;
	int rc = JSON_PULL_VALUE;

	if (p->open > depth)
		do
			rc = json_pull_next(p, e);
		while (rc > 0 && p->open > depth);
	return MIN(rc, 0);
}

void json_pull_release(struct json_pull *p)
{
	struct strbuf *all[] = { &p->key, &p->text, &p->input, &p->levels, &p->token };

	for (size_t i = 0; i < ARRAY_SIZE(all); i++)
		strbuf_release(all[i]);
	json_members_release(&p->members);
}
