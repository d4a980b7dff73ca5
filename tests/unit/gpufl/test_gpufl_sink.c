#include "gpufl_rows.h"

#define IDENTITY "\"pid\":42,\"app\":\"app\",\"session_id\":\"" SESSION "\""

static void stack_text(void *user, uint32_t id, struct strbuf *out)
{
	(void)user;
	strbuf_addf(out, "main|f\"%u", id);
}

#define DEVICE_NAMES "{\"id\":0,\"name\":\"NVIDIA H200\",\"uuid\":\"GPU-x\",\"vendor\":\"NVIDIA\""
#define STATIC_DEVICE                                                                              \
	DEVICE_NAMES                                                                               \
	",\"architecture\":\"Hopper\",\"compute_major\":9,\"compute_minor\":0,"                    \
	"\"l2_cache_size_bytes\":62914560,\"shared_mem_per_block_bytes\":49152,"                   \
	"\"regs_per_block\":65536,\"multi_processor_count\":132,\"warp_size\":32,"                 \
	"\"compute_capability_major\":9,\"compute_capability_minor\":0,"                           \
	"\"l2_cache_size\":62914560,\"shared_mem_per_block\":49152}"

static void test_a_session_begins_and_ends_in_every_channel(void **state)
{
	static const char *const channels[] = { "device.1.log.gz", "scope.1.log.gz",
						"system.1.log.gz", "sass.1.log.gz" };
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	struct strbuf job = STRBUF_INIT;

	define(s);
	ROW(s, capability, .other = STEP, .state = capability_state_unavailable, .reason = WHY);
	ROW(s, capability, .name = feature_kernel, .state = capability_state_unavailable,
	    .reason = WHY);
	ROW(s, capability, .name = feature_kernel, .state = capability_state_on,
	    .missing = 1u << COLUMN_capability_reason);
	kernel(s, 2000, 2500, 1);
	close_sink(s);
	strbuf_addf(
		&job,
		"{\"version\":1,\"type\":\"job_start\"," IDENTITY ",\"log_path\":\"%s\","
		"\"ts_ns\":1000000768,\"hostname\":\"vm\",\"ip_addr\":\"\",\"host\":{\"cpu_pct\":"
		"0.0,\"ram_used_mib\":0,\"ram_total_mib\":0},\"devices\":[" DEVICE_NAMES
		",\"pci_bus\":74,\"used_mib\":0,\"free_mib\":143771,\"total_mib\":143771,"
		"\"util_gpu_pct\":0,\"util_mem_pct\":0,\"temp_c\":0,\"power_mw\":0,"
		"\"clk_gfx_mhz\":0,\"clk_sm_mhz\":0,\"clk_mem_mhz\":0,\"throttle_pwr\":0,"
		"\"throttle_therm\":0,\"pcie_rx_bw_bps\":0,\"pcie_tx_bw_bps\":0}],"
		"\"gpu_static_devices\":[" STATIC_DEVICE "],\"cuda_static_devices\":[" STATIC_DEVICE
		"],\"rocm_static_devices\":[],\"session_kind\":\"trace\","
		"\"profiling_engine\":\"nvidia.trace\"}",
		(char *)*state);
	for (size_t i = 0; i < ARRAY_SIZE(channels); i++) {
		char *text = window_text(*state, channels[i]);

		CHECK_LINE(text, "job_start", 0, job.data);
		assert_memory_equal(text, job.data, job.length);
		assert_null(find_line(text, "job_start", 1));
		CHECK_LINE(text, "dictionary_update", 0,
			   "{\"version\":1,\"type\":\"dictionary_update\",\"session_id\":\"" SESSION
			   "\",\"kernel_dict\":{\"1\":\"gemm()\"}}");
		CHECK_LINE(text, "capture_capabilities", 0,
			   "{\"version\":1,\"type\":\"capture_capabilities\",\"session_id\":"
			   "\"" SESSION "\",\"ts_ns\":1000002500,\"requested_engine\":"
			   "\"nvidia.trace\",\"selected_engine\":\"nvidia.trace\","
			   "\"capabilities\":[{\"feature\":\"step\",\"requested\":true,\"status\":"
			   "\"skipped\",\"mode\":\"\",\"reason_code\":\"\",\"message\":"
			   "\"no \\\"time\\\"\"},{\"feature\":\"kernel_events\",\"requested\":true,"
			   "\"status\":\"collected\",\"mode\":\"cupti_activity\","
			   "\"reason_code\":\"\",\"message\":\"\"}]}");
		CHECK_LINE(text, "shutdown", 0,
			   "{\"type\":\"shutdown\"," IDENTITY ",\"ts_ns\":1000002500}");
		free(text);
	}
	assert_int_equal(access(session_file(*state, ".tmp"), F_OK), -1);
	strbuf_release(&job);
}

