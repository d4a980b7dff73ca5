#include "support/make_recording.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "format/rows.h"
#include "format/segment.h"

/* CLOCK_REALTIME - CLOCK_MONOTONIC of the default host: 2026-01-01 00:00:00 UTC. */
#define REALTIME_OFFSET_NS UINT64_C(1767225600000000000)

struct maker_host maker_host = { "testhost", "00000000-0000-0000-0000-000000000001", .days = 0 };

static void *must(void *p, const char *what)
{
	if (p)
		return p;
	fprintf(stderr, "make_recording: %s: %s\n", what, strerror(errno));
	exit(1);
}

static struct writer *open_writer(struct writer_options options, const char *directory,
				  const char *prefix)
{
	struct error e = { 0 };
	struct writer *w;

	options.directory = directory;
	options.prefix = prefix;
	if ((mkdir(directory, 0777) < 0 && errno != EEXIST) || writer_open(&options, &w, &e) < 0) {
		fprintf(stderr, "make_recording: %s: %s\n", directory,
			e.code ? e.text : strerror(errno));
		exit(1);
	}
	return w;
}

uint32_t maker_string(struct maker *m, const char *text)
{
	return writer_string(m->writer, text, strlen(text));
}

/* CLOCK_REALTIME when CLOCK_MONOTONIC of the host was 0. */
static uint64_t booted_ns(void)
{
	return maker_host.unset ? 7 : REALTIME_OFFSET_NS - maker_host.days * MAKER_DAY_NS;
}

void maker_clock(struct maker *m, uint64_t time_ns)
{
	struct row_clock row = {
		.missing = schema_missing(TABLE_clock),
		.monotonic_ns = time_ns,
		.realtime_ns = booted_ns() + time_ns,
		.boottime_ns = time_ns,
		.width_ns = 40,
		.unsynchronized = maker_host.unsynchronized,
		.max_error_ns = maker_host.max_error_ns,
		.estimated_error_ns = maker_host.max_error_ns / 2,
	};

	if (maker_host.unsynchronized || maker_host.max_error_ns) {
		ROW_PRESENT(&row, clock, unsynchronized);
		ROW_PRESENT(&row, clock, max_error_ns);
		ROW_PRESENT(&row, clock, estimated_error_ns);
	}
	writer_append(m->writer, TABLE_clock, &row);
}

static void write_process(struct maker *m, const char *command, const char *executable)
{
	m->process.command = maker_string(m, command);
	m->process.executable = maker_string(m, executable);
	m->process.directory = maker_string(m, "/home/user");
	m->process.host = maker_string(m, maker_host.name);
	m->process.boot_id = maker_string(m, maker_host.boot_id);
	writer_append(m->writer, TABLE_process, &m->process);
}

/*
 * Sets the start of segments written just now to start_ns, instead of this machine's time. Returns
 * the session id that the writer chose.
 */
static uint64_t date_segments(const char *directory, const char *prefix, uint64_t start_ns)
{
	struct segment_header h = { 0 };
	char path[4096];

	for (unsigned n = 0;; n++) {
		_cleanup_close_ int fd = -1;

		snprintf(path, sizeof(path), "%s/%s.%u" SEGMENT_SUFFIX, directory, prefix, n);
		fd = open(path, O_RDWR | O_CLOEXEC);
		if (fd < 0)
			return h.session;
		if (pread(fd, &h, sizeof(h), 0) != sizeof(h))
			must(NULL, path);
		/* this machine was not started at midnight */
		if ((h.start_realtime_ns - h.start_monotonic_ns - REALTIME_OFFSET_NS) %
			    MAKER_DAY_NS ==
		    0)
			continue;
		h.start_monotonic_ns = start_ns;
		h.start_realtime_ns = booted_ns() + start_ns;
		h.crc = crc32c(0, &h, offsetof(struct segment_header, crc));
		if (pwrite(fd, &h, sizeof(h), 0) != sizeof(h))
			must(NULL, path);
	}
}

