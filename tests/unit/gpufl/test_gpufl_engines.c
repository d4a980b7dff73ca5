/* What engines measured, and windows of system metrics, as records of gpufl's logs. */
#include <math.h>

#include "gpufl_fixture.h"
#include "support/comma_locale.h"

enum { EXECUTABLE = 1, HOST, GEMM, HOSTILE, STALL, SASS, ACTIVE, REQUESTED, ACTUAL, PITOT, MARK };

static void define(struct sink *s)
{
	text_row(s, EXECUTABLE, "/bin/app");
	text_row(s, HOST, "vm");
	text_row(s, GEMM, "_Z4gemmv");
	text_row(s, HOSTILE, "a\"b");
	text_row(s, STALL, "smsp__pcsamp_warps_issue_stalled_wait");
	text_row(s, SASS, "smsp__sass_inst_executed");
	text_row(s, ACTIVE, "sm__cycles_active.avg");
	ROW(s, process, .pid = 42, .start_ns = 1024, .executable = EXECUTABLE, .host = HOST,
	    .missing = 1u << COLUMN_process_end_ns);
	ROW(s, metric, .id = 3, .name = SASS);
}

static char *close_sink(struct sink *s, const char *folder, const char *window)
{
	assert_int_equal(s->ops->close(s), 0);
	return window_text(folder, window);
}

#define CHECK_LINE(text, type, n, expected)                                                        \
	do {                                                                                       \
		const char *line_ = find_line((text), (type), (n));                                \
                                                                                                   \
		assert_non_null(line_);                                                            \
		assert_string_equal(line_, (expected));                                            \
	} while (0)
#define SAMPLE_HEAD                                                                                \
	"{\"version\":1,\"type\":\"profile_sample_batch\",\"session_id\":\"" SESSION               \
	"\",\"batch_id\":1,\"base_time_ns\":1000002048,\"columns\":[\"dt_ns\",\"corr_id\","        \
	"\"device_id\",\"function_id\",\"pc_offset\",\"metric_id\",\"metric_value\","              \
	"\"stall_reason\",\"sample_kind\",\"scope_name_id\",\"source_file_id\","                   \
	"\"source_line\",\"true_corr_id\"],\"rows\":["

static void test_samples_and_instructions(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	ROW(s, pc_reading, .id = 5, .end_ns = 2048, .device = 1);
	ROW(s, pc_sample, .reading = 5, .function = GEMM, .offset = 16, .reason = STALL,
	    .samples = 12);
	ROW(s, pc_sample, .reading = 4, .function = GEMM, .reason = STALL, .samples = 1);
	ROW(s, pc_reading, .id = 6, .end_ns = 3000, .device = 0);
	ROW(s, pc_sample, .reading = 6, .function = HOSTILE, .offset = 32, .reason = STALL,
	    .samples = 7);
	ROW(s, sass_value, .time_ns = 2000, .correlation = 77, .device = 1, .function = GEMM,
	    .offset = 16, .metric = 3, .value = 640);
	ROW(s, sass_value, .time_ns = 2000, .function = GEMM, .metric = 4, .value = 1);
	text = close_sink(s, *state, "scope.1.log.gz");
	CHECK_LINE(text, "dictionary_update", 0,
		   "{\"version\":1,\"type\":\"dictionary_update\",\"session_id\":\"" SESSION
		   "\",\"function_dict\":{\"1\":\"gemm()\",\"2\":\"a\\\"b\"},\"metric_dict\":{"
		   "\"1\":\"smsp__pcsamp_warps_issue_stalled_wait\","
		   "\"2\":\"smsp__sass_inst_executed\"}}");
	CHECK_LINE(text, "profile_sample_batch", 0,
		   SAMPLE_HEAD "[0,0,1,1,16,1,12,101,0,0,0,0,0],"
			       "[952,0,0,2,32,1,7,101,0,0,0,0,0],"
			       "[-48,0,1,1,16,2,640,0,1,0,0,0,77]]}");
	assert_null(find_line(text, "profile_sample_batch", 1));
	free(text);
}