#define KERNEL_HEAD(number, base)                                                                  \
	"{\"version\":1,\"type\":\"kernel_event_batch\",\"session_id\":\"" SESSION                 \
	"\",\"batch_id\":" #number ",\"base_time_ns\":" #base ",\"columns\":[\"dt_ns\","           \
	"\"kernel_id\",\"stream_id\",\"duration_ns\",\"corr_id\",\"dyn_shared\",\"num_regs\","     \
	"\"has_details\",\"external_kind\",\"external_id\",\"device_id\",\"context_id\","          \
	"\"graph_id\",\"graph_node_id\",\"true_corr_id\"," CALL_COLUMNS
/* The call of each kernel: its thread and times since the epoch. */
#define CALL_COLUMNS "\"thread_id\",\"api_start_ns\",\"api_exit_ns\""
#define CALL(start, end) ",5,100000" #start ",100000" #end
#define NO_CALL ",0,0,0"
#define DETAIL(id, scope, stack)                                                                   \
	"{\"version\":1,\"type\":\"kernel_detail\",\"session_id\":\"" SESSION                      \
	"\",\"pid\":42,\"app\":\"app\",\"corr_id\":" #id                                           \
	",\"grid\":\"(16,1,1)\",\"block\":\"(256,1,1)\",\"static_shared\":0,\"local_bytes\":0,"    \
	"\"const_bytes\":0,\"occupancy\":0.500000,\"reg_occupancy\":0.500000,"                     \
	"\"smem_occupancy\":1.000000,\"warp_occupancy\":1.000000,\"block_occupancy\":1.000000,"    \
	"\"limiting_resource\":\"registers\",\"max_active_blocks\":4,"                             \
	"\"local_mem_total_bytes\":0,\"local_mem_per_thread_bytes\":0,"                            \
	"\"cache_config_requested\":0,\"cache_config_executed\":0,"                                \
	"\"shared_mem_executed_bytes\":0,\"user_scope\":\"" scope "\",\"stack_trace\":\"" stack    \
	"\"}"

static void test_kernels_have_ids_of_their_own(void **state)
{
	struct gpufl_options o = { .stack = stack_text };
	struct sink *s = sink_open(*state, o);
	char *text;

	define(s);
	ROW(s, external_correlation, .kind = 4, .id = UINT64_C(1) << 40, .correlation = 90);
	nvtx(s, nvtx_kind_push, 1500, 3, STEP, 0);
	nvtx(s, nvtx_kind_push, 1600, 3, INNER, 1);
	call(s, 1700, 1800, 90, 8);
	nvtx(s, nvtx_kind_pop, 1900, 3, 0, 1);
	nvtx(s, nvtx_kind_pop, 1901, 3, 0, 0);
	call(s, 1950, 1960, 91, 0);
	kernel(s, 2000, 3500, 90);
	kernel(s, 1999, 2000, 90);
	kernel(s, 4000, 4001, 91);
	kernel(s, 5000, 5000, 92); /* of no call */
	kernel(s, 6000, 6000, 93); /* before its call */
	call(s, 1970, 1980, 93, 0);
	ROW(s, kernel, .missing = 1u << COLUMN_kernel_start_ns, .config = 7);
	ROW(s, kernel, .start_ns = 6000, .end_ns = 5000, .config = 7);
	ROW(s, kernel, .start_ns = 7000, .end_ns = 7100, .queued_ns = 6900, .config = 7,
	    .correlation = 91, .device = 1, .context = 2, .stream = 3, .graph = 5,
	    .graph_node = UINT64_C(1) << 34);
	close_sink(s);
	text = window_text(*state, "device.1.log.gz");
	assert_true(strstr(text, "dictionary_update") < strstr(text, "kernel_event_batch"));
	CHECK_LINE(text, "dictionary_update", 0,
		   "{\"version\":1,\"type\":\"dictionary_update\",\"session_id\":\"" SESSION
		   "\",\"kernel_dict\":{\"1\":\"gemm()\"},\"scope_name_dict\":{\"1\":\"step\","
		   "\"2\":\"in\\\"ner\\n\\u0001\xef\xbf\xbd|\"}}");
	CHECK_LINE(
		text, "kernel_event_batch", 0,
		KERNEL_HEAD(
			2,
			1000001792) "],\"rows\":["
				    "[208,1,13,1500,3,1000,64,1,4,1099511627776,0,1,0,0,90" CALL(
					    1700,
					    1800) "],"
						  "[207,1,13,1,4,1000,64,1,4,1099511627776,0,1,0,0,"
						  "90" CALL(
							  1700,
							  1800) "],"
								"[2208,1,13,1,5,1000,64,1,0,0,0,1,"
								"0,0,91" CALL(
									1950,
									1960) "],"
									      "[3208,1,13,0,7,1000,"
									      "64,1,0,0,0,1,0,0,"
									      "92" NO_CALL "],"
									      "[4208,1,13,0,8,1000,"
									      "64,1,0,0,0,1,0,0,"
									      "93" CALL(
										      1970,
										      1980) "]]}");
	CHECK_LINE(text, "kernel_event_batch", 1,
		   KERNEL_HEAD(3, 1000006912) ",\"queued_ns\"],\"rows\":[[88,1,3,100,6,1000,64,1,0,"
					      "0,1,2,5,17179869184,91" CALL(1950,
									    1960) ",1000006900]]}");
	CHECK_LINE(text, "kernel_detail", 0,
		   DETAIL(3, "step|in\\\"ner\\n\\u0001\xef\xbf\xbd|", "main|f\\\"8"));
	CHECK_LINE(text, "kernel_detail", 1,
		   DETAIL(4, "step|in\\\"ner\\n\\u0001\xef\xbf\xbd|", "main|f\\\"8"));
	CHECK_LINE(text, "kernel_detail", 2, DETAIL(5, "global", ""));
	CHECK_LINE(text, "kernel_detail", 3, DETAIL(7, "unknown", ""));
	CHECK_LINE(text, "kernel_detail", 4, DETAIL(8, "global", ""));
	assert_non_null(find_line(text, "kernel_detail", 5));
	assert_null(find_line(text, "kernel_detail", 6));
	free(text);
}