static void close_writer(struct writer **w, const char *directory, const char *prefix,
			 uint64_t start_ns)
{
	if (writer_close(w) < 0) {
		fprintf(stderr, "make_recording: cannot write\n");
		exit(1);
	}
	date_segments(directory, prefix, start_ns);
}

static struct maker *begin(struct writer_options options, const char *directory, uint32_t pid,
			   uint64_t start_ns, const char *command, enum process_source source)
{
	struct maker *m = must(calloc(1, sizeof(*m)), "maker");

	snprintf(m->directory, sizeof(m->directory), "%s", directory);
	snprintf(m->prefix, sizeof(m->prefix), "%s%u",
		 source == process_source_sampler ? "cpu-" : "", pid);
	m->writer = open_writer(options, directory, m->prefix);
	m->session = date_segments(directory, m->prefix, start_ns);
	m->context = 1;
	m->process.pid = pid;
	m->process.parent_pid = 1;
	m->process.start_ns = start_ns;
	m->process.uid = 1000;
	m->process.source = (uint8_t)source;
	m->process.missing = schema_missing(TABLE_process);
	write_process(m, command, "/usr/bin/app");
	maker_clock(m, start_ns);
	return m;
}

struct maker *maker_begin_with(struct writer_options options, const char *directory, uint32_t pid,
			       uint64_t start_ns, const char *command)
{
	return begin(options, directory, pid, start_ns, command, process_source_inside);
}

struct maker *maker_begin_sampler(const char *directory, uint32_t pid, uint64_t start_ns,
				  const char *command)
{
	return begin((struct writer_options){ 0 }, directory, pid, start_ns, command,
		     process_source_sampler);
}

struct maker *maker_begin(const char *directory, uint32_t pid, uint64_t start_ns,
			  const char *command)
{
	return maker_begin_with((struct writer_options){ 0 }, directory, pid, start_ns, command);
}

void maker_flush(struct maker *m)
{
	if (writer_flush(m->writer) == 0)
		return;
	fprintf(stderr, "make_recording: cannot write\n");
	exit(1);
}

void maker_close(struct maker *m, uint64_t end_ns)
{
	ROW_PRESENT(&m->process, process, end_ns);
	m->process.end_ns = end_ns;
	writer_append(m->writer, TABLE_process, &m->process);
	close_writer(&m->writer, m->directory, m->prefix, m->process.start_ns);
	free(m);
}

void maker_crash(struct maker *m)
{
	writer_abandon(&m->writer);
	date_segments(m->directory, m->prefix, m->process.start_ns);
	free(m);
}

void maker_record(const char *directory, uint32_t pid, uint32_t parent_pid, uint64_t start_ns,
		  uint64_t end_ns, const char *command, int exit_status)
{
	struct maker m = { .writer =
				   open_writer((struct writer_options){ 0 }, directory, "record") };

	m.process = (struct row_process){
		.pid = pid,
		.parent_pid = parent_pid,
		.start_ns = start_ns,
		.end_ns = end_ns,
		.source = process_source_record,
		.exit_status = exit_status,
		.missing = schema_missing(TABLE_process),
	};
	ROW_PRESENT(&m.process, process, end_ns);
	if (exit_status >= 0)
		ROW_PRESENT(&m.process, process, exit_status);
	write_process(&m, command, "/usr/bin/seen");
	close_writer(&m.writer, directory, "record", MAX(start_ns, end_ns));
}

