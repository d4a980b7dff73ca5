/*
 * varied_recording.c: a small recording with everything that an exporter can meet: two processes
 * with equal ids on one GPU, two GPUs, overlaps, graphs, peers, waits, crossing ranges, missing
 * times, counters, losses, and names that are not text.
 */
#include <math.h>
#include <string.h>

#include "support/make_recording.h"
#include "support/recordings/recordings.h"

#define START UINT64_C(1000000000)
#define MAIN 100
#define WORKER 101
#define LONG_NAME 60000

static uint32_t hostile_name(struct maker *m, const char *text, size_t length)
{
	struct row_kernel_config row = {
		.name = writer_string(m->writer, text, length),
		.grid_x = 2147483647,
		.grid_y = 65535,
		.grid_z = 65535,
		.block_x = 1024,
		.block_y = 1,
		.block_z = 1,
		.cluster_x = 2,
		.cluster_y = 1,
		.cluster_z = 1,
		.registers = 255,
		.static_shared_bytes = 1024,
		.dynamic_shared_bytes = 200000,
		.cache_config_executed = cache_config_prefer_l1,
	};

	return writer_kernel_config(m->writer, &row);
}

/* A driver launch, and its kernel, which begins 20 us later and takes 10 us. */
static void launch(struct maker *m, uint32_t config, uint32_t thread, uint32_t stream, uint64_t at,
		   uint64_t correlation)
{
	maker_call(m, MAKER_LAUNCH, thread, START + at, START + at + 5000, correlation);
	maker_kernel(m, config, stream, START + at + 20000, START + at + 30000, correlation);
}

static void kernels(struct maker *m)
{
	static char name[LONG_NAME];
	uint32_t saxpy = maker_config(m, "_Z5saxpyifPfS_", 128, 256);
	uint32_t plain = maker_config(m, "kernel", 1, 32);
	uint32_t hostile = hostile_name(m, "bad\xff\xfe\"\\\n\t\x01name\0end", 18);
	uint32_t node = maker_config(m, "node", 4, 64);

	memset(name, 'x', sizeof(name));
	launch(m, saxpy, MAIN, 7, 0, 1);
	launch(m, plain, MAIN, 7, 40000, 2);
	launch(m, hostile, WORKER, 13, 50000, 3);
	launch(m, hostile_name(m, name, sizeof(name)), WORKER, 13, 100000, 4);
	/* Two kernels at once on one stream, and one inside another. */
	maker_call(m, MAKER_GRAPH_LAUNCH, MAIN, START + 200000, START + 204000, 5);
	maker_graph_kernel(m, node, 7, START + 210000, START + 220000, 5, 9, 21);
	maker_graph_kernel(m, node, 7, START + 215000, START + 225000, 5, 9, 22);
	maker_graph_kernel(m, node, 7, START + 216000, START + 217000, 5, 9, 23);
	/* Without a launch, without a duration, and at the same time as the previous kernel. */
	maker_kernel(m, saxpy, 13, START + 300000, START + 301000, 999);
	maker_kernel(m, plain, 13, START + 302000, START + 302000, 998);
	maker_kernel(m, saxpy, 13, START + 302000, START + 303000, 997);
}

static void untimed(struct maker *m)
{
	struct row_kernel row = {
		.config = maker_config(m, "untimed", 1, 32),
		.correlation = 996,
		.context = 1,
		.stream = 7,
	};

	ROW_MISSING(&row, kernel, start_ns);
	ROW_MISSING(&row, kernel, end_ns);
	writer_append(m->writer, TABLE_kernel, &row);
	row.missing = 0;
	ROW_MISSING(&row, kernel, end_ns);
	row.start_ns = START + 310000;
	writer_append(m->writer, TABLE_kernel, &row);
}

static void copies(struct maker *m)
{
	struct row_memcpy peer = {
		.start_ns = START + 450000,
		.end_ns = START + 460000,
		.bytes = 4096,
		.kind = copy_kind_PtoP,
		.source_kind = memory_kind_device,
		.destination_kind = memory_kind_device,
		.correlation = 12,
		.context = 1,
		.stream = 7,
		.source_device = 0,
		.source_context = 1,
		.destination_device = 1,
		.destination_context = 2,
	};

	ROW_MISSING(&peer, memcpy, graph);
	ROW_MISSING(&peer, memcpy, graph_node);
	maker_call(m, MAKER_MEMCPY, MAIN, START + 400000, START + 402000, 10);
	maker_memcpy(m, copy_kind_HtoD, 1 << 20, 7, START + 410000, START + 430000, 10);
	maker_call(m, MAKER_MEMSET, MAIN, START + 404000, START + 405000, 11);
	maker_memset(m, 8192, 7, START + 431000, START + 431000, 11);
	maker_call(m, MAKER_MEMCPY, MAIN, START + 406000, START + 407000, 12);
	writer_append(m->writer, TABLE_memcpy, &peer);
}

