/* What `pitot record` asks for, and what a hostile environment may put in its place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "schema/settings.h"

static struct settings parsed(const char *text)
{
	struct settings s = { .sync = 1, .start_ns = 7, .max_bytes = 9 };

	settings_parse(&s, text);
	return s;
}

#define SAME_NUMBER(a, b) ((a) == (b))
#define SAME_FLAG SAME_NUMBER
#define SAME_ENUM SAME_NUMBER
#define SAME_U64 SAME_NUMBER
#define SAME_SIZE SAME_NUMBER
#define SAME_DURATION SAME_NUMBER
#define SAME_TEXT(a, b) (strcmp((a), (b)) == 0)

static void assert_untouched(const char *text)
{
	struct settings before = parsed(""), after = parsed(text);

#define S(key, type, ...)                                                                          \
	if (!SAME_##type(before.key, after.key))                                                   \
		fail_msg("\"%.40s\" changes " #key, text);
	SETTINGS(S)
#undef S
}

static void test_every_option(void **state)
{
	struct settings s = parsed(
		"graphs=launch;sync=0;memory=1;counters_ns=100000000;api=all;start_ns=1;delay_ns=2;"
		"duration_ns=3;max_bytes=4");

	(void)state;
	assert_int_equal(s.graphs, SETTING_GRAPHS_LAUNCH);
	assert_false(s.sync);
	assert_true(s.memory);
	assert_int_equal(s.counters_ns, 100000000);
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
	s = parsed("cpu=99;preload=all;cuda=0");
	assert_int_equal(s.cpu, 99);
	assert_int_equal(s.preload, SETTING_PRELOAD_ALL);
	assert_false(s.cuda);
	assert_true(parsed("cuda=1").cuda);
	assert_int_equal(parsed("cpu=99;cpu=0").cpu, 0);
	assert_int_equal(parsed("cpu=10001").cpu, 10000);
	assert_int_equal(parsed("counters_ns=1000000").counters_ns, 20000000); /* the shortest */
	assert_int_equal(parsed("cpu=9999999999999999999").cpu, 10000);
	assert_int_equal(parsed("cpu=-1").cpu, 0);
	assert_int_equal(parsed("cpu=fast").cpu, 0);
	assert_false(parsed("preload=yes").preload);

	s = parsed("preload=python;perf=4026531836");
	assert_int_equal(s.preload, SETTING_PRELOAD_PYTHON);
	assert_int_equal(s.perf, UINT64_C(4026531836));
	assert_int_equal(parsed("preload=python;preload=none").preload, SETTING_PRELOAD_NONE);
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
	assert_untouched("engine=quantum");
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

