/* What `pitot record` asks for, and what a hostile environment may put in its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "schema/settings.h"

static struct settings parsed(const char *text)
{
	struct settings s = { .sync = 1, .start_ns = 7, .max_bytes = 9 };

	settings_parse(&s, text);
	return s;
}

static void assert_untouched(const char *text)
{
	struct settings before = parsed(""), after = parsed(text);

	if (memcmp(&before, &after, sizeof(before)) != 0)
		fail_msg("\"%.40s\" changes the settings", text);
}

static void test_every_option(void **state)
{
	struct settings s = parsed(
		"graphs=launch;sync=0;memory=1;counters_ns=1000000;api=all;start_ns=1;delay_ns=2;"
		"duration_ns=3;max_bytes=4");

	(void)state;
	assert_int_equal(s.graphs, SETTING_GRAPHS_LAUNCH);
	assert_false(s.sync);
	assert_true(s.memory);
	assert_int_equal(s.counters_ns, 1000000);
	assert_int_equal(s.api, SETTING_API_ALL);
	assert_int_equal(s.start_ns, 1);
	assert_int_equal(s.delay_ns, 2);
	assert_int_equal(s.duration_ns, 3);
	assert_int_equal(s.max_bytes, 4);
	s = parsed("graphs=node;sync=1;memory=0;counters_ns=0;api=launches");
	assert_int_equal(s.counters_ns, 0);
	assert_int_equal(s.graphs, SETTING_GRAPHS_NODE);
	assert_true(s.sync);
	assert_false(s.memory);
	assert_int_equal(s.api, SETTING_API_LAUNCHES);
}

static void test_cpu_samples(void **state)
{
	struct settings s = parsed("");

	(void)state;
	assert_int_equal(s.cpu, 0);
	s = parsed("cpu=99;preload=1;cuda=0");
	assert_int_equal(s.cpu, 99);
	assert_int_equal(s.preload, SETTING_PRELOAD_1);
	assert_false(s.cuda);
	assert_true(parsed("cuda=1").cuda);
	assert_int_equal(parsed("cpu=99;cpu=0").cpu, 0);
	assert_int_equal(parsed("cpu=10001").cpu, 10000);
	assert_int_equal(parsed("cpu=9999999999999999999").cpu, 10000);
	assert_int_equal(parsed("cpu=-1").cpu, 0);
	assert_int_equal(parsed("cpu=fast").cpu, 0);
	assert_false(parsed("preload=yes").preload);

	s = parsed("preload=once;perf=4026531836");
	assert_int_equal(s.preload, SETTING_PRELOAD_ONCE);
	assert_int_equal(s.perf, UINT64_C(4026531836));
	assert_int_equal(parsed("preload=once;preload=0").preload, SETTING_PRELOAD_0);
	assert_int_equal(parsed("").perf, 0);
}

static void test_the_last_one_counts(void **state)
{
	(void)state;
	assert_int_equal(parsed("delay_ns=1;delay_ns=2").delay_ns, 2);
	assert_int_equal(parsed(";;delay_ns=1;;").delay_ns, 1);
}

static void test_numbers(void **state)
{
	(void)state;
	assert_int_equal(parsed("max_bytes=0").max_bytes, 0);
	assert_int_equal(parsed("max_bytes=00012").max_bytes, 12);
	assert_true(parsed("max_bytes=9999999999999999999").max_bytes ==
		    UINT64_C(9999999999999999999));
	assert_untouched("max_bytes=");
	assert_untouched("max_bytes=-1");
	assert_untouched("max_bytes=+1");
	assert_untouched("max_bytes= 1");
	assert_untouched("max_bytes=1 ");
	assert_untouched("max_bytes=0x10");
	assert_untouched("max_bytes=1e3");
	assert_untouched("max_bytes=18446744073709551616");
	assert_untouched("max_bytes=99999999999999999999999999999999");
}

static void test_what_is_unknown_is_ignored(void **state)
{
	(void)state;
	assert_untouched("engine=pc-sampling");
	assert_untouched("delay=1;DELAY_NS=1;delay_ns =1; delay_ns=1;delay_nsx=1;delay_n=1");
	assert_untouched("=");
	assert_untouched("=1");
	assert_untouched("delay_ns");
	assert_untouched(";");
	assert_untouched("\xff\xfe=\x80;\x01");
	assert_int_equal(parsed("what=ever;delay_ns=5").delay_ns, 5);
	assert_int_equal(parsed("delay_ns=5;start_ns=1=2").delay_ns, 5);
	assert_int_equal(parsed("start_ns=1=2").start_ns, 7);
}

static void test_the_window(void **state)
{
	struct settings s = { .start_ns = 1000, .delay_ns = 100, .duration_ns = 10 };

	(void)state;
	assert_int_equal(settings_window_start_ns(&s), 1100);
	assert_int_equal(settings_window_end_ns(&s), 1110);
	s.duration_ns = 0;
	assert_true(settings_window_end_ns(&s) == UINT64_MAX);
	s.delay_ns = UINT64_MAX;
	assert_true(settings_window_start_ns(&s) == UINT64_MAX);
	s.delay_ns = 0;
	assert_int_equal(settings_window_start_ns(&s),
			 0); /* before the start: a played tape's clock */
}