void maker_device(struct maker *m, uint32_t id, uint64_t time_ns)
{
	char uuid[64], pci[32];
	struct row_device row = {
		.id = id,
		.name = maker_string(m, "NVIDIA H200"),
		.compute_major = 9,
		.multiprocessors = 132,
		.memory_bytes = UINT64_C(150754820096),
		.l2_bytes = 62914560,
		.clock_khz = 1980000,
		.memory_clock_khz = 3201000,
		.memory_bus_bits = 6144,
		.warp_size = 32,
		.max_threads_per_block = 1024,
		.max_threads_per_multiprocessor = 2048,
		.max_blocks_per_multiprocessor = 32,
		.registers_per_block = 65536,
		.registers_per_multiprocessor = 65536,
		.shared_per_block_bytes = 49152,
		.shared_per_block_optin_bytes = 232448,
		.shared_per_multiprocessor_bytes = 233472,
		.reserved_shared_per_block_bytes = 1024,
		.driver_version = 13000,
		.vendor = gpu_vendor_nvidia,
	};

	snprintf(uuid, sizeof(uuid), "GPU-00000000-0000-0000-0000-%012u", id);
	snprintf(pci, sizeof(pci), "0000:%02x:00.0", 0x18 + id);
	row.uuid = maker_string(m, uuid);
	row.pci = maker_string(m, pci);
	writer_append(m->writer, TABLE_device, &row);
	maker_context(m, id + 1, id, time_ns);
	m->device = id;
	m->context = id + 1;
	maker_stream(m, 7, time_ns);
}

void maker_context(struct maker *m, uint32_t id, uint32_t device, uint64_t time_ns)
{
	struct row_context row = {
		.id = id, .device = device, .time_ns = time_ns, .null_stream = 7
	};

	ROW_MISSING(&row, context, destroyed_ns);
	writer_append(m->writer, TABLE_context, &row);
}

void maker_stream(struct maker *m, uint32_t id, uint64_t time_ns)
{
	struct row_stream row = { .id = id, .context = m->context, .time_ns = time_ns };

	writer_append(m->writer, TABLE_stream, &row);
}

void maker_thread(struct maker *m, uint32_t tid, const char *name, uint64_t time_ns)
{
	struct row_thread row = { .tid = tid, .name = maker_string(m, name), .time_ns = time_ns };

	writer_append(m->writer, TABLE_thread, &row);
}

uint32_t maker_config(struct maker *m, const char *name, uint32_t grid, uint32_t block)
{
	struct row_kernel_config row = {
		.name = maker_string(m, name),
		.grid_x = grid,
		.grid_y = 1,
		.grid_z = 1,
		.block_x = block,
		.block_y = 1,
		.block_z = 1,
		.registers = 32,
	};

	ROW_MISSING(&row, kernel_config, cluster_x);
	ROW_MISSING(&row, kernel_config, cluster_y);
	ROW_MISSING(&row, kernel_config, cluster_z);
	ROW_MISSING(&row, kernel_config, cluster_scheduling);
	ROW_MISSING(&row, kernel_config, executed_shared_bytes);
	ROW_MISSING(&row, kernel_config, carveout_percent);
	ROW_MISSING(&row, kernel_config, max_cluster_blocks);
	ROW_MISSING(&row, kernel_config, max_active_clusters);
	ROW_MISSING(&row, kernel_config, priority);
	return writer_kernel_config(m->writer, &row);
}

static struct row_kernel kernel_row(const struct maker *m, uint32_t config, uint32_t stream,
				    uint64_t start_ns, uint64_t end_ns, uint64_t correlation)
{
	struct row_kernel row = {
		.start_ns = start_ns,
		.end_ns = end_ns,
		.config = config,
		.correlation = correlation,
		.device = m->device,
		.context = m->context,
		.stream = stream,
		.channel = 8,
		.channel_type = channel_type_compute,
	};

	ROW_MISSING_IF(&row, kernel, start_ns, !start_ns);
	ROW_MISSING_IF(&row, kernel, end_ns, !end_ns);
	ROW_MISSING(&row, kernel, graph);
	ROW_MISSING(&row, kernel, graph_node);
	ROW_MISSING(&row, kernel, queued_ns);
	ROW_MISSING(&row, kernel, submitted_ns);
	return row;
}

void maker_kernel(struct maker *m, uint32_t config, uint32_t stream, uint64_t start_ns,
		  uint64_t end_ns, uint64_t correlation)
{
	struct row_kernel row = kernel_row(m, config, stream, start_ns, end_ns, correlation);

	writer_append(m->writer, TABLE_kernel, &row);
}

