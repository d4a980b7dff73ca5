/*
 * Settings from code, `pitot record`, the environment, a file and the program's own defaults: which
 * of them counts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/io.h"
#include "schema/settings.h"

static char path[] = "/tmp/pitot-settings-XXXXXX";

static int make_file(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int remove_file(void **state)
{
	(void)state;
	return unlink(path);
}

static void write_config(const char *text)
{
	FILE *f = fopen(path, "w");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

static const char *const variables[] = {
	"PITOT_GRAPHS",    "PITOT_COUNTERS",    "PITOT_STACKS",      "PITOT_OPTIONS",
	"PITOT_DISABLED",  "PITOT_SYNC",        "GPUFL_DISABLED",    "GPUFL_APP_NAME",
	"PITOT_APP_NAME",  "PITOT_MAX_SIZE",    "PITOT_ENGINE",      "GPUFL_PROFILING_ENGINE",
	"PITOT_RECORDING", "PITOT_CONFIG_FILE", "GPUFL_CONFIG_FILE", "PITOT_DELAY",
};

static int clean(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(variables); i++)
		unsetenv(variables[i]);
	return 0;
}

static struct error problem;

static struct settings read_all(const char *file, bool own)
{
	struct settings s = SETTINGS_INIT;

	problem = (struct error){ 0 };
	settings_read(&s, file, own, &problem);
	return s;
}

/* Each source in turn, from the weakest to the strongest; all weaker ones stay. */
static void test_precedence(void **state)
{
	struct settings s = SETTINGS_INIT;

	(void)state;
	settings_put(&s, SETTING_ID_graphs, SETTING_GRAPHS_NODE, SETTING_BY_PROGRAM);
	assert_int_equal(s.graphs, SETTING_GRAPHS_NODE);
	write_config("{ \"graphs\": \"launch\", \"stacks\": \"native\", \"counters\": 2 }");
	settings_read(&s, path, true, NULL);
	assert_int_equal(s.graphs, SETTING_GRAPHS_LAUNCH);
	assert_int_equal(s.source[SETTING_ID_graphs], SETTING_BY_FILE);
	setenv("PITOT_GRAPHS", "node", 1);
	settings_read(&s, path, true, NULL);
	assert_int_equal(s.graphs, SETTING_GRAPHS_NODE);
	settings_put(&s, SETTING_ID_graphs, SETTING_GRAPHS_LAUNCH, SETTING_BY_CODE);
	settings_read(&s, path, true, NULL);
	assert_int_equal(s.graphs, SETTING_GRAPHS_LAUNCH);
	assert_int_equal(s.source[SETTING_ID_graphs], SETTING_BY_CODE);
	/* The other keys of the file count as before. */
	assert_int_equal(s.stacks, SETTING_STACKS_NATIVE);
	assert_int_equal(s.counters_ns, 2 * NS_PER_S);

	/*
	 * For the recording of `pitot record` nothing else counts; for another one all but what
	 * that says.
	 */
	setenv("PITOT_OPTIONS", "start_ns=5;stacks=python", 1);
	setenv("PITOT_CONFIG_FILE", path, 1);
	s = read_all(NULL, false);
	assert_int_equal(s.stacks, SETTING_STACKS_PYTHON);
	assert_int_equal(s.source[SETTING_ID_stacks], SETTING_BY_RECORD);
	assert_int_equal(s.source[SETTING_ID_counters_ns], SETTING_BY_DEFAULT);
	assert_int_equal(s.start_ns, 5);
	s = read_all(NULL, true);
	assert_int_equal(s.stacks, SETTING_STACKS_NATIVE);
	assert_int_equal(s.start_ns, 0);
	assert_int_equal(s.graphs, SETTING_GRAPHS_NODE);
}

