/* chrome_work.c: kernels, copies, memsets, graphs, waits and CUDA events: what has a GPU as its process. */
#include "analysis/occupancy.h"
#include "export/chrome/chrome_writer.h"
#include "symbol/demangle.h"
#include "trace/columns.h"

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
	multiprocessors = device_columns(t)->multiprocessors[device_row];
	most = device_columns(t)->max_threads_per_multiprocessor[device_row];
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
	static const char *const categories[EVENT_KINDS] = {
		[EVENT_MEMCPY] = "gpu_memcpy",
		[EVENT_MEMSET] = "gpu_memset",
		[EVENT_GRAPH] = "cuda_graph",
	};
	const char *category = categories[event->kind];
	const struct trace *t = c->view.trace;
	const struct memcpy_columns *copies = memcpy_columns(t);
	uint64_t row = event->row;

	strbuf_clear(&c->name);
	if (event->kind == EVENT_MEMCPY)
		memcpy_name(&c->name, copies->kind[row], copies->source_kind[row],
			    copies->destination_kind[row]);
	else if (event->kind == EVENT_MEMSET)
		memset_name(&c->name, memset_columns(t)->memory_kind[row]);
	else if (event->kind == EVENT_GRAPH)
		strbuf_addf(&c->name, "CUDA graph %u", graph_launch_columns(t)->graph[row]);
	else if (event->kind == EVENT_KERNEL)
		strbuf_adds(&c->name, "(unknown kernel)");
	else
		strbuf_adds(&c->name, event_label(t, event_table(event->kind), row));
	open_other(c, category ? category : schema_table(event_table(event->kind))->name,
		   strbuf_text(&c->name), c->name.length, pid);
}

static void copy_arguments(struct chrome *c, const struct export_event *event)
{
	const struct trace *t = c->view.trace;
	struct strbuf *s = &c->out;
	uint64_t bytes = event->kind == EVENT_MEMCPY ? memcpy_columns(t)->bytes[event->row]
						     : memset_columns(t)->bytes[event->row];

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

static void graph_arguments(struct strbuf *s, const struct event_columns *w, uint64_t row)
{
	if (w->graph && column_has(w->graph_valid, row)) {
		TEXT(s, ",\"graph id\":");
		text_u64(s, w->graph[row]);
	}
	if (w->graph_node && column_has(w->graph_node_valid, row)) {
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
		      const struct event_columns *w, uint32_t tid, uint32_t pid,
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
	} else if (!w->launches || w->launches[event->row] == TRACE_NO_ROW) {
		c->view.result->unlinked += !is_sync;
	}
}

int chrome_work(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
	struct export_view *v = &c->view;
	const struct event_columns *w = event_work(v, event->kind);
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
		config = kernel_columns(v->trace)->config[row];
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
	const struct event_columns *w = &c->view.work[WORK_SYNC];
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
		if (column_has(synchronization_columns(t)->valid.event, row)) {
			TEXT(s, ",\"wait_on_cuda_event_id\":");
			text_u64(s, synchronization_columns(t)->event[row]);
		}
	}
	TEXT(s, ",\"stream\":");
	text_i64(s, column_has(w->stream_valid, row) ? (int64_t)w->stream[row] : -1);
	TEXT(s, ",\"correlation\":");
	text_u64(s, export_correlation(&c->view, event->process, w->correlation[row]));
}

int chrome_sync(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
	const struct event_columns *w = &c->view.work[WORK_SYNC];
	uint64_t row = event->row,
		 correlation = export_correlation(&c->view, event->process, w->correlation[row]);
	uint8_t kind = synchronization_columns(c->view.trace)->kind[row];
	bool has_stream = column_has(w->stream_valid, row);
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

int chrome_gpu_range(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
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
	return EXPORT_UNCOUNTED;
}

#define EVENT_NS 1 /* how long Kineto draws a CUDA event */

int chrome_cuda_event(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
	const struct trace *t = c->view.trace;
	const struct cuda_event_columns *e = cuda_event_columns(t);
	struct strbuf *s = &c->out;
	uint64_t row = event->row, device = 0;
	uint32_t context = e->context[row], tid;
	uint32_t stream = e->stream[row];
	uint64_t correlation = e->correlation[row];
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
	text_u64(s, e->event[row]);
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
