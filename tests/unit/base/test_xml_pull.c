/* Documents as they are read: texts that look like ends, entities, and what is refused. */
#include "base/xml_pull.h"

#include <stdlib.h>
#include <string.h>

#include "support/cmocka_tests.h"

struct source {
	const char *text;
	size_t step; /* bytes at once */
};

static ssize_t read_text(void *user, void *bytes, size_t size)
{
	struct source *s = user;
	size_t length = MIN(strlen(s->text), MIN(s->step, size));

	memcpy(bytes, s->text, length);
	s->text += length;
	return (ssize_t)length;
}

/* Appends "<name attribute" for an element that begins, and "text|name>" for one that ends. */
static int read_whole(const char *text, size_t step, struct strbuf *out, struct error *e)
{
	struct source source = { text, step };
	struct xml_pull p = { .read = read_text, .user = &source };
	int found;

	while ((found = xml_pull_next(&p, e)) > XML_END)
		if (found == XML_OPEN)
			strbuf_addf(out, "%s<%s", strbuf_text(&p.text), strbuf_text(&p.name));
		else
			strbuf_addf(out, "%s|%s>", strbuf_text(&p.text), strbuf_text(&p.name));
	xml_pull_release(&p);
	return found;
}

static void assert_read(const char *text, const char *expected)
{
	for (size_t step = 1; step < 8; step += 3) {
		struct strbuf out = STRBUF_INIT;
		struct error e = { 0 };

		assert_int_equal(read_whole(text, step, &out, &e), XML_END);
		assert_string_equal(strbuf_text(&out), expected);
		strbuf_release(&out);
	}
}

static void texts_that_look_like_ends(void **state)
{
	(void)state;
	assert_read("<a><![CDATA[abc]] ] > ]>]]></a>", "<aabc]] ] > ]>|a>");
	assert_read("<a><![CDATA[x]]]]></a>", "<ax]]|a>");
	assert_read("<!-- zzz - -> --><a>b</a>", "<ab|a>");
	assert_read("<a>1<!-- x - > y -->2</a>", "<a12|a>");
}

static void entities_and_elements(void **state)
{
	(void)state;
	assert_read("<?xml version='1.0'?><a x='1'>&lt;&amp;&#65;&#x42;<b/>c</a>",
		    "<a<&AB<b|b>c|a>");
}

static void what_is_refused(void **state)
{
	static const char *const texts[] = { "<a>",          "<a></b>",
					     "<a><![CDATA[", "<!DOCTYPE a><a/>",
					     "<a>&b;</a>",   "<a/><b/>" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		struct strbuf out = STRBUF_INIT;
		struct error e = { 0 };

		assert_true(read_whole(texts[i], 3, &out, &e) < 0);
		assert_non_null(strstr(e.text, "line 1"));
		strbuf_release(&out);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(texts_that_look_like_ends),
		cmocka_unit_test(entities_and_elements),
		cmocka_unit_test(what_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