/* All subsets of the sources, each with all subsets of the kill switch's. */
static void test_every_combination(void **state)
{
	enum { PROGRAM = 1, FILE_ = 2, ENVIRONMENT = 4, CODE = 8, OFF_FILE = 16, OFF_OURS = 32 };
	enum { OFF_THEIRS = 64, ALL = 128 };

	for (unsigned from = 0; from < ALL; from++) {
		struct settings s = SETTINGS_INIT;
		enum setting_source source = from & CODE          ? SETTING_BY_CODE
					     : from & ENVIRONMENT ? SETTING_BY_ENVIRONMENT
					     : from & FILE_       ? SETTING_BY_FILE
					     : from & PROGRAM     ? SETTING_BY_PROGRAM
								  : SETTING_BY_DEFAULT;
		char file[64];

		clean(state);
		snprintf(file, sizeof(file), "{\"enabled\": %s%s}",
			 from & OFF_FILE ? "false" : "true",
			 from & FILE_ ? ", \"delay\": \"2s\"" : "");
		write_config(file);
		if (from & PROGRAM)
			settings_put(&s, SETTING_ID_delay_ns, NS_PER_S, SETTING_BY_PROGRAM);
		if (from & CODE)
			settings_put(&s, SETTING_ID_delay_ns, 4 * NS_PER_S, SETTING_BY_CODE);
		if (from & ENVIRONMENT)
			setenv("PITOT_DELAY", "3s", 1);
		if (from & OFF_OURS)
			setenv("PITOT_DISABLED", "1", 1);
		if (from & OFF_THEIRS)
			setenv("GPUFL_DISABLED", "1", 1);
		settings_read(&s, path, true, NULL);
		assert_int_equal(s.source[SETTING_ID_delay_ns], source);
		assert_int_equal(s.delay_ns, from & CODE          ? 4 * NS_PER_S
					     : from & ENVIRONMENT ? 3 * NS_PER_S
					     : from & FILE_       ? 2 * NS_PER_S
					     : from & PROGRAM     ? NS_PER_S
								  : 0);
		assert_int_equal(s.disabled, (from & (OFF_FILE | OFF_OURS | OFF_THEIRS)) != 0);
	}
	clean(state);
}

static void test_sources(void **state)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	struct settings s;

	(void)state;
	write_config("{\"max_size\": \"2M\", \"counters\": false}");
	setenv("PITOT_SYNC", "Yes", 1);
	s = read_all(path, true);
	settings_put(&s, SETTING_ID_delay_ns, 250 * NS_PER_MS, SETTING_BY_CODE);
	settings_sources(&s, &text);
	assert_string_equal(strbuf_text(&text),
			    "delay=250 ms (code), sync=on (environment), counters=off (file), "
			    "max-size=2.0 MiB (file)");
}

static void test_every_setting_has_a_variable_and_a_key(void **state)
{
	static const char *const values[] = { [OPTION_FLAG] = "on",
					      [OPTION_U64] = "7",
					      [OPTION_SIZE] = "7M",
					      [OPTION_DURATION] = "7s",
					      [OPTION_TEXT] = "x*" };
	unsigned count = 0;

	(void)state;
	for (int i = 0; i < SETTINGS_COUNT; i++) {
		const struct option *o = settings_option(i);
		const char *value = o->type == OPTION_ENUM ? o->choices[0] : values[o->type];
		char name[64], text[128];
		struct settings s;

		if (!o->name)
			continue;
		snprintf(name, sizeof(name), "PITOT_%s", o->name);
		for (char *p = name; *p; p++)
			*p = *p == '-' ? '_' : (char)(*p & ~(*p >= 'a' && *p <= 'z' ? 32 : 0));
		setenv(name, value, 1);
		s = read_all(NULL, true);
		assert_int_equal(s.source[i], SETTING_BY_ENVIRONMENT);
		unsetenv(name);
		snprintf(text, sizeof(text), "{\"%s\": \"%s\"}", o->name, value);
		write_config(text);
		assert_int_equal(read_all(path, true).source[i], SETTING_BY_FILE);
		count++;
	}
	assert_true(count >= 11);
}

static void assert_problem(const char *expected)
{
	if (!strstr(problem.text, expected))
		fail_msg("'%s' does not have '%s'", problem.text, expected);
}