/* Equal launches have one detail; where scope, stack or configuration differ there is another. */
static void test_the_compact_form(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ .compact = true });
	char *text;

	define(s);
	nvtx(s, nvtx_kind_push, 1500, 3, STEP, 0);
	call(s, 1700, 1800, 90, 8);
	call(s, 1801, 1802, 91, 8);
	nvtx(s, nvtx_kind_pop, 1901, 3, 0, 0);
	call(s, 1950, 1960, 92, 0);
	for (uint64_t i = 0; i < 6; i++)
		kernel(s, 2000 + i, 2001 + i, 90 + i % 3);
	close_sink(s);
	text = window_text(*state, "device.1.log.gz");
	assert_non_null(strstr(
		text,
		"[208,1,13,1,2,1000,64,1,0,0,0,1,0,0,90" CALL(
			1700, 1800) "],"
				    "[209,1,13,1,2,1000,64,1,0,0,0,1,0,0,91" CALL(
					    1801,
					    1802) "],"
						  "[210,1,13,1,3,1000,64,1,0,0,0,1,0,0,92" CALL(
							  1950,
							  1960) "],"
								"[211,1,13,1,2,1000,64,1,0,0,0,1,0,"
								"0,90" CALL(1700, 1800) "],"));
	CHECK_LINE(text, "kernel_detail", 0, DETAIL(2, "step", ""));
	CHECK_LINE(text, "kernel_detail", 1, DETAIL(3, "global", ""));
	assert_null(find_line(text, "kernel_detail", 2));
	free(text);
}

