/* gpufl_rows.h: rows of a process on a GPU, for sinks of gpufl's logs. */
#ifndef PITOT_TEST_GPUFL_ROWS_H
#define PITOT_TEST_GPUFL_ROWS_H

#include "gpufl_fixture.h"

enum {
	EXECUTABLE = 1,
	HOST,
	GPU,
	UUID,
	PCI,
	GEMM,
	STEP,
	INNER,
	PITOT,
	HOSTILE,
	POWER,
	FUNCTION,
	WHY
};

static inline void define(struct sink *s)
{
	text_row(s, EXECUTABLE, "/bin/app");
	text_row(s, HOST, "vm");
	text_row(s, GPU, "NVIDIA H200");
	text_row(s, UUID, "GPU-x");
	text_row(s, PCI, "00000000:4a:00.0");
	text_row(s, GEMM, "_Z4gemmv");
	text_row(s, STEP, "step");
	text_row(s, INNER, "in\"ner\n\x01\xff|");
	text_row(s, PITOT, "pitot");
	text_row(s, HOSTILE, "a\"b\\c\n\r\t\x1f\xc3\xa4\xff");
	text_row(s, POWER, "gpu_power");
	text_row(s, FUNCTION, "cudaStreamSynchronize_v3020");
	text_row(s, WHY, "no \"time\"");
	ROW(s, process, .pid = 42, .start_ns = 1000, .executable = EXECUTABLE, .host = HOST,
	    .missing = 1u << COLUMN_process_end_ns);
	ROW(s, device, .id = 0, .name = GPU, .uuid = UUID, .pci = PCI, .compute_major = 9,
	    .vendor = gpu_vendor_nvidia, .multiprocessors = 132,
	    .memory_bytes = (uint64_t)143771 << 20, .l2_bytes = 62914560, .warp_size = 32,
	    .max_threads_per_multiprocessor = 2048, .max_blocks_per_multiprocessor = 32,
	    .registers_per_block = 65536, .registers_per_multiprocessor = 65536,
	    .shared_per_block_bytes = 49152, .shared_per_multiprocessor_bytes = 233472,
	    .reserved_shared_per_block_bytes = 1024);
	ROW(s, kernel_config, .id = 7, .name = GEMM, .grid_x = 16, .grid_y = 1, .grid_z = 1,
	    .block_x = 256, .block_y = 1, .block_z = 1, .registers = 64,
	    .dynamic_shared_bytes = 1000, .cache_config_requested = cache_config_none,
	    .missing = UINT64_C(1) << COLUMN_kernel_config_executed_shared_bytes);
	ROW(s, nvtx_domain, .id = 3, .name = PITOT);
	ROW(s, nvtx_domain, .id = 4, .name = HOSTILE);
}

static inline void kernel(struct sink *s, uint64_t start_ns, uint64_t end_ns, uint64_t correlation)
{
	ROW(s, kernel, .start_ns = start_ns, .end_ns = end_ns, .config = 7,
	    .correlation = correlation, .context = 1, .stream = 13,
	    .missing = 1u << COLUMN_kernel_queued_ns | 1u << COLUMN_kernel_graph |
		       1u << COLUMN_kernel_graph_node);
}

static inline void nvtx(struct sink *s, enum nvtx_kind kind, uint64_t time_ns, uint32_t domain,
			uint32_t message, uint8_t level)
{
	uint64_t missing = 1u << COLUMN_nvtx_range | 1u << COLUMN_nvtx_payload_kind;

	if (kind == nvtx_kind_pop)
		missing |= 1u << COLUMN_nvtx_message;
	ROW(s, nvtx, .time_ns = time_ns, .kind = (uint8_t)kind, .thread = 5, .domain = domain,
	    .message = message, .level = level, .missing = missing);
}

static inline void call(struct sink *s, uint64_t start_ns, uint64_t end_ns, uint64_t correlation,
			uint32_t stack)
{
	ROW(s, api_call, .start_ns = start_ns, .end_ns = end_ns, .function = 20, .thread = 5,
	    .correlation = correlation, .stack = stack);
}

static inline void close_sink(struct sink *s)
{
	assert_int_equal(s->ops->close(s), 0);
}

static inline void counter(struct sink *s, uint32_t id, const char *name, uint32_t decimals)
{
	text_row(s, 100 + id, name);
	ROW(s, counter, .id = id, .name = 100 + id, .decimals = decimals);
}

static inline void sample(struct sink *s, uint64_t time_ns, uint32_t id, int64_t value)
{
	ROW(s, counter_sample, .time_ns = time_ns, .counter = id, .value = value,
	    .missing = id >= 8 ? 1u << COLUMN_counter_sample_device : 0);
}

#define CHECK_LINE(text, type, n, expected)                                                        \
	do {                                                                                       \
		const char *line_ = find_line((text), (type), (n));                                \
                                                                                                   \
		assert_non_null(line_);                                                            \
		assert_string_equal(line_, (expected));                                            \
	} while (0)

#endif