static void waits(struct maker *m)
{
	struct row_cuda_event record = {
		.correlation = 20, .event = 3, .context = 1, .stream = 13
	};
	struct row_synchronization wait = {
		.start_ns = START + 520000,
		.end_ns = START + 530000,
		.kind = synchronization_kind_event,
		.correlation = 22,
		.context = 1,
		.stream = 7,
		.event = 3,
	};

	ROW_MISSING(&record, cuda_event, time_ns);
	writer_append(m->writer, TABLE_cuda_event, &record);
	record.missing = 0;
	record.correlation = 19;
	record.time_ns = START + 505000;
	writer_append(m->writer, TABLE_cuda_event, &record);
	maker_call(m, MAKER_EVENT_RECORD, MAIN, START + 500000, START + 501000, 20);
	/* Waits for the copy between the peers. */
	maker_call(m, MAKER_STREAM_SYNCHRONIZE, MAIN, START + 440000, START + 470000, 21);
	maker_synchronization(m, synchronization_kind_stream, 7, START + 441000, START + 469000,
			      21);
	writer_append(m->writer, TABLE_synchronization, &wait);
	/* Two contexts wait at once, without a call. */
	maker_synchronization(m, synchronization_kind_context, 0, START + 540000, START + 560000,
			      23);
	maker_synchronization(m, synchronization_kind_context, 0, START + 550000, START + 570000,
			      24);
}

static struct row_nvtx nvtx_row(enum nvtx_kind kind, uint32_t thread, uint32_t domain, uint64_t at)
{
	struct row_nvtx row = {
		.time_ns = START + at, .kind = (uint8_t)kind, .thread = thread, .domain = domain
	};

	ROW_MISSING(&row, nvtx, message);
	ROW_MISSING(&row, nvtx, range);
	ROW_MISSING(&row, nvtx, category);
	ROW_MISSING(&row, nvtx, color);
	ROW_MISSING(&row, nvtx, payload_kind);
	ROW_MISSING(&row, nvtx, payload);
	ROW_MISSING(&row, nvtx, level);
	return row;
}

static void nvtx(struct maker *m, enum nvtx_kind kind, uint32_t thread, uint32_t domain,
		 const char *message, uint64_t range, uint64_t at)
{
	struct row_nvtx row = nvtx_row(kind, thread, domain, at);

	if (message) {
		row.missing &= ~(UINT64_C(1) << COLUMN_nvtx_message);
		row.message = maker_string(m, message);
	}
	if (range) {
		row.missing &= ~(UINT64_C(1) << COLUMN_nvtx_range);
		row.range = range;
	}
	writer_append(m->writer, TABLE_nvtx, &row);
}

static void payload(struct maker *m, uint64_t at)
{
	struct row_nvtx row = nvtx_row(nvtx_kind_mark, MAIN, 1, at);
	double not_a_number = __builtin_nan("");

	row.missing = UINT64_C(1) << COLUMN_nvtx_range | UINT64_C(1) << COLUMN_nvtx_color |
		      UINT64_C(1) << COLUMN_nvtx_level;
	row.message = maker_string(m, "mark");
	row.category = 5;
	row.payload_kind = nvtx_payload_f64;
	memcpy(&row.payload, &not_a_number, sizeof(row.payload));
	writer_append(m->writer, TABLE_nvtx, &row);
}