static void test_other_work(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ .stack = stack_text });
	char *device, *scope;

	define(s);
	call(s, 1700, 1800, 100, 8);
	ROW(s, memcpy, .start_ns = 2048, .end_ns = 2448, .bytes = 4096, .kind = copy_kind_HtoD,
	    .source_kind = 1, .destination_kind = 3, .correlation = 100, .context = 1, .stream = 7,
	    .graph = 9, .graph_node = 10);
	ROW(s, memset, .start_ns = 2500, .end_ns = 2600, .bytes = 64, .correlation = 100,
	    .device = 1, .stream = 7, .graph = 6,
	    .missing = UINT64_C(1) << COLUMN_memset_graph_node);
	ROW(s, graph_launch, .start_ns = 2700, .end_ns = 2800, .graph = 3, .correlation = 100,
	    .device = 1, .stream = 7);
	ROW(s, synchronization, .start_ns = 2900, .end_ns = 2905, .kind = 3, .correlation = 100,
	    .context = 1, .stream = 7, .missing = 1u << COLUMN_synchronization_event);
	ROW(s, synchronization, .start_ns = 2910, .end_ns = 2915, .kind = 0);
	ROW(s, allocation, .time_ns = 3000, .operation = 1, .kind = 3, .address = 139637976727552,
	    .bytes = 1024, .correlation = 100, .missing = 1u << COLUMN_allocation_stream);
	close_sink(s);
	device = window_text(*state, "device.1.log.gz");
	scope = window_text(*state, "scope.1.log.gz");
	CHECK_LINE(device, "memcpy_event_batch", 0,
		   "{\"version\":1,\"type\":\"memcpy_event_batch\",\"session_id\":\"" SESSION
		   "\",\"batch_id\":1,\"base_time_ns\":1000002048,\"columns\":[\"dt_ns\","
		   "\"stream_id\",\"duration_ns\",\"bytes\",\"copy_kind\",\"corr_id\","
		   "\"device_id\",\"context_id\",\"graph_id\",\"graph_node_id\",\"src_kind\","
		   "\"dst_kind\"," CALL_COLUMNS
		   "],\"rows\":[[0,7,400,4096,1,100,0,1,9,10,1,3" CALL(1700, 1800) "]]}");
	CHECK_LINE(device, "memset_event", 0,
		   "{\"type\":\"memset_event\"," IDENTITY ",\"name\":\"memset\",\"platform\":"
		   "\"cuda\",\"device_id\":\"1\",\"stream_id\":\"7\",\"stack_trace\":\"main|f"
		   "\\\"8\",\"user_scope\":\"global\",\"scope_depth\":0,\"start_ns\":1000002500,"
		   "\"end_ns\":1000002600,\"api_start_ns\":1000001700,\"api_exit_ns\":1000001800,"
		   "\"corr_id\":100,\"bytes\":64,\"context_id\":0,\"graph_id\":6,"
		   "\"graph_node_id\":0,\"thread_id\":5}");
	CHECK_LINE(scope, "graph_launch_event", 0,
		   "{\"type\":\"graph_launch_event\"," IDENTITY ",\"start_ns\":1000002700,"
		   "\"end_ns\":1000002800,\"duration_ns\":100,\"graph_id\":3,\"device_id\":1,"
		   "\"stream_id\":7,\"corr_id\":100,\"thread_id\":5,\"api_start_ns\":1000001700,"
		   "\"api_exit_ns\":1000001800}");
	CHECK_LINE(scope, "synchronization_event_batch", 0,
		   "{\"version\":1,\"type\":\"synchronization_event_batch\",\"session_id\":"
		   "\"" SESSION "\",\"batch_id\":2,\"base_time_ns\":1000002816,\"columns\":["
		   "\"dt_ns\",\"duration_ns\",\"sync_type\",\"stream_id\",\"event_id\","
		   "\"context_id\",\"corr_id\",\"function_id\",\"thread_id\"],\"rows\":["
		   "[84,5,3,7,0,1,100,1,5]]}");
	CHECK_LINE(scope, "dictionary_update", 0,
		   "{\"version\":1,\"type\":\"dictionary_update\",\"session_id\":\"" SESSION
		   "\",\"function_dict\":{\"1\":\"main|f\\\"8\"}}");
	CHECK_LINE(scope, "memory_alloc_event_batch", 0,
		   "{\"version\":1,\"type\":\"memory_alloc_event_batch\",\"session_id\":\"" SESSION
		   "\",\"batch_id\":3,\"base_time_ns\":1000002816,\"columns\":[\"dt_ns\","
		   "\"duration_ns\",\"memory_op\",\"memory_kind\",\"address\",\"bytes\","
		   "\"device_id\",\"stream_id\",\"corr_id\"," CALL_COLUMNS
		   "],\"rows\":[[184,0,1,3,139637976727552,1024,0,0,100" CALL(1700, 1800) "]]}");
	free(device);
	free(scope);
}

/* Where CUPTI's synchronizations are not recorded, blocking calls say who waited how long. */
static void test_blocking_calls_are_synchronizations(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ .blocking_calls = true });
	char *text;

	define(s);
	ROW(s, api_function, .id = 20, .name = FUNCTION, .kind = api_kind_synchronize);
	call(s, 2101, 2100, 4, 0); /* no time */
	call(s, 2000, 2100, 5, 0);
	text_row(s, 60, "cudaEventSynchronize");
	ROW(s, api_function, .id = 20, .name = 60, .kind = api_kind_synchronize);
	call(s, 2200, 2201, 6, 0);
	text_row(s, 61, "cuCtxSynchronize");
	ROW(s, api_function, .id = 20, .name = 61, .kind = api_kind_synchronize);
	call(s, 2300, 2301, 7, 0);
	ROW(s, api_function, .id = 21, .name = 61, .kind = api_kind_launch);
	ROW(s, api_call, .start_ns = 2400, .end_ns = 2401, .function = 21, .correlation = 8);
	close_sink(s);
	text = window_text(*state, "scope.1.log.gz");
	assert_non_null(strstr(
		text,
		"\"rows\":[[208,100,3,0,0,0,5,0,5],[408,1,1,0,0,0,6,0,5],[508,1,4,0,0,0,7,0,5]]"));
	free(text);
}