/* What is written is read back as it was, also where it is nothing. */
static void test_written_and_read(void **state)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct settings defaults, other, back;
	size_t count;
	const struct setting *all = settings_all(&count);

	(void)state;
	settings_defaults(&defaults);
	settings_text(&defaults, &text);
	assert_string_equal(strbuf_text(&text), "");
	other = defaults;
	for (size_t i = 0; i < count; i++) {
		uint64_t *value = (uint64_t *)(void *)((char *)&other + all[i].offset);

		*value = all[i].type == SETTING_NUMBER ? 5 + i : !all[i].initial;
	}
	settings_text(&other, &text);
	back = defaults;
	settings_parse(&back, strbuf_text(&text));
	assert_memory_equal(&back, &other, sizeof(back));
}

static void test_any_bytes(void **state)
{
	static const char letters[] = "graphs=launch;delay_ns=0123456789;=;\x80\xff\n%";
	char text[257];
	uint64_t random = 1;

	(void)state;
	for (int i = 0; i < 20000; i++) {
		struct settings s = { 0 };
		size_t length = (random >> 33) % sizeof(text);

		for (size_t k = 0; k < length; k++) {
			random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
			text[k] = letters[(random >> 33) % (sizeof(letters) - 1)];
		}
		text[length < sizeof(text) ? length : sizeof(text) - 1] = '\0';
		settings_parse(&s, text);
		assert_int_equal(s.directory[0], '\0');
	}
}

static void test_a_very_long_text(void **state)
{
	size_t length = 1 << 20;
	char *text = malloc(length + 1);

	(void)state;
	assert_non_null(text);
	memset(text, 'x', length);
	text[length] = '\0';
	assert_untouched(text);
	memset(text, ';', length);
	assert_untouched(text);
	memcpy(text + length - 10, "delay_ns=3", 10);
	assert_int_equal(parsed(text).delay_ns, 3);
	free(text);
}

static void test_the_environment(void **state)
{
	struct settings s;
	char longest[sizeof(s.directory) + 1];

	(void)state;
	unsetenv("PITOT_OPTIONS");
	unsetenv("PITOT_RECORDING");
	assert_false(settings_read(&s));
	setenv("PITOT_RECORDING", "", 1);
	assert_false(settings_read(&s));
	setenv("PITOT_RECORDING", "relative/path", 1);
	assert_false(settings_read(&s));
	setenv("PITOT_RECORDING", "/tmp/x.pitot", 1);
	assert_true(settings_read(&s));
	assert_string_equal(s.directory, "/tmp/x.pitot");
	assert_int_equal(s.graphs, SETTING_GRAPHS_NODE);
	assert_false(s.sync);
	assert_false(s.memory);
	assert_true(s.counters_ns > 0);
	assert_int_equal(s.api, SETTING_API_LAUNCHES);
	assert_int_equal(s.duration_ns, 0);
	assert_int_equal(s.max_bytes, 0);
	setenv("PITOT_OPTIONS", "sync=1;max_bytes=5", 1);
	assert_true(settings_read(&s));
	assert_true(s.sync);
	assert_int_equal(s.max_bytes, 5);

	memset(longest, 'd', sizeof(longest));
	longest[0] = '/';
	longest[sizeof(longest) - 1] = '\0';
	setenv("PITOT_RECORDING", longest, 1);
	assert_false(settings_read(&s));
	longest[sizeof(s.directory) - 1] = '\0';
	setenv("PITOT_RECORDING", longest, 1);
	assert_true(settings_read(&s));
	assert_string_equal(s.directory, longest);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_option),
		cmocka_unit_test(test_cpu_samples),
		cmocka_unit_test(test_the_last_one_counts),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_what_is_unknown_is_ignored),
		cmocka_unit_test(test_the_window),
		cmocka_unit_test(test_written_and_read),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_a_very_long_text),
		cmocka_unit_test(test_the_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
