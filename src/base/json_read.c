#include "base/json_read.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

#define REPLACEMENT 0xfffd /* a NUL would terminate the text */

static int wrong(const struct json_members *m, const char *what, struct error *e)
{
	return error_set(e, E_FORMAT, "line %u: %s", m->line, what);
}

static void skip_blanks(struct json_members *m)
{
	for (; m->p < m->end && (*m->p == ' ' || *m->p == '\t' || *m->p == '\r' || *m->p == '\n');
	     m->p++)
		m->line += *m->p == '\n';
}

/* Skips blanks and returns the next character, or 0 at the end. */
static char peek(struct json_members *m)
{
	skip_blanks(m);
	return m->p < m->end ? *m->p : '\0';
}

static bool consume(struct json_members *m, char c)
{
	if (!c || peek(m) != c)
		return false;
	m->p++;
	return true;
}

/* Reads four hexadecimal digits, or nothing. */
static bool read_hex(struct json_members *m, uint32_t *value)
{
	uint32_t digits = 0;

	*value = 0;
	if (m->end - m->p < 4)
		return false;
	for (int i = 0; i < 4; i++) {
		unsigned c = (unsigned char)m->p[i], letter = c | 0x20;

		if (c >= '0' && c <= '9')
			digits = digits << 4 | (c - '0');
		else if (letter >= 'a' && letter <= 'f')
			digits = digits << 4 | (letter - 'a' + 10);
		else
			return false;
	}
	m->p += 4;
	*value = digits;
	return true;
}

/* Reads what follows \u, and the second half of a surrogate pair. Returns 0 for no character. */
static uint32_t read_unicode(struct json_members *m)
{
	const char *first_end = m->p + 4;
	uint32_t c, low;

	if (!read_hex(m, &c) || c < 0xd800 || c >= 0xdc00)
		return c;
	if (m->end - m->p >= 2 && m->p[0] == '\\' && m->p[1] == 'u') {
		m->p += 2;
		if (read_hex(m, &low) && low >= 0xdc00 && low < 0xe000)
			return 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
	}
	m->p = first_end;
	return 0;
}

/* Reads what follows a backslash. Returns 0 for no character. */
static uint32_t read_escape(struct json_members *m)
{
	static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
	const char *found;

	if (m->p == m->end)
		return 0;
	if (*m->p == 'u') {
		m->p++;
		return read_unicode(m);
	}
	found = *m->p ? strchr(names, *m->p) : NULL;
	m->p += found != NULL;
	return found ? (unsigned char)meant[found - names] : 0;
}

/* Returns the number of ASCII characters up to the next quote, backslash or control character. */
static size_t plain_length(const struct json_members *m)
{
	const char *p = m->p;

	while (p < m->end && (signed char)*p >= ' ' && *p != '"' && *p != '\\')
		p++;
	return (size_t)(p - m->p);
}

/*
 * Reads a string up to its closing quote; the opening one has been read. Whatever is no character
 * there becomes U+FFFD, so that one bad text does not cost all others of an object.
 */
static int read_string(struct json_members *m, struct strbuf *out, struct error *e)
{
	size_t plain = plain_length(m);

	strbuf_add(out, m->p, plain);
	m->p += plain;
	while (m->p < m->end && *m->p != '"') {
		uint8_t bytes[UTF8_MAX];
		uint32_t c = 0;
		size_t bad = 1, length = utf8_decode(m->p, (size_t)(m->end - m->p), &c, &bad);

		m->p += length ? length : bad;
		if (length && c == '\\')
			c = read_escape(m);
		else if (!length || c < ' ')
			c = 0;
		strbuf_add(out, bytes, utf8_put(bytes, c ? c : REPLACEMENT));
	}
	if (m->p == m->end)
		return wrong(m, "an unterminated string", e);
	m->p++;
	return 0;
}

static size_t digits(struct json_members *m)
{
	const char *begin = m->p;

	while (m->p < m->end && *m->p >= '0' && *m->p <= '9')
		m->p++;
	return (size_t)(m->p - begin);
}

static bool one_of(struct json_members *m, const char *characters)
{
	bool found = m->p < m->end && *m->p && strchr(characters, *m->p);

	m->p += found;
	return found;
}

