/* A JSON text that comes in pieces: any size of them, any cut, any nesting. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_pull.h"

/* A text that arrives in pieces; `error` follows it. */
struct stream {
	const char *text;
	size_t length, piece;
	ssize_t error;
};

static ssize_t read_stream(void *user, void *bytes, size_t size)
{
	struct stream *s = user;

	size = MIN(MIN(size, s->length), s->piece);
	memcpy(bytes, s->text, size);
	s->text += size;
	s->length -= size;
	return size ? (ssize_t)size : s->error;
}

/* Appends what is read: "depth key=text", '[' or '{' for what opens, and '.' for what closes. */
static int render(struct stream s, struct strbuf *out, struct error *e)
{
	struct json_pull p = { .read = read_stream, .user = &s };
	int rc;

	while ((rc = json_pull_next(&p, e)) > 0)
		if (rc == JSON_PULL_CLOSE)
			strbuf_addf(out, "%zu. ", p.depth);
		else
			strbuf_addf(out, "%zu%s%s%s%s ", p.depth, strbuf_text(&p.key),
				    *strbuf_text(&p.key) ? "=" : "",
				    p.kind == JSON_ARRAY    ? "["
				    : p.kind == JSON_OBJECT ? "{"
				    : p.kind == JSON_NULL   ? "null"
							    : "",
				    strbuf_text(&p.text));
	json_pull_release(&p);
	return rc;
}

#define TEXT_OF(literal) literal, sizeof(literal) - 1
static const char whole[] = " {\"a\" : [1, -2.50e+7,\n18446744073709551616],\"b\":{\"c\":\"x\\u00e9"
			    "\\\"]}\",\"d\":{}},\"e\":true,\"f\":null,\"g\":[[],[false]]} \n";
static const char rendered[] =
	"0{ 1a=[ 21 2-2.50e+7 218446744073709551616 1. 1b={ 2c=x\xc3\xa9\"]} "
	"2d={ 2. 1. 1e=true 1f=null 1g=[ 2[ 2. 2[ 3false 2. 1. 0. ";

static void test_pieces_of_any_size(void **state)
{
	(void)state;
	for (size_t piece = 1; piece <= sizeof(whole); piece++) {
		_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
		struct error e = { 0 };

		assert_int_equal(render((struct stream){ TEXT_OF(whole), piece, 0 }, &out, &e),
				 JSON_PULL_END);
		assert_string_equal(strbuf_text(&out), rendered);
	}
}

/* What has come before the cut is there; then an error says that the text ends. */
static void test_a_cut_at_every_byte(void **state)
{
	(void)state;
	for (size_t length = 0; length < sizeof(whole) - 3; length++) {
		_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
		struct error e = { 0 };

		assert_int_equal(render((struct stream){ whole, length, 7, 0 }, &out, &e),
				 E_FORMAT);
		assert_memory_equal(rendered, strbuf_text(&out), out.length);
		assert_non_null(strstr(e.text, "line "));
		strbuf_clear(&out);
		assert_int_equal(render((struct stream){ whole, length, 7, -EIO }, &out, &e), -EIO);
	}
}