static void test_scopes_and_ranges(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	ROW(s, nvtx, .time_ns = 1792, .kind = nvtx_kind_push, .thread = 5, .domain = 3,
	    .message = STEP, .payload_kind = nvtx_payload_runs, .payload = 10 | UINT64_C(3) << 32,
	    .missing = 1u << COLUMN_nvtx_range);
	nvtx(s, nvtx_kind_push, 1800, 4, HOSTILE, 0);
	nvtx(s, nvtx_kind_push, 1810, 3, INNER, 1);
	/* Its pop was lost: the next at its level says so. */
	nvtx(s, nvtx_kind_push, 1820, 3, STEP, 1);
	nvtx(s, nvtx_kind_pop, 1830, 3, 0, 1);
	nvtx(s, nvtx_kind_pop, 1835, 3, 0, 7); /* of none */
	nvtx(s, nvtx_kind_pop, 1840, 4, 0, 0);
	nvtx(s, nvtx_kind_pop, 1850, 3, 0, 0);
	nvtx(s, nvtx_kind_pop, 1860, 3, 0, 0); /* of none */
	ROW(s, nvtx, .time_ns = 1900, .kind = nvtx_kind_start, .thread = 5, .range = 11,
	    .message = STEP);
	ROW(s, nvtx, .time_ns = 1901, .kind = nvtx_kind_end, .thread = 6, .range = 12);
	ROW(s, nvtx, .time_ns = 1910, .kind = nvtx_kind_end, .thread = 6, .range = 11);
	ROW(s, nvtx, .time_ns = 1911, .kind = nvtx_kind_end, .thread = 6, .range = 11);
	close_sink(s);
	text = window_text(*state, "scope.1.log.gz");
	CHECK_LINE(text, "scope_event_batch", 0,
		   "{\"version\":3,\"type\":\"scope_event_batch\",\"session_id\":\"" SESSION
		   "\",\"batch_id\":1,\"base_time_ns\":1000001792,\"columns\":[\"dt_ns\","
		   "\"scope_instance_id\",\"name_id\",\"event_type\",\"depth\",\"repeat\","
		   "\"warmup\",\"original_start_ns\",\"thread_id\"],\"rows\":["
		   "[0,1,1,0,0,10,3,1000001792,5],[18,2,2,0,1,0,0,1000001810,5],"
		   "[28,2,2,1,1,0,0,1000001820,5],[28,3,1,0,1,0,0,1000001820,5],"
		   "[38,3,1,1,1,0,0,1000001830,5],[58,1,1,1,0,0,0,1000001850,5]]}");
	CHECK_LINE(text, "nvtx_marker_event", 0,
		   "{\"type\":\"nvtx_marker_event\"," IDENTITY
		   ",\"name\":\"a\\\"b\\\\c\\n\\r\\t\\u001f\xc3\xa4\xef\xbf\xbd\",\"domain\":"
		   "\"a\\\"b\\\\c\\n\\r\\t\\u001f\xc3\xa4\xef\xbf\xbd\",\"start_ns\":1000001800,"
		   "\"end_ns\":1000001840,\"duration_ns\":40,\"marker_id\":4,\"thread_id\":5,"
		   "\"depth\":0}");
	CHECK_LINE(text, "nvtx_marker_event", 1,
		   "{\"type\":\"nvtx_marker_event\"," IDENTITY
		   ",\"name\":\"step\",\"domain\":\"\",\"start_ns\":1000001900,\"end_ns\":"
		   "1000001910,\"duration_ns\":10,\"marker_id\":5}");
	assert_null(find_line(text, "nvtx_marker_event", 2));
	free(text);
}