/* Another value than the default. */
#define OTHER_FLAG(s, key) (s)->key = !(s)->key
#define OTHER_ENUM(s, key) (s)->key = !(s)->key
#define OTHER_U64(s, key)                                                                          \
	(s)->key += 5 + (settings_option(SETTING_ID_##key)->most ? SETTING_ID_##key                \
								 : offsetof(struct settings, key))
#define OTHER_SIZE OTHER_U64
#define OTHER_DURATION OTHER_U64
#define OTHER_TEXT(s, key) strcpy((s)->key, "sm__*=1,y ?")

/* What is written is read back as it was, also where it is nothing. */
static void test_written_and_read(void **state)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	const struct settings defaults = SETTINGS_INIT;
	struct settings other = defaults, back = defaults;

	(void)state;
	settings_text(&defaults, &text);
	assert_string_equal(strbuf_text(&text), "");
#define S(key, type, ...) OTHER_##type(&other, key);
	SETTINGS(S)
#undef S
	settings_text(&other, &text);
	settings_parse(&back, strbuf_text(&text));
#define S(key, type, ...)                                                                          \
	assert_false(SAME_##type(other.key, defaults.key));                                        \
	assert_true(SAME_##type(back.key, other.key));
	SETTINGS(S)
#undef S
}

/* What is still to come is handed on as it was requested. */
static void test_joined(void **state)
{
	struct settings
		a = parsed("graphs=launch;stacks=native;counters_ns=0;cpu=50;duration_ns=7;cuda=0;"
			   "sync=1"),
		b = parsed("cuda=1;stacks=python;counters_ns=30000000;cpu=20;duration_ns=9;"
			   "api=all"),
		c = parsed("counters_ns=20000000;graphs=node"),
		d = parsed("engine=range-profiler;kernels=gemm,relu;kernel_count=7"),
		e = parsed("engine=range-profiler;kernels=none;kernel_count=8");

	(void)state;
	settings_join(&a, &b);
	assert_int_equal(a.graphs, SETTING_GRAPHS_LAUNCH);
	assert_int_equal(a.stacks, SETTING_STACKS_ALL);
	assert_int_equal(a.counters_ns, 30000000);
	assert_int_equal(a.cpu, 50);
	assert_int_equal(a.duration_ns, 7);
	assert_int_equal(a.api, SETTING_API_ALL);
	assert_true(a.cuda);
	assert_true(a.sync);
	assert_false(a.memory);
	settings_join(&a, &c);
	assert_int_equal(a.counters_ns, 20000000);
	assert_int_equal(a.graphs, SETTING_GRAPHS_NODE);
	assert_string_equal(a.kernels, "");
	settings_join(&a, &d);
	settings_join(&a, &e);
	settings_join(&a, &c);
	assert_string_equal(a.kernels, "gemm,relu");
	assert_int_equal(a.kernel_count, 7);
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

static struct settings from_environment(int code)
{
	struct settings s = SETTINGS_INIT;
	struct error e = { 0 };

	assert_int_equal(settings_read(&s, NULL, false, &e), code);
	return s;
}

static void test_the_environment(void **state)
{
	struct settings s;
	char longest[sizeof(s.directory) + 1];

	(void)state;
	unsetenv("PITOT_OPTIONS");
	unsetenv("PITOT_RECORDING");
	assert_string_equal(from_environment(0).directory, "");
	setenv("PITOT_RECORDING", "", 1);
	assert_string_equal(from_environment(0).directory, "");
	setenv("PITOT_RECORDING", "relative/path", 1);
	assert_string_equal(from_environment(E_USAGE).directory, "");
	setenv("PITOT_RECORDING", "/tmp/x.pitot", 1);
	s = from_environment(0);
	assert_string_equal(s.directory, "/tmp/x.pitot");
	assert_string_equal(s.log_path, "");
	setenv("PITOT_GPUFL", "relative", 1);
	assert_string_equal(from_environment(E_USAGE).log_path, "");
	setenv("PITOT_GPUFL", "/tmp/x.gpufl", 1);
	assert_string_equal(from_environment(0).log_path, "/tmp/x.gpufl");
	unsetenv("PITOT_GPUFL");
	assert_int_equal(s.graphs, SETTING_GRAPHS_NODE);
	assert_false(s.sync);
	assert_false(s.memory);
	assert_true(s.counters_ns > 0);
	assert_int_equal(s.api, SETTING_API_LAUNCHES);
	assert_int_equal(s.duration_ns, 0);
	assert_int_equal(s.max_bytes, 0);
	setenv("PITOT_OPTIONS", "sync=1;max_bytes=5", 1);
	s = from_environment(0);
	assert_true(s.sync);
	assert_int_equal(s.max_bytes, 5);
	assert_int_equal(s.source[SETTING_ID_sync], SETTING_BY_ENVIRONMENT);

	memset(longest, 'd', sizeof(longest));
	longest[0] = '/';
	longest[sizeof(longest) - 1] = '\0';
	setenv("PITOT_RECORDING", longest, 1);
	assert_string_equal(from_environment(E_USAGE).directory, "");
	longest[sizeof(s.directory) - 1] = '\0';
	setenv("PITOT_RECORDING", longest, 1);
	assert_string_equal(from_environment(0).directory, longest);
	unsetenv("PITOT_OPTIONS");
	unsetenv("PITOT_RECORDING");
}

static void check_sinks(const char *list, int result, const char *directory, const char *log_path,
			const char *says)
{
	struct settings s = SETTINGS_INIT;
	struct error e = { 0 };

	snprintf(s.sinks, sizeof(s.sinks), "%s", list);
	assert_int_equal(settings_place_sinks(&s, &e), result);
	assert_string_equal(s.directory, directory);
	assert_string_equal(s.log_path, log_path);
	assert_string_equal(s.sinks, "");
	if (says)
		assert_non_null(strstr(e.text, says));
}

static void test_sinks(void **state)
{
	(void)state;
	check_sinks("", 0, "", "", NULL);
	check_sinks("recording:/a", 0, "/a", "", NULL);
	check_sinks("gpufl:/g,recording:/a", 0, "/a", "/g", NULL);
	check_sinks("recording:/a,b/c,d,gpufl:/g", 0, "/a,b/c,d", "/g", NULL); /* no names */
	check_sinks("gpulf:/g", E_USAGE, "", "", "no sink 'gpulf', did you mean 'gpufl'?");
	check_sinks("x:1", E_USAGE, "", "", "no sink 'x'; choose from recording, gpufl");
	check_sinks("/a", E_USAGE, "", "", NULL);
	check_sinks("Recording:/a", E_USAGE, "", "", NULL);
	check_sinks("recording:", E_USAGE, "", "", NULL);
	check_sinks("recording:/a,gpufl:/g,recording:/b", E_USAGE, "/a", "/g", NULL);
	check_sinks("gpufl:/g,gpufl:/g", E_USAGE, "", "/g", NULL);
}

static void test_sinks_of_the_environment(void **state)
{
	struct settings s;

	(void)state;
	setenv("PITOT_SINKS", "recording:/a,gpufl:g", 1);
	s = from_environment(E_USAGE);
	assert_string_equal(s.directory, "/a");
	assert_string_equal(s.log_path, "");
	setenv("PITOT_RECORDING", "/r", 1);
	s = from_environment(E_USAGE);
	assert_string_equal(s.directory, "/r");
	assert_string_equal(s.log_path, "");
	unsetenv("PITOT_SINKS");
	unsetenv("PITOT_RECORDING");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sinks),
		cmocka_unit_test(test_sinks_of_the_environment),
		cmocka_unit_test(test_every_option),
		cmocka_unit_test(test_cpu_samples),
		cmocka_unit_test(test_the_last_one_counts),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_what_is_unknown_is_ignored),
		cmocka_unit_test(test_the_window),
		cmocka_unit_test(test_written_and_read),
		cmocka_unit_test(test_joined),
		cmocka_unit_test(test_any_bytes),
		cmocka_unit_test(test_a_very_long_text),
		cmocka_unit_test(test_the_environment),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
