/* What gpufl's logs say of a session: its name, engine and address, and the windows of samples. */
#include "gpufl_rows.h"

static void capability(struct sink *s, enum feature name, const char *requested, const char *actual)
{
	static uint32_t id = 1000;

	text_row(s, id, requested);
	text_row(s, id + 1, actual);
	ROW(s, capability, .name = (uint8_t)name, .requested = id, .actual = id + 1,
	    .missing = 1u << COLUMN_capability_reason);
	id += 2;
}

/* A folder of its own for session n. */
static const char *folder_of(void **state, size_t n)
{
	static char path[4096];

	snprintf(path, sizeof(path), "%s/%zu", (char *)*state, n);
	assert_int_equal(mkdir(path, 0700), 0);
	return path;
}

static void check_app(const char *folder, const char *file, const char *type, const char *app)
{
	char *text = window_text(folder, file), expected[64];

	snprintf(expected, sizeof(expected), "\"app\":\"%s\"", app);
	assert_non_null(find_line(text, type, 0));
	assert_non_null(strstr(find_line(text, type, 0), expected));
	free(text);
}

/* The program's name for itself replaces the executable's, whether it comes before or after it. */
static void test_the_name_of_the_program(void **state)
{
	for (size_t is_late = 0; is_late < 2; is_late++) {
		const char *folder = folder_of(state, is_late);
		struct sink *s = sink_open(folder, (struct gpufl_options){ 0 });

		if (!is_late)
			capability(s, feature_app_name, "", "tra\"iner");
		define(s);
		if (is_late)
			capability(s, feature_app_name, "", "tra\"iner");
		kernel(s, 2000, 2500, 1);
		close_sink(s);
		check_app(folder, "device.1.log.gz", "job_start", "tra\\\"iner");
		check_app(folder, "device.1.log.gz", "kernel_detail", "tra\\\"iner");
		check_app(folder, "sass.1.log.gz", "shutdown", "tra\\\"iner");
	}
}

/* A name that comes later is in another job_start, and in all lines from then on. */
static void test_a_name_that_comes_late(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	assert_int_equal(s->ops->seal(s), 0);
	capability(s, feature_app_name, "", "trainer");
	assert_int_equal(s->ops->seal(s), 0);
	capability(s, feature_app_name, "", "trainer");
	close_sink(s);
	text = window_text(*state, "scope.1.log.gz");
	assert_non_null(strstr(find_line(text, "job_start", 0), "\"app\":\"app\""));
	assert_non_null(strstr(find_line(text, "job_start", 1), "\"app\":\"trainer\""));
	assert_null(find_line(text, "job_start", 2));
	assert_non_null(strstr(find_line(text, "shutdown", 0), "\"app\":\"trainer\""));
	free(text);
}

static const struct {
	const char *settings, *requested, *actual; /* rows `settings` and `engine`; NULL: none */
	const char *first, *selected; /* gpufl's names, of the beginning and of what was got */
} engines[] = {
	{ "engine=monitor (program)", NULL, NULL, "nvidia.none", "nvidia.none" },
	{ "engine=trace (code), measure=range (code)", NULL, NULL, "nvidia.trace", "nvidia.trace" },
	{ "engine=range-profiler (code)", NULL, NULL, "nvidia.range_profiler_kernel_replay",
	  "nvidia.range_profiler_kernel_replay" },
	{ "engine=range-profiler (code), sync=on (code), measure=range (code)", NULL, NULL,
	  "nvidia.range_profiler", "nvidia.range_profiler" },
	{ "engine=range-profiler (code), measure=kernel (file)", NULL, NULL,
	  "nvidia.range_profiler_kernel_replay", "nvidia.range_profiler_kernel_replay" },
	{ "engine=range-profiler (code), measure=range (code)", "range-profiler", "trace",
	  "nvidia.range_profiler", "nvidia.trace" },
	{ "engine=deep (code)", "deep", "pc-sampling", "nvidia.pc_sampling_with_sass",
	  "nvidia.pc_sampling" },
};

