/* chrome_work.c: kernels, copies, memsets, graphs, waits and CUDA events: what has a GPU as its process. */
#include "analysis/occupancy.h"
#include "export/chrome/chrome_writer.h"
#include "symbol/demangle.h"

#include <errno.h>

static uint32_t config_u32(const struct chrome *c, int column, uint32_t config)
{
	return trace_u32(c->view.trace, TABLE_kernel_config, column)[config];
}

static void text_three(struct strbuf *s, const struct chrome *c, int first_column, uint32_t config)
{
	TEXT(s, "[");
	for (int i = 0; i < 3; i++) {
		if (i)
			TEXT(s, ",");
		text_u64(s, config_u32(c, first_column + i, config));
	}
	TEXT(s, "]");
}

/* numerator / denominator, rounded to six decimals; nothing sensible needs more than 64 bits of millionths. */
static void text_ratio(struct strbuf *s, unsigned __int128 numerator, uint64_t denominator)
{
	unsigned __int128 millionths = (numerator * 1000000 + denominator / 2) / denominator;
	char digits[8] = "000000";
	uint64_t value = millionths > INT64_MAX ? INT64_MAX : (uint64_t)millionths,
		 rest = value % 1000000;

	text_u64(s, value / 1000000);
	TEXT(s, ".");
	digits_before(digits + 6, rest);
	raw_add(s, digits, 6);
}

static void occupancy_arguments(struct chrome *c, uint32_t config, uint32_t device_row)
{
	const struct trace *t = c->view.trace;
	struct strbuf *s = &c->class_text;
	unsigned __int128 blocks = 1, threads = 1;
	uint64_t multiprocessors, most, resident;
	struct occupancy o;

	if (device_row == TRACE_NO_ROW)
		return;
	for (int i = 0; i < 3; i++) {
		blocks *= config_u32(c, COLUMN_kernel_config_grid_x + i, config);
		threads *= config_u32(c, COLUMN_kernel_config_block_x + i, config);
	}
	multiprocessors = trace_u32(t, TABLE_device, COLUMN_device_multiprocessors)[device_row];
	most = trace_u32(t, TABLE_device, COLUMN_device_max_threads_per_multiprocessor)[device_row];
	if (!multiprocessors || !most || blocks > UINT64_MAX >> 16 || threads > UINT32_MAX)
		return;
	TEXT(s, ",\"blocks per SM\":");
	text_ratio(s, blocks, multiprocessors);
	TEXT(s, ",\"warps per SM\":");
	text_ratio(s, blocks * threads, 32 * multiprocessors);
	if (occupancy_of_rows(t, device_row, config, &o) < 0)
		return;
	resident = (uint64_t)MIN((unsigned __int128)o.blocks * multiprocessors, blocks);
	TEXT(s, ",\"est. achieved occupancy %\":");
	text_u64(s, (resident * (uint64_t)threads * 200 / (multiprocessors * most) + 1) / 2);
}

/* A kernel that is called like the category is taken for something else by readers. */
static void demangled_name(struct chrome *c, uint32_t name)
{
	strbuf_clear(&c->name);
	demangle(trace_string(c->view.trace, name), &c->name);
	if (c->name.length == 6 && !memcmp(c->name.data, "kernel", 6))
		c->name.data[0] = 'K';
}

