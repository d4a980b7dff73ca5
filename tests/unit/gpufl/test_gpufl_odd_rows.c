/* Rows that are out of order or out of range, too many of them, and those that are missing. */
#include "gpufl_rows.h"

/* Clocks may disagree by some ns, and rows of a damaged recording by more. */
static void test_ends_before_their_begin(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	nvtx(s, nvtx_kind_push, 1800, 4, INNER, 0);
	nvtx(s, nvtx_kind_pop, 1700, 4, 0, 0);
	nvtx(s, nvtx_kind_push, 1800, 3, STEP, 0);
	nvtx(s, nvtx_kind_pop, 1799, 3, 0, 0);
	ROW(s, nvtx, .time_ns = 1900, .kind = nvtx_kind_start, .range = 11, .message = STEP);
	ROW(s, nvtx, .time_ns = 1899, .kind = nvtx_kind_end, .range = 11);
	ROW(s, nvtx, .time_ns = 1950, .kind = nvtx_kind_end, .range = 11);
	close_sink(s);
	text = window_text(*state, "scope.1.log.gz");
	assert_non_null(strstr(find_line(text, "nvtx_marker_event", 0),
			       "\"start_ns\":1000001800,\"end_ns\":1000001800,\"duration_ns\":0,"));
	assert_non_null(strstr(find_line(text, "nvtx_marker_event", 1), "\"duration_ns\":50,"));
	assert_null(find_line(text, "nvtx_marker_event", 2));
	assert_non_null(strstr(text, "[8,2,1,0,0,0,0,1000001800,5],[8,2,1,1,0,0,0,1000001800,5]]"));
	free(text);
}

/* More than the hash table has slots for without collisions. */
static void test_scopes_of_many_threads(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	uint64_t missing = 1u << COLUMN_nvtx_range | 1u << COLUMN_nvtx_payload_kind;
	char *text, name[32];

	define(s);
	for (uint32_t thread = 0; thread < 300; thread++) {
		snprintf(name, sizeof(name), "of %u", thread);
		text_row(s, 1000 + thread, name);
		ROW(s, nvtx, .time_ns = 1800, .kind = nvtx_kind_push, .thread = thread, .domain = 3,
		    .message = 1000 + thread, .missing = missing);
	}
	for (uint32_t thread = 0; thread < 300; thread++) {
		ROW(s, api_call, .start_ns = 1900, .end_ns = 1901, .thread = thread,
		    .correlation = thread);
		kernel(s, 2000, 2001, thread);
	}
	close_sink(s);
	text = window_text(*state, "device.1.log.gz");
	for (uint32_t thread = 0; thread < 300; thread++) {
		snprintf(name, sizeof(name), "\"user_scope\":\"of %u\"", thread);
		assert_non_null(strstr(find_line(text, "kernel_detail", thread), name));
	}
	free(text);
}

static void test_metrics_out_of_range(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	counter(s, 0, "gpu_power", 3);
	counter(s, 9, "host_memory_available", 0);
	counter(s, 10, "host_cpu_busy", 2);
	counter(s, 11, "host_core_0_busy", 2);
	ROW(s, counter_sample, .time_ns = 2048, .counter = 0, .value = 1, .device = 64);
	ROW(s, counter_sample, .time_ns = 2048, .counter = 0, .value = 1, .device = UINT32_MAX);
	sample(s, 2048, 9, (int64_t)1 << 30);
	sample(s, 3048, 10, 0);
	sample(s, 1000003048, 10, 101); /* 1.01 s of a processor in 1 s */
	sample(s, 1000003048, 9, (int64_t)1 << 30);
	close_sink(s);
	text = window_text(*state, "system.1.log.gz");
	assert_null(find_line(text, "device_metric_batch", 0));
	assert_non_null(strstr(find_line(text, "host_metric_batch", 0), "[[232,10000,0,1024]]"));
	free(text);
}

static void test_rows_without_room_are_counted(void **state)
{
	struct gpufl_options o = { .files = { .min_free_bytes = UINT64_MAX } };
	struct sink *s = sink_open(*state, o);
	struct writer_stats stats = { 0 };

	define(s);
	for (unsigned i = 0; i < 100; i++)
		kernel(s, 2000, 2001, 1);
	s->ops->seal(s);
	s->ops->seal(s);
	s->ops->stats(s, &stats);
	assert_in_range(stats.lost_rows, 100, 250);
	assert_int_equal(s->ops->close(s), -ENOSPC);
}

/* A dictionary that has become too large starts anew, with new ids. */
static void test_names_without_end(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	static char name[4001];
	char *text;

	define(s);
	nvtx(s, nvtx_kind_push, 1500, 3, STEP, 0);
	memset(name, 'x', sizeof(name) - 1);
	for (int i = 0; i < 2200; i++) {
		name[snprintf(name, sizeof(name), "%d", i)] = 'x';
		text_row(s, 1000, name);
		nvtx(s, nvtx_kind_push, 1500, 3, 1000, 0);
	}
	nvtx(s, nvtx_kind_push, 1600, 3, STEP, 0);
	close_sink(s);
	text = window_text(*state, "scope.1.log.gz");
	assert_non_null(strstr(text, "\"1\":\"step\""));
	assert_non_null(strstr(text, "\"2202\":\"step\""));
	free(text);
}

/* Without a GPU writing begins after a second, not at the end only. */
static void test_without_a_device(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });

	assert_int_equal(s->ops->seal(s), 0);
	assert_int_equal(access(session_file(*state, ".tmp/device.log"), F_OK), -1);
	sleep(1);
	assert_int_equal(s->ops->seal(s), 0);
	assert_int_equal(access(session_file(*state, ".tmp/device.log"), F_OK), 0);
	close_sink(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(test_ends_before_their_begin),
		folder_test(test_scopes_of_many_threads),
		folder_test(test_metrics_out_of_range),
		folder_test(test_rows_without_room_are_counted),
		folder_test(test_names_without_end),
		folder_test(test_without_a_device),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