static void ranges(struct maker *m)
{
	struct row_nvtx_domain domain = { .id = 1, .name = maker_string(m, "library") };
	struct row_nvtx_category category = { .domain = 1,
					      .id = 5,
					      .name = maker_string(m, "phase") };

	writer_append(m->writer, TABLE_nvtx_domain, &domain);
	writer_append(m->writer, TABLE_nvtx_category, &category);
	nvtx(m, nvtx_kind_pop, MAIN, 0, NULL, 0, 100); /* began before the recording */
	nvtx(m, nvtx_kind_push, MAIN, 0, "step", 0, 600000);
	nvtx(m, nvtx_kind_push, MAIN, 1, "other domain", 0, 610000);
	/* Launched inside both ranges; runs later, on two streams. */
	launch(m, maker_config(m, "inside", 1, 32), MAIN, 7, 611000, 50);
	launch(m, maker_config(m, "_Z6insidei", 1, 32), MAIN, 13, 617000, 51);
	nvtx(m, nvtx_kind_pop, MAIN, 0, NULL, 0, 622500);
	payload(m, 625000);
	nvtx(m, nvtx_kind_pop, MAIN, 1, NULL, 0, 630000);
	nvtx(m, nvtx_kind_start, MAIN, 0, "a", 77, 640000);
	nvtx(m, nvtx_kind_start, WORKER, 0, "b", 78, 650000);
	nvtx(m, nvtx_kind_end, WORKER, 0, NULL, 77, 660000);
	nvtx(m, nvtx_kind_end, MAIN, 0, NULL, 78, 670000);
	nvtx(m, nvtx_kind_push, WORKER, 0, "never ends", 0, 680000);
}

static void readings(struct maker *m)
{
	struct row_counter power = {
		.id = 1,
		.name = maker_string(m, "gpu_power"),
		.unit = maker_string(m, "W"),
		.decimals = 3,
		.description = maker_string(m, "power draw"),
	};
	struct row_counter memory = {
		.id = 2,
		.name = maker_string(m, "host_memory"),
		.unit = maker_string(m, "bytes"),
		.description = maker_string(m, "resident memory"),
	};
	struct row_counter_sample sample = { .counter = 1, .device = 0 };

	ROW_MISSING(&sample, counter_sample, thread);
	writer_append(m->writer, TABLE_counter, &power);
	writer_append(m->writer, TABLE_counter, &memory);
	for (uint64_t i = 0; i < 4; i++) {
		sample.time_ns = START + i * 100000;
		sample.value = (int64_t)(345678 + 1000 * i);
		writer_append(m->writer, TABLE_counter_sample, &sample);
	}
	sample = (struct row_counter_sample){ .time_ns = START + 50000, .counter = 2, .value = -5 };
	ROW_MISSING(&sample, counter_sample, device);
	ROW_MISSING(&sample, counter_sample, thread);
	writer_append(m->writer, TABLE_counter_sample, &sample);
}

static void rest(struct maker *m)
{
	struct row_overhead overhead = {
		.start_ns = START + 700000,
		.end_ns = START + 710000,
		.kind = overhead_kind_buffer_flush,
		.thread = WORKER,
	};
	struct row_allocation allocation = {
		.time_ns = START + 720000,
		.operation = memory_operation_allocation,
		.kind = memory_kind_device,
		.address = UINT64_C(0x7f0000000000),
		.bytes = 1 << 21,
		.correlation = 30,
		.context = 1,
	};
	struct row_external_correlation external = { .kind = 3, .id = 4711, .correlation = 1 };
	struct row_api_call failed = {
		.start_ns = START + 730500,
		.end_ns = START + 731000,
		.function = MAKER_MALLOC,
		.thread = MAIN,
		.correlation = 31,
		.result = -2,
	};

	ROW_MISSING(&overhead, overhead, correlation);
	writer_append(m->writer, TABLE_overhead, &overhead);
	ROW_MISSING(&allocation, allocation, pool_address);
	ROW_MISSING(&allocation, allocation, pool_bytes);
	ROW_MISSING(&allocation, allocation, pool_used_bytes);
	ROW_MISSING(&allocation, allocation, name);
	ROW_MISSING(&allocation, allocation, stream);
	writer_append(m->writer, TABLE_allocation, &allocation);
	writer_append(m->writer, TABLE_external_correlation, &external);
	/* One call inside another. */
	maker_call(m, MAKER_MALLOC, MAIN, START + 730000, START + 732000, 32);
	ROW_MISSING(&failed, api_call, stack);
	ROW_MISSING(&failed, api_call, stream);
	ROW_MISSING(&failed, api_call, event);
	ROW_MISSING(&failed, api_call, context);
	writer_append(m->writer, TABLE_api_call, &failed);
	maker_loss(m, loss_reason_ring_full, 17, START + 740000, START + 750000, "thread 100");
}