/* Texts of an epoch are not those of the next one. */
static void test_names_are_those_of_the_epoch(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	ROW(s, pc_reading, .id = 1, .end_ns = 2048);
	ROW(s, pc_sample, .reading = 1, .function = GEMM, .reason = STALL, .samples = 1);
	s->ops->epoch(s);
	define(s);
	text_row(s, GEMM, "other");
	ROW(s, pc_reading, .id = 2, .end_ns = 2048);
	ROW(s, pc_sample, .reading = 2, .function = GEMM, .reason = STALL, .samples = 1);
	text = close_sink(s, *state, "scope.1.log.gz");
	assert_non_null(strstr(find_line(text, "dictionary_update", 0), "{\"1\":\"gemm()\"}"));
	assert_non_null(strstr(find_line(text, "dictionary_update", 1), "{\"2\":\"other\"}"));
	assert_non_null(strstr(find_line(text, "profile_sample_batch", 1), "[0,0,0,2,"));
	free(text);
}

static void sample(struct sink *s, uint64_t time_ns, uint32_t counter, int64_t value, bool machine)
{
	ROW(s, counter_sample, .time_ns = time_ns, .counter = counter, .device = 1, .value = value,
	    .missing = machine ? 1u << COLUMN_counter_sample_device : 0);
}

static void test_counters_over_time(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	double real = 12.5, none = NAN;
	int64_t bits;
	char *text;

	define(s);
	ROW(s, counter, .id = 1, .name = ACTIVE, .decimals = 3,
	    .missing = 1u << COLUMN_counter_reading);
	ROW(s, counter, .id = 2, .name = ACTIVE, .reading = counter_reading_real);
	sample(s, 2048, 1, 1500, false);
	sample(s, 2048, 1, -42, false);
	sample(s, 2048, 1, 7, true); /* not of a GPU */
	memcpy(&bits, &real, sizeof(bits));
	sample(s, 3048, 2, bits, false);
	memcpy(&bits, &none, sizeof(bits));
	sample(s, 4048, 2, bits, false);
	text = close_sink(s, *state, "scope.1.log.gz");
	CHECK_LINE(text, "pm_sample_batch", 0,
		   "{\"version\":1,\"type\":\"pm_sample_batch\",\"session_id\":\"" SESSION
		   "\",\"batch_id\":1,\"base_time_ns\":1000002048,\"columns\":[\"sample_index\","
		   "\"dt_ns\",\"device_id\",\"metric_id\",\"value\",\"scope_name_id\"],\"rows\":["
		   "[1,0,1,1,1.500,0],[1,0,1,1,-0.042,0],[2,1000,1,1,12.5,0]]}");
	assert_null(find_line(text, "pm_sample_batch", 1));
	free(text);
}

/* The target's locale does not change the logs. */
static void test_counters_in_a_locale_with_a_comma(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	double real = 0.1;
	int64_t bits;
	char *text;

	define(s);
	ROW(s, counter, .id = 2, .name = ACTIVE, .reading = counter_reading_real);
	memcpy(&bits, &real, sizeof(bits));
	if (comma_locale_set())
		sample(s, 2048, 2, bits, false);
	text = close_sink(s, *state, "scope.1.log.gz");
	if (strcmp(setlocale(LC_NUMERIC, NULL), "comma") != 0) {
		free(text);
		skip();
	}
	setlocale(LC_NUMERIC, "C");
	assert_non_null(strstr(text, "\"rows\":[[1,0,1,1,0.1,0]]}"));
	free(text);
}

/* One metric of a launch. */
static void value(struct sink *s, uint64_t correlation, uint32_t metric, double number)
{
	struct row_metric_value row = { .correlation = correlation, .metric = metric };

	memcpy(&row.value, &number, sizeof(number));
	ROW_MISSING_IF(&row, metric_value, value, isnan(number));
	s->ops->append(s, TABLE_metric_value, &row);
}

