#include "base/html.h"

#include <string.h>

#include "base/json.h"
#include "base/utf8.h"
#include "support/cmocka_tests.h"

static void json_cannot_end_its_element(void **state)
{
	static const char name[] = "</script><!--\"<";
	struct strbuf json = STRBUF_INIT, out = STRBUF_INIT;

	(void)state;
	json_quote(&json, name, strlen(name));
	html_add_json(&out, json.data, json.length);
	assert_string_equal(strbuf_text(&out), "\"\\u003c/script>\\u003c!--\\\"\\u003c\"");
	html_add_json(&out, "", 0);
	html_add_json(&out, "1", 1);
	assert_string_equal(strbuf_text(&out) + out.length - 3, "c\"1");
	strbuf_release(&json);
	strbuf_release(&out);
}

static void markup_is_text(void **state)
{
	static const char hostile[] = "a<b>&\"'\x01\n\xff\xc3\xa9\xef\xbf\xbe]]>";
	struct strbuf text = STRBUF_INIT;

	(void)state;
	html_escape(&text, hostile, sizeof(hostile) - 1);
	assert_string_equal(strbuf_text(&text),
			    "a&lt;b&gt;&amp;&quot;&#39;" UTF8_REPLACEMENT " " UTF8_REPLACEMENT
			    "\xc3\xa9" UTF8_REPLACEMENT "]]&gt;");
	strbuf_release(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(json_cannot_end_its_element),
		cmocka_unit_test(markup_is_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