/* A second context of the first GPU, with the stream ids of the first context, at the same time. */
static void second_context(struct maker *m)
{
	uint32_t config = maker_config(m, "_Z5saxpyifPfS_", 128, 256);

	maker_context(m, 3, 0, START);
	m->context = 3;
	maker_stream(m, 7, START);
	launch(m, config, MAIN, 7, 880000, 60);
	m->context = 1;
	launch(m, config, WORKER, 7, 882000, 61);
	maker_call(m, MAKER_STREAM_SYNCHRONIZE, MAIN, START + 890000, START + 915000, 62);
	maker_synchronization(m, synchronization_kind_stream, 7, START + 891000, START + 914000,
			      62);
}

/* A second GPU, whose stream has the id 0. */
static void second_gpu(struct maker *m)
{
	uint32_t config = maker_config(m, "_Z5saxpyifPfS_", 128, 256);

	maker_device(m, 1, START);
	maker_stream(m, 0, START);
	launch(m, config, MAIN, 7, 800000, 40);
	launch(m, config, MAIN, 0, 840000, 41);
}

/* The same GPU and ids in another process, which has a small pid. */
static void second_process(const char *directory)
{
	struct maker *m = maker_begin(directory, 3, START, "./worker --rank 1");
	uint32_t config = maker_config(m, "_Z5saxpyifPfS_", 128, 256);

	maker_device(m, 0, START);
	maker_thread(m, 3, "worker", START);
	launch(m, config, 3, 7, 5000, 1);
	launch(m, config, 3, 7, 45000, 2);
	maker_close(m, START + 900000);
}

void recording_varied(const char *folder)
{
	struct maker *m = maker_begin(folder, MAIN, START, "./train --epochs 1");

	maker_device(m, 0, START);
	maker_stream(m, 13, START);
	maker_thread(m, MAIN, "train", START);
	maker_thread(m, WORKER, "loader", START);
	kernels(m);
	untimed(m);
	copies(m);
	waits(m);
	ranges(m);
	readings(m);
	rest(m);
	second_context(m);
	second_gpu(m);
	maker_close(m, START + 1000000);
	second_process(folder);
}

/*
 * A process with work, below a shell that only `pitot record` saw, and the process's previous
 * image.
 */
void recording_shell(const char *folder)
{
	struct maker *m = maker_begin(folder, MAIN, START - 10000, "env A=1 ./train");

	maker_close(m, START - 5000);
	m = maker_begin(folder, MAIN, START, "./train --epochs 1");
	maker_device(m, 0, START);
	maker_stream(m, 13, START);
	kernels(m);
	maker_close(m, START + 1000000);
	maker_record(folder, 90, 1, START - 20000, START + 1010000, "sh -c './train; true'", 0);
}

/* Appends a mark whose name is the type of its payload, which has `width` bytes. */
static void typed(struct maker *m, const char *name, enum nvtx_payload kind, const void *value,
		  size_t width, uint64_t at)
{
	struct row_nvtx row = nvtx_row(nvtx_kind_mark, MAIN, 0, at);

	row.missing &=
		~(UINT64_C(1) << COLUMN_nvtx_message | UINT64_C(1) << COLUMN_nvtx_payload_kind |
		  UINT64_C(1) << COLUMN_nvtx_payload);
	row.message = maker_string(m, name);
	row.payload_kind = (uint8_t)kind;
	memcpy(&row.payload, value, width);
	writer_append(m->writer, TABLE_nvtx, &row);
}

void recording_payloads(const char *folder)
{
	struct maker *m = maker_begin(folder, MAIN, START, "app");
	const double f64[] = { 0.1, INFINITY, -INFINITY, NAN };
	const uint64_t u64 = UINT64_C(11400714819323198485);
	const int64_t i64 = INT64_MIN;
	const uint32_t u32 = UINT32_MAX;
	const int32_t i32 = -1;
	const float f32 = 0.5f;

	typed(m, "u64", nvtx_payload_u64, &u64, sizeof(u64), 10);
	typed(m, "i64", nvtx_payload_i64, &i64, sizeof(i64), 20);
	typed(m, "u32", nvtx_payload_u32, &u32, sizeof(u32), 30);
	typed(m, "i32", nvtx_payload_i32, &i32, sizeof(i32), 40);
	typed(m, "f32", nvtx_payload_f32, &f32, sizeof(f32), 50);
	for (size_t i = 0; i < ARRAY_SIZE(f64); i++)
		typed(m, "f64", nvtx_payload_f64, &f64[i], sizeof(f64[i]), 60 + i);
	maker_close(m, START + 1000);
}