/* Of deep ranges the level is missing; it counts as above every other. */
static void test_levels_that_are_missing(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	uint64_t none =
		1u << COLUMN_nvtx_range | 1u << COLUMN_nvtx_level | 1u << COLUMN_nvtx_payload_kind;
	char *text;

	define(s);
	nvtx(s, nvtx_kind_push, 1500, 0, STEP, 0);
	for (uint64_t i = 0; i < 3; i++)
		ROW(s, nvtx, .time_ns = 1600 + i, .kind = i < 2 ? nvtx_kind_push : nvtx_kind_pop,
		    .thread = 5, .message = INNER, .missing = none);
	nvtx(s, nvtx_kind_push, 1700, 0, GEMM, 1); /* ends what is left of them */
	close_sink(s);
	text = window_text(*state, "scope.1.log.gz");
	assert_non_null(strstr(find_line(text, "nvtx_marker_event", 0), "\"duration_ns\":1,"));
	assert_non_null(strstr(find_line(text, "nvtx_marker_event", 1), "\"duration_ns\":100,"));
	assert_null(find_line(text, "nvtx_marker_event", 2));
	free(text);
}

/* A scope that another thread carries on has the path of where it was opened. */
static void test_tokens_carry_paths(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	nvtx(s, nvtx_kind_push, 1500, 3, STEP, 0);
	ROW(s, nvtx, .time_ns = 1501, .kind = nvtx_kind_token, .thread = 5, .domain = 3,
	    .range = 77);
	for (uint32_t thread = 6; thread < 8; thread++) {
		ROW(s, nvtx, .time_ns = 1600, .kind = nvtx_kind_push, .thread = thread, .domain = 3,
		    .range = 77, .message = GEMM,
		    .missing = thread == 6 ? 1u << COLUMN_nvtx_message : 0);
		ROW(s, api_call, .start_ns = 1700, .end_ns = 1701, .thread = thread,
		    .correlation = thread);
		kernel(s, 2000, 2001, thread);
		ROW(s, nvtx, .time_ns = 2000, .kind = nvtx_kind_pop, .thread = thread, .domain = 3);
	}
	close_sink(s);
	text = window_text(*state, "device.1.log.gz");
	assert_non_null(strstr(find_line(text, "kernel_detail", 0), "\"user_scope\":\"step\""));
	assert_non_null(
		strstr(find_line(text, "kernel_detail", 1), "\"user_scope\":\"step|_Z4gemmv\""));
	free(text);
	text = window_text(*state, "scope.1.log.gz");
	assert_non_null(strstr(text, "\"rows\":[[220,1,1,0,0,0,0,1000001500,5],"
				     "[320,3,2,0,0,0,0,1000001600,7],"
				     "[720,3,2,1,0,0,0,1000002000,7]]}"));
	assert_null(find_line(text, "nvtx_marker_event", 0));
	free(text);
}

static void test_metrics(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	double cpu = 25.5;
	int64_t bits;
	char *text;

	define(s);
	counter(s, 0, "gpu_power", 3);
	counter(s, 1, "gpu_utilization", 0);
	counter(s, 2, "gpu_memory_used", 0);
	counter(s, 3, "gpu_energy", 3);
	counter(s, 4, "gpu_temperature", 1);
	counter(s, 5, "somebody's", 0);
	counter(s, 8, "host_memory_used", 0);
	counter(s, 9, "host_memory_available", 0);
	counter(s, 11, "host_core_0_busy", 2);
	counter(s, 12, "host_core_3_busy", 2);
	text_row(s, 110, "host_cpu_busy");
	ROW(s, counter, .id = 10, .name = 110, .reading = counter_reading_real);
	memcpy(&bits, &cpu, sizeof(bits));
	sample(s, 2048, 0, 150000);
	sample(s, 2048, 1, 77);
	sample(s, 2048, 2, (int64_t)2048 << 20);
	sample(s, 2048, 3, 5000);
	sample(s, 2048, 4, 705);
	sample(s, 2048, 5, 1);
	sample(s, 2048, 10, bits); /* without the memory and a use before there is no row */
	sample(s, 3048, 1, -5);
	sample(s, 3048, 8, (int64_t)2048 << 20);
	sample(s, 3048, 9, (int64_t)63488 << 20);
	/* 1.02 s of 4 processors in 1 s */
	cpu += 1.02;
	memcpy(&bits, &cpu, sizeof(bits));
	sample(s, 1000003048, 10, bits);
	sample(s, 1000003048, 9, (int64_t)63488 << 20);
	close_sink(s);
	text = window_text(*state, "system.1.log.gz");
	CHECK_LINE(
		text, "device_metric_batch", 0,
		"{\"version\":1,\"type\":\"device_metric_batch\",\"session_id\":\"" SESSION
		"\",\"batch_id\":1,\"base_time_ns\":1000002048,\"columns\":[\"dt_ns\","
		"\"device_id\",\"gpu_util\",\"mem_util\",\"temp_c\",\"power_mw\",\"used_mib\","
		"\"total_mib\",\"clock_sm\",\"fan_speed_pct\",\"temp_mem_c\",\"temp_junction_c\","
		"\"voltage_mv\",\"energy_uj\",\"clock_mem\",\"pcie_bw_bps\",\"ecc_corrected\","
		"\"ecc_uncorrected\"],\"rows\":["
		"[0,0,77,0,71,150000,2048,143771,0,0,0,71,0,5000000,0,0,0,0],"
		"[1000,0,0,0,71,150000,2048,143771,0,0,0,71,0,5000000,0,0,0,0]]}");
	CHECK_LINE(text, "host_metric_batch", 0,
		   "{\"version\":1,\"type\":\"host_metric_batch\",\"session_id\":\"" SESSION
		   "\",\"hostname\":\"vm\",\"ip_addr\":\"\",\"batch_id\":2,\"base_time_ns\":"
		   "2000002816,\"columns\":[\"dt_ns\",\"cpu_pct_x100\",\"ram_used_mib\","
		   "\"ram_total_mib\"],\"rows\":[[232,2550,2048,65536]]}");
	assert_null(find_line(text, "host_metric_batch", 1));
	free(text);
}