void maker_graph_kernel(struct maker *m, uint32_t config, uint32_t stream, uint64_t start_ns,
			uint64_t end_ns, uint64_t correlation, uint32_t graph, uint64_t node)
{
	struct row_kernel row = kernel_row(m, config, stream, start_ns, end_ns, correlation);

	row.missing &=
		~(UINT64_C(1) << COLUMN_kernel_graph | UINT64_C(1) << COLUMN_kernel_graph_node);
	row.graph = graph;
	row.graph_node = node;
	writer_append(m->writer, TABLE_kernel, &row);
}

static enum memory_kind memory_of(enum copy_kind kind, bool source)
{
	if (kind == copy_kind_HtoH || kind == (source ? copy_kind_HtoD : copy_kind_DtoH))
		return memory_kind_pinned;
	return memory_kind_device;
}

void maker_memcpy(struct maker *m, enum copy_kind kind, uint64_t bytes, uint32_t stream,
		  uint64_t start_ns, uint64_t end_ns, uint64_t correlation)
{
	struct row_memcpy row = {
		.start_ns = start_ns,
		.end_ns = end_ns,
		.bytes = bytes,
		.kind = (uint8_t)kind,
		.source_kind = (uint8_t)memory_of(kind, true),
		.destination_kind = (uint8_t)memory_of(kind, false),
		.async = 1,
		.correlation = correlation,
		.device = m->device,
		.context = m->context,
		.stream = stream,
		.channel = 11,
		.channel_type = channel_type_async_memcpy,
	};

	ROW_MISSING(&row, memcpy, graph);
	ROW_MISSING(&row, memcpy, graph_node);
	ROW_MISSING(&row, memcpy, copies);
	ROW_MISSING(&row, memcpy, source_device);
	ROW_MISSING(&row, memcpy, source_context);
	ROW_MISSING(&row, memcpy, destination_device);
	ROW_MISSING(&row, memcpy, destination_context);
	writer_append(m->writer, TABLE_memcpy, &row);
}

void maker_memset(struct maker *m, uint64_t bytes, uint32_t stream, uint64_t start_ns,
		  uint64_t end_ns, uint64_t correlation)
{
	struct row_memset row = {
		.start_ns = start_ns,
		.end_ns = end_ns,
		.bytes = bytes,
		.memory_kind = memory_kind_device,
		.async = 1,
		.correlation = correlation,
		.device = m->device,
		.context = m->context,
		.stream = stream,
		.channel = 8,
		.channel_type = channel_type_compute,
	};

	ROW_MISSING(&row, memset, graph);
	ROW_MISSING(&row, memset, graph_node);
	writer_append(m->writer, TABLE_memset, &row);
}

void maker_synchronization(struct maker *m, enum synchronization_kind kind, uint32_t stream,
			   uint64_t start_ns, uint64_t end_ns, uint64_t correlation)
{
	struct row_synchronization row = {
		.start_ns = start_ns,
		.end_ns = end_ns,
		.kind = (uint8_t)kind,
		.correlation = correlation,
		.context = m->context,
		.stream = stream,
	};

	if (kind == synchronization_kind_context)
		ROW_MISSING(&row, synchronization, stream);
	ROW_MISSING(&row, synchronization, event);
	ROW_MISSING(&row, synchronization, event_record);
	ROW_MISSING(&row, synchronization, result);
	writer_append(m->writer, TABLE_synchronization, &row);
}