static void kernel(struct sink *s, uint64_t correlation)
{
	ROW(s, kernel, .start_ns = 2048, .end_ns = 3000, .config = 1, .device = 1,
	    .correlation = correlation, .missing = 1u << COLUMN_kernel_queued_ns);
}

static void check_counters(const char *text, unsigned line, unsigned index, const char *values)
{
	char expected[2048];

	snprintf(expected, sizeof(expected),
		 "{\"type\":\"kernel_perf_metric_event\",\"pid\":42,\"app\":\"app\",\"session_id\":"
		 "\"" SESSION "\",\"device_id\":1,\"range_index\":%u,\"range_name\":\"%u\","
		 "\"kernel_name\":\"gemm()\",\"launch_ordinal\":%u,%s}",
		 index, index, index + 1, values);
	CHECK_LINE(text, "kernel_perf_metric_event", line, expected);
}

/* In the format's members, -1 where a value is unknown. Metrics without a member are left out. */
static void test_counters_of_kernels(void **state)
{
	static const char *const names[] = { "sm__throughput.avg.pct_of_peak_sustained_elapsed",
					     "l1tex__t_sector_hit_rate.pct",
					     "lts__t_sector_hit_rate.pct",
					     "dram__bytes_read.sum",
					     "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum",
					     "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
					     "gpu__time_duration.sum" };
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	ROW(s, kernel_config, .id = 1, .name = GEMM);
	for (uint32_t i = 0; i < ARRAY_SIZE(names); i++) {
		text_row(s, 20 + i, names[i]);
		ROW(s, metric, .id = 10 + i, .name = 20 + i);
	}
	value(s, 5, 10, 41.23456);
	value(s, 5, 11, 100.5);
	value(s, 5, 12, NAN);
	value(s, 5, 13, 4294967296.4);
	value(s, 5, 14, 25);
	value(s, 5, 15, 100);
	value(s, 6, 16, 1000); /* the format has no member for it */
	value(s, 8, 10, 0);
	kernel(s, 8);
	kernel(s, 6);
	kernel(s, 5);
	kernel(s, 5); /* another record of the launch */
	text = close_sink(s, *state, "device.1.log.gz");
	check_counters(text, 0, 1,
		       "\"sm_throughput_pct\":0.0000,\"l1_hit_rate_pct\":-1.0000,"
		       "\"l2_hit_rate_pct\":-1.0000,\"dram_read_bytes\":-1,\"dram_write_bytes\":-1,"
		       "\"tensor_active_pct\":-1.0000,\"achieved_occupancy_pct\":-1.0000,"
		       "\"shared_load_bank_conflicts\":-1,\"shared_store_bank_conflicts\":-1,"
		       "\"shared_bank_conflicts\":-1,\"shared_wavefronts\":-1,"
		       "\"shared_bank_conflict_overhead_pct\":-1.0000,"
		       "\"shared_bank_conflict_nway\":-1.0000,\"true_corr_id\":8");
	check_counters(text, 1, 0,
		       "\"sm_throughput_pct\":41.2346,\"l1_hit_rate_pct\":-1.0000,"
		       "\"l2_hit_rate_pct\":-1.0000,\"dram_read_bytes\":4294967296,"
		       "\"dram_write_bytes\":-1,\"tensor_active_pct\":-1.0000,"
		       "\"achieved_occupancy_pct\":-1.0000,\"shared_load_bank_conflicts\":-1,"
		       "\"shared_store_bank_conflicts\":-1,\"shared_bank_conflicts\":25,"
		       "\"shared_wavefronts\":100,\"shared_bank_conflict_overhead_pct\":25.0000,"
		       "\"shared_bank_conflict_nway\":1.3333,\"true_corr_id\":5");
	assert_null(find_line(text, "kernel_perf_metric_event", 2));
	free(text);
}