static void test_losses_are_records(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	ROW(s, loss, .reason = loss_reason_no_time, .count = 5, .start_ns = 1, .end_ns = 2,
	    .detail = WHY);
	ROW(s, loss, .reason = 255, .count = 6, .missing = 1u << COLUMN_loss_detail);
	close_sink(s);
	text = window_text(*state, "system.1.log.gz");
	CHECK_LINE(text, "pitot_loss", 0,
		   "{\"type\":\"pitot_loss\"," IDENTITY ",\"reason\":\"no_time\",\"count\":5,"
		   "\"start_ns\":1000000001,\"end_ns\":1000000002,\"detail\":\"no \\\"time\\\"\"}");
	CHECK_LINE(text, "pitot_loss", 1,
		   "{\"type\":\"pitot_loss\"," IDENTITY ",\"reason\":\"unknown\",\"count\":6,"
		   "\"start_ns\":1000000000,\"end_ns\":1000000000,\"detail\":\"\"}");
	free(text);
}

/*
 * A clock that is set changes the times after that; what is within the width of a reading does not.
 */
static void test_clocks(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	call(s, 1000, 1001, 1, 0);
	kernel(s, 2000, 2001, 1);
	ROW(s, clock, .monotonic_ns = 2100, .realtime_ns = 2100 + EPOCH + 50, .width_ns = 50);
	kernel(s, 2200, 2201, 1);
	ROW(s, clock, .monotonic_ns = 2300, .realtime_ns = 2300 + EPOCH - 200, .width_ns = 50);
	kernel(s, 2400, 2401, 1);
	ROW(s, clock, .monotonic_ns = 2500, .realtime_ns = 2500 + EPOCH - 100, .width_ns = 50);
	kernel(s, 2600, 2601, 1);
	close_sink(s);
	text = window_text(*state, "device.1.log.gz");
	assert_non_null(strstr(text, ",\"base_time_ns\":1000001792,"));
	assert_non_null(strstr(text, "[[208,"));
	assert_non_null(strstr(text, "],[408,"));
	assert_non_null(strstr(text, "],[408,1,13,1,3,"));
	assert_non_null(strstr(text, "],[608,1,13,1,4,"));
	free(text);
}

/*
 * Full batches go to the file at once; ids and dictionaries hold over epochs, whose definitions are
 * forgotten.
 */
static void test_batches_and_epochs(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text, last[64];
	struct stat st;

	define(s);
	assert_int_equal(s->ops->seal(s), 0);
	assert_int_equal(access(session_file(*state, ".tmp/device.log"), F_OK), 0);
	call(s, 1000, 1001, 1, 0);
	for (unsigned i = 0; i < 2047; i++)
		kernel(s, 2048, 2049, 1);
	stat(session_file(*state, ".tmp/device.log"), &st);
	assert_in_range(st.st_size, 1, 4095);
	kernel(s, 2048, 2049, 1);
	stat(session_file(*state, ".tmp/device.log"), &st);
	assert_in_range(st.st_size, 1000000, 3000000);
	s->ops->epoch(s);
	text_row(s, 50, "_Z5other");
	text_row(s, 51, "_Z4gemmv");
	ROW(s, kernel_config, .id = 7, .name = 50);
	kernel(s, 3000, 3001, 1);
	ROW(s, kernel_config, .id = 8, .name = 51);
	ROW(s, kernel, .start_ns = 3002, .end_ns = 3003, .config = 8, .stream = 1, .correlation = 1,
	    .missing = 1u << COLUMN_kernel_queued_ns);
	close_sink(s);
	text = window_text(*state, "device.1.log.gz");
	assert_non_null(strstr(text, "\"kernel_dict\":{\"1\":\"gemm()\"}"));
	assert_non_null(strstr(text, "\"kernel_dict\":{\"2\":\"other\"}"));
	assert_null(strstr(text, "\"3\":"));
	assert_non_null(strstr(text, "[[184,2,13,1,2049,"));
	assert_non_null(strstr(text, ",[186,1,1,1,2050,"));
	snprintf(last, sizeof(last), ",\"corr_id\":%u,", 2048);
	assert_non_null(strstr(text, last));
	free(text);
}