static void test_what_is_wrong_is_named(void **state)
{
	struct settings s;

	(void)state;
	write_config("{\n \"stacks\": \"native\",\n \"grahps\": \"launch\",\n \"api\": \"all\"\n}");
	s = read_all(path, true);
	assert_problem(":3: unknown key 'grahps', did you mean 'graphs'?");
	assert_int_equal(s.stacks, SETTING_STACKS_NATIVE); /* the others count */
	assert_int_equal(s.api, SETTING_API_ALL);
	write_config("{\"graphs\": \"lunch\"}");
	assert_int_equal(read_all(path, true).graphs, SETTING_GRAPHS_NODE);
	assert_problem(":1: 'graphs' takes launch or node, not 'lunch'");
	write_config("{\"graphs\": [1]}");
	read_all(path, true);
	assert_problem("'graphs' takes a text, a number, true or false");
	write_config("{\"graphs\"");
	read_all(path, true);
	assert_problem("line 1: no ':' after a name");
	write_config("{\"engine\": \"deeper\"}");
	read_all(path, true);
	assert_problem("'engine' takes monitor, trace, pc-sampling, range-profiler, "
		       "pm-sampling, sass-metrics or deep, not 'deeper'");
	read_all("/nonexistent/pitot.json", true);
	assert_problem("cannot read the configuration file '/nonexistent/pitot.json'");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0600), 0);
	read_all(path, true); /* without waiting for somebody who writes into it */
	assert_problem("': not a regular file");
	assert_int_equal(unlink(path), 0);
	setenv("PITOT_COUNTERS", "often", 1);
	assert_true(read_all(NULL, true).counters_ns > 0);
	assert_problem("PITOT_COUNTERS takes a duration such as 10s, 250ms or 1.5m, not 'often'");
}

static void test_the_kill_switch(void **state)
{
	static const char *const on[] = { "1", "true", "YES", "On" }, *const off[] = { "0", "",
										       "no", "x" };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(on); i++) {
		setenv("PITOT_DISABLED", on[i], 1);
		assert_true(read_all(NULL, true).disabled);
		setenv("PITOT_DISABLED", off[i], 1);
		assert_false(read_all(NULL, true).disabled);
		setenv("GPUFL_DISABLED", on[i], 1);
		assert_true(read_all(NULL, false).disabled);
		unsetenv("GPUFL_DISABLED");
	}
	write_config("{\"enabled\": false}");
	assert_true(read_all(path, true).disabled);
	write_config("{\"enabled\": true}");
	assert_false(read_all(path, true).disabled);
}

static void test_gpufl(void **state)
{
	struct settings s;

	(void)state;
	setenv("GPUFL_PROFILING_ENGINE", "PcSampling", 1);
	setenv("GPUFL_APP_NAME", "theirs", 1);
	s = read_all(NULL, true);
	assert_int_equal(s.engine, SETTING_ENGINE_PC_SAMPLING);
	assert_string_equal(s.name, "theirs");
	setenv("GPUFL_PROFILING_ENGINE", "Deep", 1);
	s = read_all(NULL, true);
	assert_int_equal(s.engine, SETTING_ENGINE_DEEP);
	assert_int_equal(s.measure, SETTING_MEASURE_KERNEL);
	setenv("GPUFL_PROFILING_ENGINE", "RangeProfiler", 1); /* of scopes */
	s = read_all(NULL, true);
	assert_int_equal(s.engine, SETTING_ENGINE_RANGE_PROFILER);
	assert_int_equal(s.measure, SETTING_MEASURE_RANGE);
	setenv("GPUFL_PROFILING_ENGINE", "RangeProfilerKernelReplay", 1);
	s = read_all(NULL, true);
	assert_int_equal(s.engine, SETTING_ENGINE_RANGE_PROFILER);
	assert_int_equal(s.measure, SETTING_MEASURE_KERNEL);
	setenv("PITOT_OPTIONS", "engine=trace", 1); /* ours counts */
	assert_int_equal(read_all(NULL, true).engine, SETTING_ENGINE_TRACE);
	setenv("PITOT_ENGINE", "monitor", 1);
	setenv("PITOT_APP_NAME", "ours", 1);
	s = read_all(NULL, true);
	assert_int_equal(s.engine, SETTING_ENGINE_MONITOR);
	assert_string_equal(s.name, "ours");
	snprintf(s.name, sizeof(s.name), "%s", "of the program");
	assert_int_equal(settings_read(&s, NULL, true, NULL), 0);
	assert_string_equal(s.name, "of the program");
	clean(NULL);
	write_config("{\"profiling_engine\": \"Monitor\", \"system_sample_rate_ms\": 50, "
		     "\"enable_stack_trace\": false, \"pm_sampling_interval_us\": 50, "
		     "\"pm_sampling_metrics\": [\"a\", {\"b\": 1}], \"api_path\": null}");
	setenv("GPUFL_CONFIG_FILE", path, 1);
	s = read_all(NULL, true);
	assert_int_equal(problem.code, 0);
	assert_int_equal(s.engine, SETTING_ENGINE_MONITOR);
	assert_int_equal(s.counters_ns, 50 * NS_PER_MS);
	assert_int_equal(s.stacks, SETTING_STACKS_NONE);
	assert_int_equal(s.pm_interval_ns, 50 * NS_PER_US);
	write_config("{\"pm_sampling_interval_us\": \"often\"}");
	read_all(NULL, true);
	assert_non_null(strstr(problem.text, "takes microseconds, not 'often'"));
}

