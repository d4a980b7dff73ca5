/* What a recording is called after its command. */
#include "format/recording_dir.h"

#include "base/compiler.h"
#include "support/cmocka_tests.h"

static void test_names(void **state)
{
	static const struct {
		const char *argv[4];
		const char *name;
	} cases[] = {
		{ { "./app" }, "app" },
		{ { "/usr/bin/python3", "-u", "src/train.py" }, "train" },
		{ { "app", "train.py" }, "app" },
		{ { "/opt/a b:c/t(1) \xc3\xa4+.x_y-z" }, "t_1_____.x_y-z" },
		{ { ".hidden" }, "_hidden" },
		{ { "-x.y" }, "_x.y" },
		{ { "" }, "command" },
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
		int argc = 0;

		while (argc < 4 && cases[i].argv[argc])
			argc++;
		recording_name(argc, (char **)(uintptr_t)cases[i].argv, &name);
		assert_string_equal(strbuf_text(&name), cases[i].name);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