static void fill_kernel(struct chrome *c, struct chrome_class *class, uint64_t key)
{
	uint32_t config = (uint32_t)key, gpu = (uint32_t)(key >> 32);
	struct strbuf *s = &c->class_text;
	uint64_t shared;

	raw_reserve(s, TEXT_OBJECT_MAX);
	class->head = (uint32_t)s->length;
	TEXT(s, ",\n{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":");
	demangled_name(c, config_u32(c, COLUMN_kernel_config_name, config));
	text_string(s, strbuf_text(&c->name), c->name.length);
	TEXT(s, ",\"pid\":");
	text_u64(s, gpu);
	TEXT(s, ",\"tid\":");
	class->head_length = (uint32_t)s->length - class->head;
	class->tail = (uint32_t)s->length;
	TEXT(s, ",\"registers per thread\":");
	text_u64(s, config_u32(c, COLUMN_kernel_config_registers, config));
	shared = (uint64_t)config_u32(c, COLUMN_kernel_config_static_shared_bytes, config) +
		 config_u32(c, COLUMN_kernel_config_dynamic_shared_bytes, config);
	TEXT(s, ",\"shared memory\":");
	text_u64(s, shared);
	TEXT(s, ",\"grid\":");
	text_three(s, c, COLUMN_kernel_config_grid_x, config);
	TEXT(s, ",\"block\":");
	text_three(s, c, COLUMN_kernel_config_block_x, config);
	occupancy_arguments(c, config, c->view.gpus.items[gpu].row);
	class->tail_length = (uint32_t)s->length - class->tail;
}

/* {"ph":"X", … "tid": of what is no kernel */
static void open_other(struct chrome *c, const char *category, const char *name, size_t length,
		       uint32_t pid)
{
	struct strbuf *s = &c->out;

	TEXT(s, ",\n{\"ph\":\"X\",\"cat\":\"");
	raw_add(s, category, strlen(category));
	TEXT(s, "\",\"name\":");
	text_string(s, name, length);
	TEXT(s, ",\"pid\":");
	text_u64(s, pid);
	TEXT(s, ",\"tid\":");
}

static void open_copy(struct chrome *c, const struct export_event *event, uint32_t pid)
{
	const struct trace *t = c->view.trace;
	uint64_t row = event->row;

	strbuf_clear(&c->name);
	if (event->kind == EVENT_MEMCPY)
		memcpy_name(&c->name, trace_u8(t, TABLE_memcpy, COLUMN_memcpy_kind)[row],
			    trace_u8(t, TABLE_memcpy, COLUMN_memcpy_source_kind)[row],
			    trace_u8(t, TABLE_memcpy, COLUMN_memcpy_destination_kind)[row]);
	else if (event->kind == EVENT_MEMSET)
		memset_name(&c->name, trace_u8(t, TABLE_memset, COLUMN_memset_memory_kind)[row]);
	else if (event->kind == EVENT_GRAPH)
		strbuf_addf(&c->name, "CUDA graph %u",
			    trace_u32(t, TABLE_graph_launch, COLUMN_graph_launch_graph)[row]);
	else
		strbuf_adds(&c->name, "(unknown kernel)");
	open_other(c,
		   event->kind == EVENT_MEMCPY   ? "gpu_memcpy"
		   : event->kind == EVENT_MEMSET ? "gpu_memset"
		   : event->kind == EVENT_GRAPH  ? "cuda_graph"
						 : "kernel",
		   strbuf_text(&c->name), c->name.length, pid);
}

static void copy_arguments(struct chrome *c, const struct export_event *event)
{
	const struct trace *t = c->view.trace;
	struct strbuf *s = &c->out;
	enum table_id table = event_table(event->kind);
	int column = table == TABLE_memcpy ? COLUMN_memcpy_bytes : COLUMN_memset_bytes;
	uint64_t bytes = trace_u64(t, table, column)[event->row];

	TEXT(s, ",\"bytes\":");
	text_u64(s, bytes);
	if (event->end_ns == event->start_ns)
		return;
	TEXT(s, ",\"memory bandwidth (GB/s)\":");
	text_ratio(s, bytes, event->end_ns - event->start_ns);
}

/* Where a copy between GPUs came from and went to. */
static void peer_arguments(struct chrome *c, const struct export_event *event)
{
	static const struct {
		const char *key;
		uint8_t column;
		bool is_device;
	} arguments[] = {
		{ ",\"fromDevice\":", COLUMN_memcpy_source_device, true },
		{ ",\"toDevice\":", COLUMN_memcpy_destination_device, true },
		{ ",\"fromContext\":", COLUMN_memcpy_source_context, false },
		{ ",\"toContext\":", COLUMN_memcpy_destination_context, false },
	};
	const struct trace *t = c->view.trace;

	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++) {
		const uint8_t *valid = trace_valid(t, TABLE_memcpy, arguments[i].column);
		uint32_t value;

		if (valid && !valid[event->row])
			continue;
		value = trace_u32(t, TABLE_memcpy, arguments[i].column)[event->row];
		raw_add(&c->out, arguments[i].key, strlen(arguments[i].key));
		text_u64(&c->out, arguments[i].is_device
					  ? gpus_find(&c->view.gpus, event->process, value)
					  : value);
	}
}

static void graph_arguments(struct strbuf *s, const struct work_columns *w, uint64_t row)
{
	if (w->graph && (!w->graph_valid || w->graph_valid[row])) {
		TEXT(s, ",\"graph id\":");
		text_u64(s, w->graph[row]);
	}
	if (w->graph_node && (!w->graph_node_valid || w->graph_node_valid[row])) {
		TEXT(s, ",\"graph node id\":");
		text_u64(s, w->graph_node[row]);
	}
}