/* Keys of gpufl's, and the settings that they stand for. */
static void test_keys_of_gpufl(void **state)
{
	static const struct {
		const char *text;
		enum setting_id id;
		uint64_t value;
	} keys[] = {
		{ "\"continuous_system_sampling\": true", SETTING_ID_counters_always, true },
		{ "\"continuous_system_sampling\": false", SETTING_ID_counters_always, false },
		{ "\"enable_stack_trace\": true", SETTING_ID_stacks, SETTING_STACKS_ALL },
		{ "\"enable_stack_trace\": false", SETTING_ID_stacks, SETTING_STACKS_NONE },
		{ "\"enable_memory_tracking\": true", SETTING_ID_memory, true },
		{ "\"enable_cuda_graphs_tracking\": true", SETTING_ID_graphs,
		  SETTING_GRAPHS_LAUNCH },
		{ "\"enable_cuda_graphs_tracking\": false", SETTING_ID_graphs,
		  SETTING_GRAPHS_NODE },
		{ "\"system_sample_rate_ms\": 50", SETTING_ID_counters_ns, 50 * NS_PER_MS },
		{ "\"system_sample_rate_ms\": 50", SETTING_ID_system, SETTING_SYSTEM_ALL },
		{ "\"pm_sampling_interval_us\": 50", SETTING_ID_pm_interval_ns, 50 * NS_PER_US },
		{ "\"profiling_engine\": \"RangeProfiler\"", SETTING_ID_measure,
		  SETTING_MEASURE_RANGE },
	};
	static const char *const others[] = {
		"log_path",
		"backend_url",
		"api_key",
		"api_path",
		"remote_upload",
		"backend",
		"deep_window_only",
		"flush_logs_always",
		"enable_debug_output",
		"pm_sampling_preset",
		"enable_synchronization",
		"kernel_sample_rate_ms",
	};
	char text[128];

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		struct strbuf found = STRBUF_INIT, expected = STRBUF_INIT;
		struct settings s;

		snprintf(text, sizeof(text), "{ %s }", keys[i].text);
		write_config(text);
		s = read_all(path, true);
		assert_int_equal(problem.code, 0);
		assert_int_equal(s.source[keys[i].id], SETTING_BY_FILE);
		settings_text(&s, &found);
		settings_put(&s, keys[i].id, keys[i].value, SETTING_BY_CODE);
		settings_text(&s, &expected);
		assert_string_equal(strbuf_text(&found), strbuf_text(&expected));
		strbuf_release(&found);
		strbuf_release(&expected);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		snprintf(text, sizeof(text), "{ \"%s\": \"x\" }", others[i]);
		write_config(text);
		read_all(path, true);
		assert_int_equal(problem.code, 0);
	}
	write_config("{ \"enable_memory_tracking\": 7 }");
	read_all(path, true);
	assert_non_null(strstr(problem.text, "'enable_memory_tracking' takes true or false"));
}

