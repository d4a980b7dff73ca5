/* One object's members, whatever the bytes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/json_read.h"

/* "key:kind:text;" of all members; *code is the end's. */
static void read_all(const char *bytes, size_t length, struct strbuf *out, struct error *e,
		     int *code)
{
	/* A copy of that length: sanitizers see what is read behind it. */
	char *exact = malloc(length + !length);
	struct json_members m;

	assert_non_null(exact);
	memcpy(exact, bytes, length);
	m = (struct json_members)JSON_MEMBERS(exact, length);
	while ((*code = json_members_next(&m, e)) > 0)
		strbuf_addf(out, "%s:%d:%s;", strbuf_text(&m.key), m.kind, strbuf_text(&m.text));
	json_members_release(&m);
	free(exact);
}

static void assert_members(const char *text, const char *expected)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct error e = { 0 };
	int code;

	read_all(text, strlen(text), &out, &e, &code);
	assert_int_equal(code, 0);
	assert_string_equal(strbuf_text(&out), expected);
}

static void assert_wrong(const char *text, const char *expected)
{
	_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
	struct error e = { 0 };
	int code;

	read_all(text, strlen(text), &out, &e, &code);
	assert_int_equal(code, E_FORMAT);
	if (!strstr(e.text, expected))
		fail_msg("'%s': '%s' does not have '%s'", text, e.text, expected);
}

static void test_values(void **state)
{
	(void)state;
	assert_members("{}", "");
	assert_members(" \n{ }\t", "");
	assert_members("{\"a\": \"b\", \"c\":-1.5e+3,\"d\":true , \"e\":false,\"f\":null}",
		       "a:0:b;c:1:-1.5e+3;d:2:true;e:3:false;f:4:;");
	assert_members(
		"{\"a\": [1, [], {\"b\": [{}]}, \"]\"], \"c\": {\"d\": {\"}\": 2}}, \"e\": 0}",
		"a:5:;c:6:;e:1:0;");
	assert_members("{\"\\u00e4\\n\\\"\": \"\\ud83d\\ude00\\/\"}",
		       "\xc3\xa4\n\":0:\xf0\x9f\x98\x80/;");
}

/* They cost themselves, and neither the rest of the text nor the other members. */
static void test_what_is_no_character(void **state)
{
	static const char *const texts[] = {
		"\\u0000", "\\ud800", "\\udcff", "\\q",          "\\u12",
		"\x01",    "\t",      "\xff",    "\xed\xa0\x80",
	};
	/* one for each byte, or for the longest beginning of a character */
	static const char *const read[] = { "?", "?", "?", "?q", "?12", "?", "?", "?", "???" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT, expected = STRBUF_INIT;

		strbuf_addf(&text, "{\"a\":\"<%s>\",\"b\":[\"%s\"],\"%s\":1}", texts[i], texts[i],
			    texts[i]);
		for (int part = 0; part < 2; part++) {
			strbuf_adds(&expected, part ? ">;b:5:;" : "a:0:<");
			for (const char *c = read[i]; *c; c++)
				strbuf_adds(&expected,
					    *c == '?' ? "\xef\xbf\xbd" : (char[2]){ *c, '\0' });
		}
		strbuf_adds(&expected, ":1:1;");
		assert_members(strbuf_text(&text), strbuf_text(&expected));
	}
	assert_members("{\"a\":\"\\ud83d\\ud83d\\ude00\\ud83d\\u0041\"}",
		       "a:0:\xef\xbf\xbd\xf0\x9f\x98\x80\xef\xbf\xbd"
		       "A;");
}

static void test_what_is_no_object(void **state)
{
	(void)state;
	assert_wrong("", "line 1: no object");
	assert_wrong("[]", "no object");
	assert_wrong("{} {}", "unexpected text after the object");
	assert_wrong("{\"a\": 1,}", "a name in quotes is missing");
	assert_wrong("{\"a\": 1 \"b\": 2}", "neither ',' nor '}'");
	assert_wrong("{\"a\" 1}", "no ':' after a name");
	assert_wrong("{\n\n\"a\": tru}", "line 3: neither a value nor a number");
	assert_wrong("{\"a\": 01}", "neither a value nor a number");
	assert_wrong("{\"a\": 1.}", "neither a value nor a number");
	assert_wrong("{\"a\": [{\"b\": 1}, \"]\"", "an unterminated array or object");
	assert_wrong("{\"a\": \"b", "an unterminated string");
}