/* Launches whose kernels never arrive make room for others. */
static void test_counters_without_kernels(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	text_row(s, 20, "dram__bytes_read.sum");
	ROW(s, metric, .id = 10, .name = 20);
	for (uint64_t i = 0; i < 2000; i++)
		value(s, 1000 + i, 10, (double)i);
	kernel(s, 2500);
	text = close_sink(s, *state, "device.1.log.gz");
	assert_non_null(
		strstr(find_line(text, "kernel_perf_metric_event", 0), "\"launch_ordinal\":1501,"));
	assert_null(find_line(text, "kernel_perf_metric_event", 1));
	free(text);
}

static void range_value(struct sink *s, enum range_kind kind, uint32_t name, uint32_t metric,
			uint64_t end_ns, double number)
{
	struct row_range_value row = { .start_ns = 2048,
				       .end_ns = end_ns,
				       .thread = 7,
				       .kind = kind,
				       .name = name,
				       .passes = 2,
				       .metric = metric,
				       .device = 1,
				       .level = 2 };

	memcpy(&row.value, &number, sizeof(number));
	ROW_MISSING_IF(&row, range_value, value, isnan(number));
	ROW_MISSING_IF(&row, range_value, level, kind == range_kind_nvtx);
	s->ops->append(s, TABLE_range_value, &row);
}

static void check_range(const char *text, unsigned line, const char *name, uint64_t end_ns,
			const char *throughput, const char *bytes, const char *depth)
{
	char expected[2048];

	snprintf(expected, sizeof(expected),
		 "{\"type\":\"perf_metric_event\",\"pid\":42,\"app\":\"app\",\"session_id\":"
		 "\"" SESSION "\",\"name\":\"%s\",\"start_ns\":%llu,\"end_ns\":%llu,"
		 "\"device_id\":1,\"sm_throughput_pct\":%s,\"l1_hit_rate_pct\":-1.0000,"
		 "\"l2_hit_rate_pct\":-1.0000,\"dram_read_bytes\":%s,\"dram_write_bytes\":-1,"
		 "\"tensor_active_pct\":-1.0000,\"user_scope\":\"%s\"%s}",
		 name, (unsigned long long)(2048 + EPOCH), (unsigned long long)(end_ns + EPOCH),
		 throughput, bytes, name, depth);
	CHECK_LINE(text, "perf_metric_event", line, expected);
}

/* One record for each measurement of a scope or a range of NVTX; launches of graphs have none. */
static void test_counters_of_ranges(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	text_row(s, 20, "sm__throughput.avg.pct_of_peak_sustained_elapsed");
	text_row(s, 21, "dram__bytes_read.sum");
	text_row(s, 22, "gpu__time_duration.sum");
	text_row(s, 30, "forward");
	text_row(s, 31, "graph 1");
	for (uint32_t i = 0; i < 3; i++)
		ROW(s, metric, .id = 10 + i, .name = 20 + i);
	range_value(s, range_kind_scope, 30, 10, 3000, 41.23456);
	range_value(s, range_kind_scope, 30, 11, 3000, 4096);
	range_value(s, range_kind_scope, 30, 12, 3000, 5); /* the format has no member for it */
	range_value(s, range_kind_graph, 31, 10, 3500, 1);
	s->ops->seal(s);
	range_value(s, range_kind_nvtx, 30, 10, 4000, NAN);
	range_value(s, range_kind_nvtx, 30, 11, 4000, 12);
	text = close_sink(s, *state, "scope.1.log.gz");
	check_range(text, 0, "forward", 3000, "41.2346", "4096",
		    ",\"scope_depth\":2,\"thread_id\":7,\"passes\":2,\"is_scope\":1");
	check_range(text, 1, "forward", 4000, "-1.0000", "12",
		    ",\"thread_id\":7,\"passes\":2,\"is_scope\":0");
	assert_null(find_line(text, "perf_metric_event", 2));
	free(text);
}