static const struct {
	enum maker_function id;
	enum api_kind kind;
	const char *name;
} functions[] = {
	{ MAKER_LAUNCH, api_kind_launch, "cuLaunchKernel" },
	{ MAKER_GRAPH_LAUNCH, api_kind_graph_launch, "cuGraphLaunch" },
	{ MAKER_MALLOC, api_kind_allocate, "cudaMalloc_v3020" },
	{ MAKER_FREE, api_kind_release, "cudaFree_v3020" },
	{ MAKER_MEMCPY_BLOCKING, api_kind_memcpy, "cudaMemcpy_v3020" },
	{ MAKER_MEMCPY, api_kind_memcpy, "cudaMemcpyAsync_v3020" },
	{ MAKER_MEMSET, api_kind_memset, "cudaMemsetAsync_v3020" },
	{ MAKER_STREAM_SYNCHRONIZE, api_kind_synchronize, "cudaStreamSynchronize_v3020" },
	{ MAKER_EVENT_RECORD, api_kind_event, "cudaEventRecord_v3020" },
	{ MAKER_DEVICE_SYNCHRONIZE, api_kind_synchronize, "cudaDeviceSynchronize_v3020" },
	{ MAKER_RUNTIME_LAUNCH, api_kind_launch, "cudaLaunchKernel_v7000" },
	{ MAKER_STREAM_WAIT, api_kind_event, "cuStreamWaitEvent" },
	{ MAKER_EVENT_SYNCHRONIZE, api_kind_synchronize, "cudaEventSynchronize_v3020" },
	{ MAKER_EVENT_QUERY, api_kind_query, "cudaEventQuery_v3020" },
	{ MAKER_STREAM_QUERY, api_kind_query, "cudaStreamQuery_v3020" },
	{ MAKER_HOST_FUNCTION, api_kind_host_function, "cuLaunchHostFunc" },
	{ MAKER_STREAM_MEMORY, api_kind_stream_memory, "cuStreamWriteValue32_v2" },
	{ MAKER_BEGIN_CAPTURE, api_kind_begin_capture, "cuStreamBeginCapture_v2" },
	{ MAKER_END_CAPTURE, api_kind_end_capture, "cuStreamEndCapture" },
};

static uint8_t waits_for(enum maker_function function)
{
	return function == MAKER_STREAM_SYNCHRONIZE   ? synchronization_kind_stream
	       : function == MAKER_STREAM_QUERY       ? synchronization_kind_stream
	       : function == MAKER_EVENT_SYNCHRONIZE  ? synchronization_kind_event
	       : function == MAKER_EVENT_QUERY        ? synchronization_kind_event
	       : function == MAKER_STREAM_WAIT        ? synchronization_kind_stream_wait_event
	       : function == MAKER_DEVICE_SYNCHRONIZE ? synchronization_kind_context
						      : synchronization_kind_unknown;
}

static void add_call(struct maker *m, enum maker_function function, uint32_t thread,
		     uint64_t start_ns, uint64_t end_ns, uint64_t correlation, uint32_t stream,
		     uint64_t event)
{
	struct row_api_call row = {
		.start_ns = start_ns,
		.end_ns = end_ns,
		.function = function,
		.thread = thread,
		.correlation = correlation,
		.stream = stream,
		.event = event,
		.context = m->context,
	};

	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		struct row_api_function known = { .id = function,
						  .kind = (uint8_t)functions[i].kind,
						  .waits_for = waits_for(function) };

		if (functions[i].id != function)
			continue;
		known.name = maker_string(m, functions[i].name);
		ROW_MISSING_IF(&known, api_function, waits_for, !known.waits_for);
		writer_api_function(m->writer, function, &known);
	}
	row.result = (int32_t)m->result;
	if (!m->result)
		ROW_MISSING(&row, api_call, result);
	row.stack = m->stack;
	if (!m->stack)
		ROW_MISSING(&row, api_call, stack);
	ROW_MISSING_IF(&row, api_call, stream, !stream);
	ROW_MISSING_IF(&row, api_call, event, !event);
	ROW_MISSING_IF(&row, api_call, context, !stream && !event && !waits_for(function));
	writer_append(m->writer, TABLE_api_call, &row);
}

void maker_call(struct maker *m, enum maker_function function, uint32_t thread, uint64_t start_ns,
		uint64_t end_ns, uint64_t correlation)
{
	add_call(m, function, thread, start_ns, end_ns, correlation, 0, 0);
}

void maker_stream_call(struct maker *m, enum maker_function function, uint32_t thread,
		       uint64_t start_ns, uint64_t end_ns, uint32_t stream, uint64_t event)
{
	add_call(m, function, thread, start_ns, end_ns, 0, stream, event);
}