static void test_what_is_no_json(void **state)
{
	static const struct {
		const char *text, *error;
	} cases[] = {
		{ "", "line 1: the text ends within a value" },
		{ "{}\n x", "line 2: unexpected text after the value" },
		{ "[1 2]", "line 1: neither ',' nor the end after a value" },
		{ "[1,\n]", "line 2: a value is missing" },
		{ "[,1]", "line 1: a value is missing" },
		{ "[1}", "line 1: neither ',' nor the end after a value" },
		{ "{\"a\":1]", "line 1: neither ',' nor the end after a value" },
		{ "{\"a\":1,}", "line 1: a name in quotes is missing" },
		{ "{\"a\" 1}", "line 1: no ':' after a name" },
		{ "{1:1}", "line 1: a name in quotes is missing" },
		{ "[01]", "line 1: neither a value nor a number" },
		{ "[1.]", "line 1: neither a value nor a number" },
		{ "[NaN]", "line 1: neither a value nor a number" },
		{ "[truefalse]", "line 1: neither a value nor a number" },
		{ "[1e5x]", "line 1: neither a value nor a number" },
		{ "[+1]", "line 1: neither a value nor a number" },
		{ "]", "line 1: a value is missing" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
		struct error e = { 0 };
		struct stream s = { cases[i].text, strlen(cases[i].text), 3, 0 };

		assert_int_equal(render(s, &out, &e), E_FORMAT);
		assert_string_equal(e.text, cases[i].error);
	}
}

static void test_texts(void **state)
{
	static const char text[] =
		"[\"\xff\\ud800\\u0000\x01\\q\",\"\xf0\x9f\x98\x80\\ud83d\\ude00\"]";
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;

	(void)state;
	assert_int_equal(render((struct stream){ TEXT_OF(text), 1, 0 }, &out, NULL), JSON_PULL_END);
	/* U+FFFD for what is no character: a byte, half a pair, NUL, a control, an escape */
	assert_string_equal(strbuf_text(&out),
			    "0[ 1\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd"
			    "\xef\xbf\xbdq 1\xf0\x9f\x98\x80\xf0\x9f\x98\x80 0. ");
}

/* Repeats a text: [[[…, or a string of escapes. */
struct repeated {
	const char *text;
	size_t at, times, length;
	const char *end;
};

static ssize_t read_repeated(void *user, void *bytes, size_t size)
{
	struct repeated *r = user;
	char *out = bytes;
	size_t n = 0;

	for (; n < size && r->at < r->times * r->length; n++)
		out[n] = r->text[r->at++ % r->length];
	for (; n < size && *r->end; n++)
		out[n] = *r->end++;
	return (ssize_t)n;
}

static void test_nesting(void **state)
{
	struct repeated r = { "[", 0, 100000, 1, "" };
	struct json_pull p = { .read = read_repeated, .user = &r };
	struct error e = { 0 };
	size_t opened = 0;

	(void)state;
	while (json_pull_next(&p, &e) == JSON_PULL_VALUE)
		assert_int_equal(p.depth, opened++);
	assert_int_equal(opened, 100000);
	json_pull_release(&p);
	r = (struct repeated){ "[", 0, JSON_PULL_DEPTH_MAX + 1, 1, "" };
	p = (struct json_pull){ .read = read_repeated, .user = &r };
	assert_int_equal(json_pull_next(&p, &e), JSON_PULL_VALUE);
	assert_int_equal(json_pull_skip(&p, &e), E_FORMAT);
	assert_non_null(strstr(e.text, "more than a million"));
	json_pull_release(&p);
}

/* Too long a string loses its end, never half an escape, and the next value is whole. */
static void test_long_texts(void **state)
{
	(void)state;
	for (size_t shift = 0; shift < 6; shift++) {
		char text[16];
		struct repeated r = { "\\u00e9", 0, 400000, 6, "\",7]" };
		struct json_pull p = { .read = read_repeated, .user = &r };

		snprintf(text, sizeof(text), "[\"%.*s", (int)shift, "xxxxxx");
		strbuf_adds(&p.input, text);
		assert_int_equal(json_pull_next(&p, NULL), JSON_PULL_VALUE);
		assert_int_equal(json_pull_next(&p, NULL), JSON_PULL_VALUE);
		assert_true(p.is_cut);
		assert_in_range(p.text.length, JSON_PULL_TEXT_MAX / 6 * 2 - 16, JSON_PULL_TEXT_MAX);
		assert_int_equal(json_pull_next(&p, NULL), JSON_PULL_VALUE);
		assert_false(p.is_cut);
		assert_string_equal(strbuf_text(&p.text), "7");
		json_pull_release(&p);
	}
}

static void test_skipping(void **state)
{
	struct stream s = { TEXT_OF("{\"a\":[1,{\"b\":[2]}],\"c\":3}"), 2, 0 };
	struct json_pull p = { .read = read_stream, .user = &s };

	(void)state;
	assert_int_equal(json_pull_next(&p, NULL), JSON_PULL_VALUE);
	assert_int_equal(json_pull_next(&p, NULL), JSON_PULL_VALUE);
	assert_int_equal(json_pull_skip(&p, NULL), 0);
	assert_int_equal(json_pull_next(&p, NULL), JSON_PULL_VALUE);
	assert_string_equal(strbuf_text(&p.key), "c");
	assert_int_equal(json_pull_skip(&p, NULL), 0); /* a number has nothing to skip */
	assert_int_equal(json_pull_next(&p, NULL), JSON_PULL_CLOSE);
	assert_int_equal(json_pull_next(&p, NULL), JSON_PULL_END);
	assert_int_equal(json_pull_next(&p, NULL), JSON_PULL_END);
	json_pull_release(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pieces_of_any_size),
		cmocka_unit_test(test_a_cut_at_every_byte),
		cmocka_unit_test(test_what_is_no_json),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_nesting),
		cmocka_unit_test(test_long_texts),
		cmocka_unit_test(test_skipping),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