static void test_cut_everywhere(void **state)
{
	static const char text[] = "{\"a\": [1, {\"b\": \"\\u00e4\\\\\"}], \"c\": -0.5e1, \"d\": "
				   "null, \"e\": \"\xc3\xa4\"}";

	(void)state;
	for (size_t length = 0; length < strlen(text); length++) {
		_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;
		struct error e = { 0 };
		int code;

		read_all(text, length, &out, &e, &code);
		assert_int_equal(code, E_FORMAT);
	}
}

/*
 * "value;" of all items, and behind it the end's code; those that are arrays go by another reader.
 */
static int read_items(const char *text, size_t length, struct strbuf *out, unsigned depth)
{
	struct json_members m = JSON_ITEMS(text, length);
	int code;

	while ((code = json_members_next(&m, NULL)) > 0) {
		assert_string_equal(strbuf_text(&m.key), "");
		if (m.kind == JSON_ARRAY && depth)
			assert_int_equal(read_items(m.value, m.value_length, out, depth - 1), 0);
		else
			strbuf_addf(out, "%d%.*s=%s;", m.kind, (int)m.value_length, m.value,
				    strbuf_text(&m.text));
	}
	json_members_release(&m);
	return code;
}

static void test_items(void **state)
{
	static const char text[] = " [ 1, \"a\\n\" ,[true,[ ]],[], {\"b\": [2]} ]\n";
	static const char *const wrong[] = {
		"", "{}", "[1,]", "[1 2]", "[,1]", "[1]]", "[1", "[}"
	};

	(void)state;
	for (size_t length = 0; length < strlen(text) - 1; length++) {
		_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;

		assert_int_equal(read_items(text, length, &out, 0), E_FORMAT);
	}
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;

		assert_int_equal(read_items(wrong[i], strlen(wrong[i]), &out, 1), E_FORMAT);
	}
	for (unsigned depth = 0; depth < 2; depth++) {
		_cleanup_strbuf_ struct strbuf out = STRBUF_INIT;

		assert_int_equal(read_items(text, strlen(text), &out, depth), 0);
		assert_string_equal(strbuf_text(&out),
				    depth ? "11=1;0\"a\\n\"=a\n;2true=true;5[ ]=;6{\"b\": [2]}=;"
					  : "11=1;0\"a\\n\"=a\n;5[true,[ ]]=;5[]=;6{\"b\": [2]}=;");
	}
}

static void test_depth(void **state)
{
	char text[256] = "{\"a\":";

	(void)state;
	memset(text + 5, '[', 100);
	assert_wrong(text, "an unterminated array or object");
}

static void test_find(void **state)
{
	const char text[] = "{\"a\":1,\"b\":{\"a\":2},\"a\":[3],\"a\":\"4\",\"c\":null}";
	struct json_found found = { .text = "x" };
	struct error e = { 0 };

	(void)state;
	assert_int_equal(json_find(text, strlen(text), "a", &found, &e), 0);
	assert_int_equal(found.kind, JSON_STRING);
	assert_string_equal(found.text, "4");
	assert_int_equal(json_find(text, strlen(text), "c", &found, &e), 0);
	assert_int_equal(found.kind, JSON_NULL);
	assert_string_equal(found.text, "");
	assert_int_equal(json_find(text, strlen(text), "d", &found, &e), -ENOENT);
	/* Half an object has nothing. */
	assert_int_equal(json_find(text, strlen(text) - 1, "a", &found, &e), E_FORMAT);
	assert_string_equal(e.text, "line 1: neither ',' nor '}' after a value");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_what_is_no_character),
		cmocka_unit_test(test_what_is_no_object),
		cmocka_unit_test(test_cut_everywhere),
		cmocka_unit_test(test_items),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