void maker_graph_edge(struct maker *m, uint64_t dependency, uint64_t node, uint64_t time_ns)
{
	struct row_graph_edge row = { .time_ns = time_ns, .node = node, .dependency = dependency };

	ROW_MISSING(&row, graph_edge, graph);
	ROW_MISSING(&row, graph_edge, removed);
	writer_append(m->writer, TABLE_graph_edge, &row);
}

/* runs: repeats, and warm-ups << 32. */
static void add_range(struct maker *m, struct row_nvtx row, const char *message, uint64_t runs)
{

	if (message)
		row.message = maker_string(m, message);
	else
		ROW_MISSING(&row, nvtx, message);
	ROW_MISSING_IF(&row, nvtx, range, !row.range);
	ROW_MISSING(&row, nvtx, category);
	ROW_MISSING(&row, nvtx, color);
	row.payload_kind = nvtx_payload_runs;
	row.payload = runs;
	ROW_MISSING_IF(&row, nvtx, payload_kind, !runs);
	ROW_MISSING_IF(&row, nvtx, payload, !runs);
	ROW_MISSING(&row, nvtx, level);
	writer_append(m->writer, TABLE_nvtx, &row);
}

void maker_nvtx(struct maker *m, enum nvtx_kind kind, uint32_t thread, const char *message,
		uint64_t time_ns)
{
	add_range(m,
		  (struct row_nvtx){ .time_ns = time_ns, .kind = (uint8_t)kind, .thread = thread },
		  message, 0);
}

#define SCOPE_DOMAIN_ID 9

void maker_scope(struct maker *m, enum nvtx_kind kind, uint32_t thread, const char *message,
		 uint64_t id, uint64_t time_ns)
{
	struct row_nvtx_domain domain = { .id = SCOPE_DOMAIN_ID };

	if (!m->has_scopes) {
		domain.name = maker_string(m, "pitot");
		writer_append(m->writer, TABLE_nvtx_domain, &domain);
	}
	m->has_scopes = true;
	add_range(m,
		  (struct row_nvtx){ .time_ns = time_ns,
				     .kind = (uint8_t)kind,
				     .thread = thread,
				     .domain = SCOPE_DOMAIN_ID,
				     .range = id },
		  message, kind == nvtx_kind_push ? m->runs : 0);
}

void maker_module(struct maker *m, const char *path, const char *build_id, uint64_t start_address,
		  uint64_t end_address, uint64_t load_bias)
{
	struct row_module row = {
		.path = maker_string(m, path),
		.start_address = start_address,
		.end_address = end_address,
		.load_bias = load_bias,
		.loaded_ns = m->process.start_ns,
	};

	if (build_id)
		row.build_id = maker_string(m, build_id);
	else
		ROW_MISSING(&row, module, build_id);
	writer_append(m->writer, TABLE_module, &row);
}

uint32_t maker_native(struct maker *m, uint32_t parent, uint64_t address)
{
	return maker_exact(m, parent, frame_kind_native, address);
}

uint32_t maker_exact(struct maker *m, uint32_t parent, enum frame_kind kind, uint64_t address)
{
	struct row_stack_node row = {
		.id = ++m->nodes, .parent = parent, .kind = (uint8_t)kind, .address = address
	};

	ROW_MISSING(&row, stack_node, function);
	ROW_MISSING(&row, stack_node, file);
	ROW_MISSING(&row, stack_node, line);
	writer_append(m->writer, TABLE_stack_node, &row);
	return row.id;
}

uint32_t maker_python(struct maker *m, uint32_t parent, const char *function, const char *file,
		      uint32_t line)
{
	struct row_stack_node row = {
		.id = ++m->nodes,
		.parent = parent,
		.kind = frame_kind_python,
		.address = 1,
		.function = maker_string(m, function),
		.file = maker_string(m, file),
		.line = line,
	};

	writer_append(m->writer, TABLE_stack_node, &row);
	return row.id;
}

uint32_t maker_stack(struct maker *m, uint32_t node, uint32_t depth, enum stack_end end)
{
	struct row_stack row = {
		.id = ++m->stacks, .node = node, .depth = depth, .end = (uint8_t)end
	};

	writer_append(m->writer, TABLE_stack, &row);
	return row.id;
}