/* "ts":1.000,"dur":2.000,"args":{ and the framework's id */
static void open_arguments(struct chrome *c, const struct export_event *event, uint64_t correlation)
{
	struct strbuf *s = &c->out;
	uint64_t id;

	TEXT(s, ",\"ts\":");
	text_time(c, s, event->start_ns);
	TEXT(s, ",\"dur\":");
	text_us(s, event->end_ns - event->start_ns);
	TEXT(s, ",\"args\":{");
	if (unlikely(c->view.external.count) && map_get(&c->view.external, correlation, &id)) {
		TEXT(s, "\"External id\":");
		text_u64(s, id);
		TEXT(s, ",");
	}
}

static void end_arrow(struct chrome *c, const struct export_event *event,
		      const struct work_columns *w, uint32_t tid, uint32_t pid,
		      uint64_t correlation)
{
	struct strbuf *s = &c->out;
	bool is_sync = event->kind == EVENT_SYNC;

	if (work_call(&c->view, w, event->row) != TRACE_NO_ROW) {
		TEXT(s, ",\n{\"ph\":\"f\",\"id\":");
		text_u64(s, correlation);
		TEXT(s, ",");
		text_place(c, s, pid, tid, event->start_ns);
		TEXT(s, ",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\"}");
		c->view.result->arrows += !is_sync;
	} else if (!w->calls || w->calls[event->row] == TRACE_NO_ROW) {
		c->view.result->unlinked += !is_sync;
	}
}

int chrome_work(struct chrome *c, const struct export_event *event)
{
	struct export_view *v = &c->view;
	const struct work_columns *w = &v->work[event_work(event->kind)];
	struct strbuf *s = &c->out;
	uint64_t row = event->row,
		 correlation = export_correlation(v, event->process, w->correlation[row]);
	size_t gpu = work_gpu(v, w, event->process, row);
	struct chrome_row *place =
		chrome_row(c, ROW_STREAM, event->process, w->context[row], w->stream[row], gpu);
	uint32_t config = TRACE_NO_ROW, tid;
	const struct chrome_class *class = NULL;
	int r;

	r = chrome_row_place(c, place, event->start_ns, event->end_ns, &tid);
	if (r < 0)
		return r;
	if (event->kind == EVENT_KERNEL)
		config = trace_u32(v->trace, TABLE_kernel, COLUMN_kernel_config)[row];
	if (config != TRACE_NO_ROW) {
		class = chrome_class(c, (uint64_t)place->pid << 32 | config, fill_kernel);
		if (!class)
			return -ENOMEM;
		raw_reserve(s, TEXT_OBJECT_MAX + class->head_length + class->tail_length);
		raw_add(s, c->class_text.data + class->head, class->head_length);
	} else {
		raw_reserve(s, TEXT_OBJECT_MAX);
		open_copy(c, event, place->pid);
	}
	text_u64(s, tid);
	open_arguments(c, event, correlation);
	raw_add(s, place->arguments, place->arguments_length);
	text_u64(s, correlation);
	if (class)
		raw_add(s, c->class_text.data + class->tail, class->tail_length);
	if (event->kind == EVENT_MEMCPY || event->kind == EVENT_MEMSET)
		copy_arguments(c, event);
	if (event->kind == EVENT_MEMCPY)
		peer_arguments(c, event);
	graph_arguments(s, w, row);
	TEXT(s, "}}");
	end_arrow(c, event, w, tid, place->pid, correlation);
	return 0;
}

static bool waits_for_event(uint8_t kind)
{
	return kind == synchronization_kind_event || kind == synchronization_kind_stream_wait_event;
}

static void sync_arguments(struct chrome *c, const struct export_event *event, uint8_t kind,
			   const char *name)
{
	const struct trace *t = c->view.trace;
	const struct work_columns *w = &c->view.work[WORK_SYNC];
	const uint8_t *event_valid = trace_valid(t, w->table, COLUMN_synchronization_event);
	struct strbuf *s = &c->out;
	uint64_t row = event->row;

	TEXT(s, "\"cuda_sync_kind\":\"");
	raw_add(s, name, strlen(name));
	TEXT(s, "\"");
	if (waits_for_event(kind)) {
		struct event_record record = event_records_find(&c->records, event->process, row);

		TEXT(s, ",\"wait_on_stream\":");
		text_i64(s, record.stream);
		TEXT(s, ",\"wait_on_cuda_event_record_corr_id\":");
		text_i64(s, record.correlation);
		if (!event_valid || event_valid[row]) {
			TEXT(s, ",\"wait_on_cuda_event_id\":");
			text_u64(s, trace_u32(t, w->table, COLUMN_synchronization_event)[row]);
		}
	}
	TEXT(s, ",\"stream\":");
	text_i64(s, !w->stream_valid || w->stream_valid[row] ? (int64_t)w->stream[row] : -1);
	TEXT(s, ",\"correlation\":");
	text_u64(s, export_correlation(&c->view, event->process, w->correlation[row]));
}