/* Texts of keys that are no settings; of arrays the items. */
static void test_texts_of_the_file(void **state)
{
	static const struct {
		const char *key, *text; /* NULL: there is none */
	} keys[] = { { "log_path", "a \"path\"" }, { "rate", "50" },         { "on", "true" },
		     { "off", "false" },           { "metrics", "a,b\n,3" }, { "empty", "" },
		     { "twice", "second" },        { "object", NULL },       { "none", NULL } };

	(void)state;
	write_config(
		"{ \"log_path\": \"a \\\"path\\\"\", \"rate\": 50, \"on\": true, \"off\": false,"
		"\"metrics\": [\"a\", \"b\\n\", 3], \"empty\": \"\", \"twice\": 1, \"twice\": "
		"\"second\", \"object\": {\"none\": 1} }");
	for (size_t i = 0; i < ARRAY_SIZE(keys); i++) {
		struct strbuf text = STRBUF_INIT;
		struct error e = { 0 };

		assert_int_equal(settings_file_text(path, keys[i].key, &text, &e),
				 keys[i].text != NULL);
		assert_string_equal(strbuf_text(&text), keys[i].text ? keys[i].text : "");
		strbuf_clear(&text);
		assert_int_equal(settings_file_text(NULL, keys[i].key, &text, &e), 0);
		setenv("GPUFL_CONFIG_FILE", path, 1);
		assert_int_equal(settings_file_text(NULL, keys[i].key, &text, &e),
				 keys[i].text != NULL);
		unsetenv("GPUFL_CONFIG_FILE");
		strbuf_release(&text);
	}
	for (const char *const *bad =
		     (const char *const[]){ "{ \"a\": [1, }", "{ \"a\"", "", NULL };
	     *bad; bad++) {
		struct strbuf text = STRBUF_INIT;
		struct error e = { 0 };

		write_config(*bad);
		assert_true(settings_file_text(path, "a", &text, &e) < 0 && e.text[0]);
		strbuf_release(&text);
	}
}

/* Below `pitot record` the file that the program names still switches recording off. */
static void test_the_kill_switch_of_a_file_below_record(void **state)
{
	(void)state;
	setenv("PITOT_OPTIONS", "start_ns=5;stacks=python", 1);
	write_config("{ \"enabled\": false, \"graphs\": \"launch\" }");
	assert_true(read_all(path, false).disabled);
	assert_int_equal(read_all(path, false).graphs, SETTING_GRAPHS_NODE);
	write_config("{ \"enabled\": true }");
	assert_false(read_all(path, false).disabled);
}

static void test_differences(void **state)
{
	struct settings s = SETTINGS_INIT, actual = SETTINGS_INIT;
	struct strbuf text = STRBUF_INIT;

	(void)state;
	settings_put(&s, SETTING_ID_engine, SETTING_ENGINE_DEEP, SETTING_BY_CODE);
	settings_put(&s, SETTING_ID_sync, true, SETTING_BY_FILE);
	settings_put(&s, SETTING_ID_memory, true, SETTING_BY_CODE);
	settings_put(&s, SETTING_ID_metrics, (uintptr_t) "memory", SETTING_BY_CODE);
	settings_put(&s, SETTING_ID_counters_ns, 0, SETTING_BY_CODE);
	settings_put(&actual, SETTING_ID_memory, true, SETTING_BY_RECORD);
	settings_differences(&s, &actual, &text);
	assert_string_equal(strbuf_text(&text), "engine=deep, counters=off, metrics=memory");
	strbuf_release(&text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_precedence, clean),
		cmocka_unit_test_setup(test_every_combination, clean),
		cmocka_unit_test_setup(test_sources, clean),
		cmocka_unit_test_setup(test_every_setting_has_a_variable_and_a_key, clean),
		cmocka_unit_test_setup(test_what_is_wrong_is_named, clean),
		cmocka_unit_test_setup(test_the_kill_switch, clean),
		cmocka_unit_test_setup(test_gpufl, clean),
		cmocka_unit_test_setup(test_keys_of_gpufl, clean),
		cmocka_unit_test_setup(test_texts_of_the_file, clean),
		cmocka_unit_test_setup(test_the_kill_switch_of_a_file_below_record, clean),
		cmocka_unit_test_setup(test_differences, clean),
	};

	return cmocka_run_group_tests(tests, make_file, remove_file);
}
