#include "base/json.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"

static void escape(struct strbuf *out, uint32_t c)
{
	static const char names[] = "btn\0fr"; /* for characters 8 to 13 */

	if (c >= '\b' && c <= '\r' && c != '\v')
		strbuf_add(out, (char[]){ '\\', names[c - '\b'] }, 2);
	else if (c == '"' || c == '\\')
		strbuf_add(out, (char[]){ '\\', (char)c }, 2);
	else if (c < 0x10000)
		strbuf_addf(out, "\\u%04x", c);
	else
		strbuf_addf(out, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
}

/* The end of "##[", after which GitHub's runner obeys a line wherever it is. */
static bool is_command(const uint8_t *text, size_t at)
{
	return at >= 2 && text[at] == '[' && text[at - 1] == '#' && text[at - 2] == '#';
}

void json_escape(struct strbuf *out, const char *text, size_t length)
{
	const uint8_t *p = (const uint8_t *)text;
	size_t run = 0, i = 0, bad; /* text[run..i) needs no change */

	while (i < length) {
		uint32_t c = p[i];
		size_t n = c < 0x7f ? 1 : utf8_decode(p + i, length - i, &c, &bad);

		if (n && !(c < 0x7f ? c < 0x20 || c == '"' || c == '\\' || is_command(p, i)
				    : utf8_is_harmful(c))) {
			i += n;
			continue;
		}
		strbuf_add(out, text + run, i - run);
		if (n)
			escape(out, c);
		else
			strbuf_adds(out, UTF8_REPLACEMENT);
		i += n ? n : bad;
		run = i;
	}
	strbuf_add(out, text + run, i - run);
}

void json_quote(struct strbuf *out, const char *text, size_t length)
{
	strbuf_addc(out, '"');
	json_escape(out, text, length);
	strbuf_addc(out, '"');
}

static void line(struct json *j)
{
	strbuf_addc(j->out, '\n');
	for (unsigned i = 0; i < j->depth; i++)
		strbuf_adds(j->out, "  ");
}

/* Writes the comma and blank, or the new line, before an item of the innermost level. */
static void separate(struct json *j)
{
	bool first;

	if (j->after_key || j->depth == 0) {
		j->after_key = false;
		return;
	}
	first = j->first[j->depth - 1];
	j->first[j->depth - 1] = false;
	if (!first)
		strbuf_addc(j->out, ',');
	if (j->pretty)
		line(j);
	else if (!first)
		strbuf_addc(j->out, ' ');
}

static void open_level(struct json *j, bool is_array)
{
	if (j->depth >= JSON_DEPTH_MAX) {
		j->out->failed = true;
		return;
	}
	separate(j);
	strbuf_addc(j->out, is_array ? '[' : '{');
	j->first[j->depth] = true;
	j->is_array[j->depth] = is_array;
	j->depth++;
}

void json_object(struct json *j)
{
	open_level(j, false);
}

void json_array(struct json *j)
{
	open_level(j, true);
}

void json_end(struct json *j)
{
	if (j->depth == 0) {
		j->out->failed = true;
		return;
	}
	j->depth--;
	if (j->pretty && !j->first[j->depth])
		line(j);
	strbuf_addc(j->out, j->is_array[j->depth] ? ']' : '}');
}

void json_finish(struct json *j)
{
	while (j->depth)
		json_end(j);
	strbuf_addc(j->out, '\n');
}

void json_key(struct json *j, const char *key)
{
	separate(j);
	json_quote(j->out, key, strlen(key));
	strbuf_adds(j->out, ": ");
	j->after_key = true;
}

void json_bytes(struct json *j, const char *text, size_t length)
{
	separate(j);
	json_quote(j->out, text, length);
}

void json_string(struct json *j, const char *text)
{
	if (text)
		json_bytes(j, text, strlen(text));
	else
		json_null(j);
}

void json_u64(struct json *j, uint64_t v)
{
	separate(j);
	strbuf_addu(j->out, v);
}

/* Writes the sign if v is negative. Returns the absolute value. */
static uint64_t sign(struct json *j, int64_t v)
{
	separate(j);
	if (v >= 0)
		return (uint64_t)v;
	strbuf_addc(j->out, '-');
	return -(uint64_t)v;
}

void json_i64(struct json *j, int64_t v)
{
	strbuf_addu(j->out, sign(j, v));
}

void json_bool(struct json *j, bool v)
{
	separate(j);
	strbuf_adds(j->out, v ? "true" : "false");
}

void json_null(struct json *j)
{
	separate(j);
	strbuf_adds(j->out, "null");
}

void json_fixed(struct json *j, int64_t value, unsigned decimals)
{
	uint64_t v = sign(j, value), unit = 1;
	unsigned zeros = decimals;

	if (decimals > 18) { /* 10^decimals must fit */
		j->out->failed = true;
		return;
	}
	for (unsigned i = 0; i < decimals; i++)
		unit *= 10;
	strbuf_addu(j->out, v / unit);
	if (!decimals)
		return;
	strbuf_addc(j->out, '.');
	v %= unit;
	for (uint64_t rest = v; rest; rest /= 10)
		zeros--;
	for (unsigned i = 0; i < zeros; i++)
		strbuf_addc(j->out, '0');
	if (v)
		strbuf_addu(j->out, v);
}

void json_double_text(char text[JSON_DOUBLE_BYTES], double value)
{
	size_t length, rest;

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, JSON_DOUBLE_BYTES, "%.*g", digits, value);
		if (strtod(text, NULL) == value)
			break;
	}
	length = strspn(text, "-0123456789e+");
	rest = length + strcspn(text + length, "-0123456789e+");
	if (rest == length)
		return;
	text[length] = '.'; /* the locale's separator may have several bytes */
	memmove(text + length + 1, text + rest, strlen(text + rest) + 1);
}

void json_double(struct json *j, double value)
{
	char text[JSON_DOUBLE_BYTES];

	if (!isfinite(value)) {
		json_null(j);
		return;
	}
	json_double_text(text, value);
	separate(j);
	strbuf_adds(j->out, text);
}

void json_any_double(struct json *j, double value)
{
	if (isfinite(value))
		json_double(j, value);
	else
		json_string(j, isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
}

void json_key_object(struct json *j, const char *key)
{
	json_key(j, key);
	json_object(j);
}

void json_key_array(struct json *j, const char *key)
{
	json_key(j, key);
	json_array(j);
}

void json_key_string(struct json *j, const char *key, const char *text)
{
	json_key(j, key);
	json_string(j, text);
}

void json_key_u64(struct json *j, const char *key, uint64_t v)
{
	json_key(j, key);
	json_u64(j, v);
}

void json_key_known(struct json *j, const char *key, bool known, uint64_t v)
{
	json_key(j, key);
	known ? json_u64(j, v) : json_null(j);
}

void json_key_i64(struct json *j, const char *key, int64_t v)
{
	json_key(j, key);
	json_i64(j, v);
}

void json_key_bool(struct json *j, const char *key, bool v)
{
	json_key(j, key);
	json_bool(j, v);
}