int chrome_sync(struct chrome *c, const struct export_event *event)
{
	const struct work_columns *w = &c->view.work[WORK_SYNC];
	uint64_t row = event->row,
		 correlation = export_correlation(&c->view, event->process, w->correlation[row]);
	uint8_t kind = trace_u8(c->view.trace, w->table, COLUMN_synchronization_kind)[row];
	bool has_stream = !w->stream_valid || w->stream_valid[row];
	const char *name = synchronization_name(kind);
	struct chrome_row *place = chrome_row(c, ROW_SYNC, event->process, w->context[row],
					      has_stream ? w->stream[row] : NO_STREAM,
					      work_gpu(&c->view, w, event->process, row));
	struct strbuf *s = &c->out;
	uint32_t tid;
	int r;

	r = chrome_row_place(c, place, event->start_ns, event->end_ns, &tid);
	if (r < 0)
		return r;
	raw_reserve(s, TEXT_OBJECT_MAX);
	open_other(c, "cuda_sync", name, strlen(name), place->pid);
	text_u64(s, tid);
	open_arguments(c, event, correlation);
	sync_arguments(c, event, kind, name);
	TEXT(s, ",\"device\":");
	text_u64(s, place->pid);
	TEXT(s, ",\"context\":");
	text_u64(s, w->context[row]);
	TEXT(s, "}}");
	end_arrow(c, event, w, tid, place->pid, correlation);
	return 0;
}

int chrome_gpu_range(struct chrome *c, const struct export_event *event)
{
	const struct gpu_range *range = &c->merge.gpu_ranges.items.data[event->row];
	struct strbuf *s = &c->out;
	size_t length;
	const char *name =
		export_text(&c->view, TABLE_nvtx, COLUMN_nvtx_message, range->nvtx_row, &length);
	struct chrome_row *place =
		chrome_row(c, ROW_RANGES, range->process, range->context, range->stream,
			   gpus_find(&c->view.gpus, range->process, range->device));
	uint32_t tid;
	int r;

	r = chrome_row_place(c, place, event->start_ns, event->end_ns, &tid);
	if (r < 0)
		return r;
	raw_reserve(s, TEXT_OBJECT_MAX);
	open_other(c, "gpu_user_annotation", length ? name : NO_MESSAGE,
		   length ? length : strlen(NO_MESSAGE), place->pid);
	text_u64(s, tid);
	TEXT(s, ",\"ts\":");
	text_time(c, s, event->start_ns);
	TEXT(s, ",\"dur\":");
	text_us(s, event->end_ns - event->start_ns);
	TEXT(s, "}");
	return 0;
}

#define EVENT_NS 1 /* how long Kineto draws a CUDA event */

int chrome_cuda_event(struct chrome *c, const struct export_event *event)
{
	const struct trace *t = c->view.trace;
	struct strbuf *s = &c->out;
	uint64_t row = event->row, device = 0;
	uint32_t context = trace_u32(t, TABLE_cuda_event, COLUMN_cuda_event_context)[row], tid;
	uint32_t stream = trace_u32(t, TABLE_cuda_event, COLUMN_cuda_event_stream)[row];
	uint64_t correlation = trace_u64(t, TABLE_cuda_event, COLUMN_cuda_event_correlation)[row];
	struct export_event drawn = *event;
	struct chrome_row *place;
	int r;

	map_get(&c->view.context_devices, (uint64_t)event->process << 32 | context, &device);
	place = chrome_row(c, ROW_EVENTS, event->process, context, stream,
			   gpus_find(&c->view.gpus, event->process, (uint32_t)device));
	if (!place)
		return -ENOMEM;
	drawn.end_ns = drawn.start_ns + EVENT_NS;
	r = chrome_row_place(c, place, drawn.start_ns, drawn.end_ns, &tid);
	if (r < 0)
		return r;
	correlation = export_correlation(&c->view, event->process, correlation);
	raw_reserve(s, TEXT_OBJECT_MAX);
	open_other(c, "cuda_event", "cudaEvent", 9, place->pid);
	text_u64(s, tid);
	open_arguments(c, &drawn, correlation);
	TEXT(s, "\"event_id\":");
	text_u64(s, trace_u32(t, TABLE_cuda_event, COLUMN_cuda_event_event)[row]);
	TEXT(s, ",\"stream\":");
	text_u64(s, stream);
	TEXT(s, ",\"correlation\":");
	text_u64(s, correlation);
	TEXT(s, ",\"device\":");
	text_u64(s, place->pid);
	TEXT(s, ",\"context\":");
	text_u64(s, context);
	TEXT(s, "}}");
	return 0;
}
