/* Text for people: what is cut and folded fits, and nothing else is lost. */
#include "report/text.h"

#include <string.h>

#include "support/cmocka_tests.h"

static const char *const texts[] = {
	"",
	"a",
	"pitot report train.pitot",
	"\u00fcber \u20ac lines \u2588\u2588 of several bytes a column",
};

static void a_shortened_text_has_at_most_its_columns(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		size_t whole = text_columns(texts[i], strlen(texts[i]));

		for (size_t columns = 2; columns < whole + 3; columns++) {
			_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
			size_t kept;

			strbuf_adds(&text, texts[i]);
			text_shorten(&text, columns);
			assert_int_equal(text_columns(strbuf_text(&text), text.length),
					 MIN(whole, columns));
			if (whole <= columns) {
				assert_string_equal(strbuf_text(&text), texts[i]);
				continue;
			}
			kept = text.length - strlen(TEXT_CUT);
			assert_memory_equal(strbuf_text(&text), texts[i], kept);
			assert_string_equal(strbuf_text(&text) + kept, TEXT_CUT);
		}
	}
}

/* All words, in their order, on lines that begin with the indent and fit where a word does. */
static void a_folded_text_keeps_its_words(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		for (unsigned width = 1; width < 60; width++) {
			_cleanup_strbuf_ struct strbuf folded = STRBUF_INIT;
			const char *word = texts[i], *at;

			text_fold(&folded, texts[i], 3, width);
			at = strbuf_text(&folded);
			while (*at) {
				size_t line = strcspn(at, "\n");

				assert_memory_equal(at, "   ", 3);
				assert_true(text_columns(at, line) <= width ||
					    !memchr(at + 3, ' ', line - 3));
				for (at += 3; *at != '\n'; at++, word++) {
					word += strspn(word, " ") - (*at == ' ');
					assert_int_equal(*at, *word);
				}
				at++;
			}
			assert_int_equal(word[strspn(word, " ")], '\0');
		}
}

/* What GitHub's runner obeys: first on a line, where one may be folded, or anywhere. */
static void safe_text_has_no_workflow_commands(void **state)
{
	static const char *const cases[][2] = {
		{ "::error::x", "\\x3a:error::x" },
		{ "  ::error::x", "  \\x3a:error::x" },
		{ "a ::b", "a \\x3a:b" },
		{ "\u3000::b \u00a0::c", "\u3000\\x3a:b \u00a0\\x3a:c" },
		{ "at::native::f", "at::native::f" },
		{ ":::a:", "\\x3a::a:" },
		{ "a##[b]##c", "a\\x23#[b]##c" },
		{ "###[b", "#\\x23#[b" },
		{ ":", ":" },
		{ "##", "##" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

		text_safe(&text, cases[i][0], strlen(cases[i][0]));
		assert_string_equal(strbuf_text(&text), cases[i][1]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_shortened_text_has_at_most_its_columns),
		cmocka_unit_test(a_folded_text_keeps_its_words),
		cmocka_unit_test(safe_text_has_no_workflow_commands),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