static void test_names_of_engines(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
		const char *folder = folder_of(state, i);
		struct sink *s = sink_open(folder, (struct gpufl_options){ 0 });
		char *text, expected[128];

		define(s);
		capability(s, feature_settings, "", engines[i].settings);
		if (engines[i].requested)
			capability(s, feature_engine, engines[i].requested, engines[i].actual);
		close_sink(s);
		text = window_text(folder, "device.1.log.gz");
		snprintf(expected, sizeof(expected), "\"profiling_engine\":\"%s\"}",
			 engines[i].first);
		assert_non_null(strstr(find_line(text, "job_start", 0), expected));
		snprintf(expected, sizeof(expected), "\"selected_engine\":\"%s\"",
			 engines[i].selected);
		assert_non_null(strstr(find_line(text, "capture_capabilities", 0), expected));
		free(text);
	}
}

static void mark(struct sink *s, uint64_t time_ns, const char *text)
{
	static uint32_t id = 5000;

	text_row(s, id, text);
	nvtx(s, nvtx_kind_mark, time_ns, 3, id++, 0);
}

static void check_mark(const char *text, unsigned n, const char *name, const char *host)
{
	const char *line = find_line(text, "system_start", n);

	assert_non_null(line);
	assert_non_null(strstr(line, name));
	assert_non_null(strstr(line, host));
}

/* A window's mark has the machine's readings, also the first one, which comes before them. */
static void test_windows_have_the_readings(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ .address = "192.0.2.7" });
	char *text;

	define(s);
	counter(s, 8, "host_memory_used", 0);
	counter(s, 9, "host_memory_available", 0);
	counter(s, 10, "host_cpu_busy", 2);
	counter(s, 11, "host_core_1_busy", 2);
	mark(s, 1500, "system start: fi\"rst");
	for (uint64_t time_ns = 2000; time_ns <= 3000002000; time_ns += 1000000000) {
		sample(s, time_ns, 10, (int64_t)(time_ns / 20000000)); /* half of 2 processors */
		sample(s, time_ns, 8, (int64_t)100 << 20);
		sample(s, time_ns, 9, (int64_t)900 << 20);
	}
	mark(s, 3000003000, "system start: last");
	close_sink(s);
	text = window_text(*state, "system.1.log.gz");
	check_mark(text, 0, "\"name\":\"fi\\\"rst\",\"ts_ns\":1000001500",
		   "\"host\":{\"cpu_pct\":25.0,\"ram_used_mib\":100,\"ram_total_mib\":1000}");
	check_mark(text, 1, "\"name\":\"last\",\"ts_ns\":4000003000", "\"ram_total_mib\":1000}");
	assert_non_null(
		strstr(find_line(text, "host_metric_batch", 0), "\"ip_addr\":\"192.0.2.7\""));
	free(text);
}

/* Without readings marks are written in the end, and none is lost, however many there are. */
static void test_windows_without_readings(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text, name[64];

	define(s);
	for (unsigned i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "system start: %u", i);
		mark(s, 2000 + i, name);
	}
	close_sink(s);
	text = window_text(*state, "system.1.log.gz");
	for (unsigned i = 0; i < 40; i++) {
		snprintf(name, sizeof(name), "\"name\":\"%u\",\"ts_ns\":%u,", i, 1000002000 + i);
		check_mark(text, i, name, "\"host\":{\"cpu_pct\":0.0,");
	}
	assert_null(find_line(text, "system_start", 40));
	free(text);
}

/* The session ends with the process, also if nothing else of its end is known. */
static void test_the_end_of_the_process(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	kernel(s, 2000, 2500, 1);
	ROW(s, process, .pid = 42, .start_ns = 1000, .end_ns = 9000, .executable = EXECUTABLE,
	    .host = HOST, .missing = 1u << COLUMN_process_exit_status);
	close_sink(s);
	text = window_text(*state, "device.1.log.gz");
	assert_non_null(strstr(find_line(text, "shutdown", 0), "\"ts_ns\":1000009000}"));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(test_the_name_of_the_program),
		folder_test(test_a_name_that_comes_late),
		folder_test(test_names_of_engines),
		folder_test(test_windows_have_the_readings),
		folder_test(test_windows_without_readings),
		folder_test(test_the_end_of_the_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