/* What is known of calls is bounded: the last ones are. */
static void test_the_last_calls_are_known(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ .calls_max = 4 });
	char *text;

	define(s);
	for (uint64_t i = 1; i <= 12; i++)
		call(s, 1500, 1501, i, 0);
	for (uint64_t i = 4; i <= 12; i += 4)
		kernel(s, 2000, 2001, i);
	/* What was known before stays with what is known later. */
	ROW(s, external_correlation, .kind = 4, .id = 77, .correlation = 20);
	for (uint64_t i = 13; i <= 16; i++)
		call(s, 1500, 1501, i, 0);
	call(s, 1500, 1501, 20, 0);
	kernel(s, 2000, 2001, 20);
	close_sink(s);
	text = window_text(*state, "device.1.log.gz");
	assert_non_null(strstr(find_line(text, "kernel_detail", 0), "\"user_scope\":\"global\""));
	assert_non_null(strstr(find_line(text, "kernel_detail", 1), "\"user_scope\":\"global\""));
	assert_non_null(strstr(find_line(text, "kernel_detail", 2), "\"user_scope\":\"global\""));
	assert_non_null(strstr(find_line(text, "kernel_detail", 3), "\"user_scope\":\"unknown\""));
	assert_non_null(strstr(text, ",4,77,0,1,0,0,20,"));
	free(text);
}

/* A kernel waits for the row of its launch, over one seal. */
static void test_kernels_before_their_launch(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	kernel(s, 2000, 2001, 1);
	kernel(s, 2000, 2001, 2);
	assert_int_equal(s->ops->seal(s), 0);
	call(s, 1500, 1501, 1, 0);
	assert_int_equal(s->ops->seal(s), 0);
	call(s, 1500, 1501, 2, 0);
	close_sink(s);
	text = window_text(*state, "device.1.log.gz");
	assert_non_null(strstr(find_line(text, "kernel_detail", 0), "\"user_scope\":\"global\""));
	assert_non_null(strstr(find_line(text, "kernel_detail", 1), "\"user_scope\":\"unknown\""));
	assert_null(find_line(text, "kernel_detail", 2));
	free(text);
}

/* A GPU that is seen late is named by another job_start. */
static void test_devices_that_come_late(void **state)
{
	struct sink *s = sink_open(*state, (struct gpufl_options){ 0 });
	char *text;

	define(s);
	assert_int_equal(s->ops->seal(s), 0);
	text_row(s, 70, "second");
	ROW(s, device, .id = 1, .name = 70);
	ROW(s, device, .id = 64, .name = 70); /* too many */
	assert_int_equal(s->ops->seal(s), 0);
	assert_int_equal(s->ops->seal(s), 0);
	close_sink(s);
	text = window_text(*state, "system.1.log.gz");
	assert_null(strstr(find_line(text, "job_start", 0), "\"second\""));
	assert_non_null(strstr(find_line(text, "job_start", 1), "{\"id\":1,\"name\":\"second\""));
	assert_null(find_line(text, "job_start", 2));
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		folder_test(test_a_session_begins_and_ends_in_every_channel),
		folder_test(test_kernels_have_ids_of_their_own),
		folder_test(test_the_compact_form),
		folder_test(test_other_work),
		folder_test(test_blocking_calls_are_synchronizations),
		folder_test(test_scopes_and_ranges),
		folder_test(test_levels_that_are_missing),
		folder_test(test_tokens_carry_paths),
		folder_test(test_metrics),
		folder_test(test_losses_are_records),
		folder_test(test_clocks),
		folder_test(test_batches_and_epochs),
		folder_test(test_the_last_calls_are_known),
		folder_test(test_kernels_before_their_launch),
		folder_test(test_devices_that_come_late),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