void maker_symbol(struct maker *m, uint64_t address, uint32_t inline_depth, const char *function,
		  const char *module, const char *file, uint32_t line, uint64_t function_start)
{
	struct row_symbol row = {
		.address = address,
		.inline_depth = inline_depth,
		.module = maker_string(m, module),
		.line = line,
		.function_start = function_start,
		.session = m->session,
	};

	if (function)
		row.function = maker_string(m, function);
	else
		ROW_MISSING(&row, symbol, function);
	if (file) {
		row.file = maker_string(m, file);
	} else {
		ROW_MISSING(&row, symbol, file);
		ROW_MISSING(&row, symbol, line);
	}
	writer_append(m->writer, TABLE_symbol, &row);
}

void maker_loss(struct maker *m, enum loss_reason reason, uint64_t count, uint64_t start_ns,
		uint64_t end_ns, const char *detail)
{
	struct row_loss row = {
		.reason = (uint8_t)reason, .count = count, .start_ns = start_ns, .end_ns = end_ns
	};

	if (detail)
		row.detail = maker_string(m, detail);
	else
		ROW_MISSING(&row, loss, detail);
	writer_append(m->writer, TABLE_loss, &row);
}

void maker_cost(struct maker *m, enum cost_kind kind, uint64_t start_ns, uint64_t end_ns,
		uint64_t count, uint64_t total_ns)
{
	rows_cost(m->writer, kind, start_ns, end_ns, count, total_ns);
}

void maker_cpu_sample(struct maker *m, uint32_t thread, uint64_t time_ns, uint64_t weight_ns,
		      uint32_t stack)
{
	struct row_cpu_sample row = {
		.time_ns = time_ns, .thread = thread, .weight_ns = weight_ns, .stack = stack
	};

	ROW_MISSING(&row, cpu_sample, cpu);
	if (!stack)
		ROW_MISSING(&row, cpu_sample, stack);
	writer_append(m->writer, TABLE_cpu_sample, &row);
}

void maker_off_cpu(struct maker *m, uint32_t thread, uint64_t start_ns, uint64_t end_ns,
		   enum off_cpu_state state, uint32_t stack)
{
	struct row_off_cpu row = {
		.start_ns = start_ns,
		.end_ns = end_ns,
		.thread = thread,
		.state = (uint8_t)state,
		.stack = stack,
	};

	if (!stack)
		ROW_MISSING(&row, off_cpu, stack);
	writer_append(m->writer, TABLE_off_cpu, &row);
}

void maker_graph_node(struct maker *m, uint64_t node, uint32_t graph, uint64_t original,
		      uint32_t thread, uint64_t time_ns)
{
	struct row_graph_node row = {
		.time_ns = time_ns,
		.node = node,
		.graph = graph,
		.original = original,
		.thread = thread,
		.stack = m->stack,
	};

	if (!original)
		ROW_MISSING(&row, graph_node, original);
	if (!m->stack)
		ROW_MISSING(&row, graph_node, stack);
	ROW_MISSING(&row, graph_node, correlation);
	writer_append(m->writer, TABLE_graph_node, &row);
}

void maker_capability(struct maker *m, enum feature name, enum capability_state state,
		      const char *reason)
{
	maker_capability_actual(m, name, state, NULL, reason);
}

void maker_capability_actual(struct maker *m, enum feature name, enum capability_state state,
			     const char *actual, const char *reason)
{
	struct row_capability row = {
		.time_ns = m->process.start_ns,
		.name = (uint8_t)name,
		.state = (uint8_t)state,
	};

	ROW_MISSING(&row, capability, other);
	ROW_MISSING(&row, capability, requested);
	if (actual)
		row.actual = maker_string(m, actual);
	else
		ROW_MISSING(&row, capability, actual);
	if (reason)
		row.reason = maker_string(m, reason);
	else
		ROW_MISSING(&row, capability, reason);
	ROW_MISSING(&row, capability, method);
	writer_append(m->writer, TABLE_capability, &row);
}