static void test_the_engine_is_named(void **state)
{
	static const struct {
		const char *settings, *engine, *actual, *requested, *selected;
	} cases[] = {
		{ "graphs=launch (code)", NULL, NULL, "", "" },
		{ "engine=monitor (code), sync=on (file)", NULL, NULL, "none", "none" },
		{ "engine=pc-sampling (code)", "pc-sampling", "trace", "pc_sampling", "trace" },
		{ "engine=deep (code)", "deep", "deep", "pc_sampling_with_sass",
		  "pc_sampling_with_sass" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct gpufl_options none = { 0 };
		char path[4096], expected[256];
		struct sink *s;
		char *text;

		snprintf(path, sizeof(path), "%s/%zu", (char *)*state, i);
		assert_int_equal(mkdir(path, 0700), 0);
		s = sink_open(path, none);
		define(s);
		for (unsigned k = 0; k < 1 + !!cases[i].engine; k++) {
			text_row(s, REQUESTED, k ? cases[i].engine : "");
			text_row(s, ACTUAL, k ? cases[i].actual : cases[i].settings);
			ROW(s, capability, .requested = REQUESTED, .actual = ACTUAL,
			    .name = k ? feature_engine : feature_settings,
			    .missing = 1u << COLUMN_capability_reason);
		}
		text = close_sink(s, path, "device.1.log.gz");
		snprintf(expected, sizeof(expected),
			 "\"requested_engine\":\"%s%s\",\"selected_engine\":\"%s%s\"",
			 *cases[i].requested ? "nvidia." : "", cases[i].requested,
			 *cases[i].selected ? "nvidia." : "", cases[i].selected);
		assert_non_null(strstr(text, expected));
		assert_int_equal(!strstr(text, "\"session_kind\":\"monitor\""), i != 1);
		assert_int_equal(!strstr(text, "\"profiling_engine\":\"nvidia."), i == 0);
		free(text);
	}
}

static void test_windows_of_system_metrics(void **state)
{
	static const char *const marks[] = { "system start: a\"b", "system stop: a\"b", "step" };
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	text_row(s, PITOT, "pitot");
	ROW(s, nvtx_domain, .id = 3, .name = PITOT);
	for (uint32_t i = 0; i < ARRAY_SIZE(marks) + 1; i++) {
		text_row(s, MARK + i, i < ARRAY_SIZE(marks) ? marks[i] : marks[0]);
		ROW(s, nvtx, .time_ns = 2048 + i, .kind = nvtx_kind_mark, .thread = 5,
		    .domain = i < ARRAY_SIZE(marks) ? 3 : 4, .message = MARK + i);
	}
	text = close_sink(s, *state, "system.1.log.gz");
	CHECK_LINE(text, "system_start", 0,
		   "{\"type\":\"system_start\",\"pid\":42,\"app\":\"app\",\"session_id\":\"" SESSION
		   "\",\"name\":\"a\\\"b\",\"ts_ns\":1000002048,\"host\":{\"cpu_pct\":0.0,"
		   "\"ram_used_mib\":0,\"ram_total_mib\":0},\"devices\":[]}");
	assert_non_null(strstr(find_line(text, "system_stop", 0), "\"ts_ns\":1000002049,"));
	assert_null(find_line(text, "system_start", 1)); /* of another domain: the program's own */
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(test_samples_and_instructions),
		folder_test(test_names_are_those_of_the_epoch),
		folder_test(test_counters_over_time),
		folder_test(test_counters_in_a_locale_with_a_comma),
		folder_test(test_counters_of_kernels),
		folder_test(test_counters_without_kernels),
		folder_test(test_counters_of_ranges),
		folder_test(test_the_engine_is_named),
		folder_test(test_windows_of_system_metrics),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