static int read_number(struct json_members *m, struct strbuf *out, struct error *e)
{
	const char *begin = m->p, *first;
	bool good;

	one_of(m, "-");
	first = m->p;
	good = digits(m) && (*first != '0' || m->p == first + 1);
	if (good && one_of(m, "."))
		good = digits(m) > 0;
	if (good && one_of(m, "eE")) {
		one_of(m, "+-");
		good = digits(m) > 0;
	}
	strbuf_add(out, begin, (size_t)(m->p - begin));
	return good ? 0 : wrong(m, "neither a value nor a number", e);
}

static int read_word(struct json_members *m, struct strbuf *out, struct error *e)
{
	static const struct {
		const char *word;
		enum json_kind kind;
	} words[] = { { "true", JSON_TRUE }, { "false", JSON_FALSE }, { "null", JSON_NULL } };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t length = strlen(words[i].word);

		if ((size_t)(m->end - m->p) < length || memcmp(m->p, words[i].word, length) != 0)
			continue;
		m->p += length;
		m->kind = words[i].kind;
		if (m->kind != JSON_NULL)
			strbuf_add(out, words[i].word, length);
		return 0;
	}
	m->kind = JSON_NUMBER;
	return read_number(m, out, e);
}

/* After an opening bracket: skips to the matching one, interpreting only brackets and strings. */
static int skip_nested(struct json_members *m, struct error *e)
{
	_cleanup_strbuf_ struct strbuf unused = STRBUF_INIT;
	int err = 0;

	for (unsigned depth = 1; depth && err >= 0; m->p++) {
		char c = peek(m);

		if (!c)
			return wrong(m, "an unterminated array or object", e);
		depth += c == '[' || c == '{';
		depth -= c == ']' || c == '}';
		if (c != '"')
			continue;
		m->p++;
		err = read_string(m, &unused, e);
		m->p--;
	}
	return err;
}

static int read_value(struct json_members *m, struct strbuf *out, struct error *e)
{
	bool is_object = consume(m, '{');

	if (is_object || consume(m, '[')) {
		m->kind = is_object ? JSON_OBJECT : JSON_ARRAY;
		return skip_nested(m, e);
	}
	if (!consume(m, '"'))
		return read_word(m, out, e);
	m->kind = JSON_STRING;
	return read_string(m, out, e);
}

static int finish(struct json_members *m, struct error *e)
{
	m->over = true;
	skip_blanks(m);
	return m->p == m->end ? 0 : wrong(m, "unexpected text after the object", e);
}

static int read_key(struct json_members *m, struct error *e)
{
	int err;

	if (!consume(m, '"'))
		return wrong(m, "a name in quotes is missing", e);
	err = read_string(m, &m->key, e);
	return err < 0 || consume(m, ':') ? err : wrong(m, "no ':' after a name", e);
}

int json_members_next(struct json_members *m, struct error *e)
{
	int err = 0;

	if (m->over)
		return 0;
	if (!m->begun && !consume(m, m->is_array ? '[' : '{'))
		return wrong(m, m->is_array ? "no array '['" : "no object '{'", e);
	if (consume(m, m->is_array ? ']' : '}'))
		return finish(m, e);
	if (m->begun && !consume(m, ','))
		return wrong(m,
			     m->is_array ? "neither ',' nor ']' after a value"
					 : "neither ',' nor '}' after a value",
			     e);
	m->begun = true;
	strbuf_clear(&m->key);
	strbuf_clear(&m->text);
	if (!m->is_array)
		err = read_key(m, e);
	skip_blanks(m);
	m->value = m->p;
	if (err >= 0)
		err = read_value(m, &m->text, e);
	if (err < 0)
		return err;
	m->value_length = (size_t)(m->p - m->value);
	return m->key.failed || m->text.failed ? error_set(e, -ENOMEM, "out of memory") : 1;
}

void json_members_release(struct json_members *m)
{
	strbuf_release(&m->key);
	strbuf_release(&m->text);
}

int json_find(const char *bytes, size_t length, const char *key, struct json_found *out,
	      struct error *e)
{
	_cleanup_members_ struct json_members m = JSON_MEMBERS(bytes, length);
	int rc, found = -ENOENT;

	while ((rc = json_members_next(&m, e)) > 0) {
		if (strcmp(strbuf_text(&m.key), key) != 0)
			continue;
		out->kind = m.kind;
		snprintf(out->text, sizeof(out->text), "%s", strbuf_text(&m.text));
		found = 0;
	}
	return rc < 0 ? rc : found;
}
