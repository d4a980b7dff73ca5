/*
 * chrome_work.c: kernels, copies, memsets, graphs, waits and CUDA events: events shown under a GPU.
 */
#include "export/chrome/chrome_writer.h"
#include "names/demangle.h"
#include "trace/columns.h"

#include <errno.h>

static void text_dim3(struct strbuf *s, uint32_t x, uint32_t y, uint32_t z)
{
	TEXT(s, "[");
	text_u64(s, x);
	TEXT(s, ",");
	text_u64(s, y);
	TEXT(s, ",");
	text_u64(s, z);
	TEXT(s, "]");
}

/*
 * Writes numerator / denominator, rounded to six decimals. No sensible value needs more than 64
 * bits of millionths.
 */
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
	const struct kernel_config_columns *k = kernel_config_columns(t);
	struct strbuf *s = &c->class_text;
	unsigned __int128 blocks = 1, threads = 1;
	uint64_t multiprocessors, most, resident;
	struct occupancy o;

	if (device_row == TRACE_NO_ROW)
		return;
	blocks = blocks * k->grid_x[config] * k->grid_y[config] * k->grid_z[config];
	threads = threads * k->block_x[config] * k->block_y[config] * k->block_z[config];
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
	TEXT_U64(s, "est. achieved occupancy %",
		 (resident * (uint64_t)threads * 200 / (multiprocessors * most) + 1) / 2);
}

/* Readers mistake a kernel named like its category, "kernel", for something else. */
static void demangled_name(struct chrome *c, uint32_t name)
{
	strbuf_clear(&c->name);
	demangle(trace_string(c->view.trace, name), &c->name);
	if (c->name.length == 6 && !memcmp(c->name.data, "kernel", 6))
		c->name.data[0] = 'K';
}

static void fill_kernel(struct chrome *c, struct chrome_class *class, uint64_t key)
{
	const struct kernel_config_columns *k = kernel_config_columns(c->view.trace);
	uint32_t config = (uint32_t)key, gpu = (uint32_t)(key >> 32);
	struct strbuf *s = &c->class_text;

	class->head = (uint32_t)s->length;
	TEXT(s, ",\n{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":");
	demangled_name(c, k->name[config]);
	text_string(s, strbuf_text(&c->name), c->name.length);
	TEXT_U64(s, "pid", gpu);
	TEXT(s, ",\"tid\":");
	class->head_length = (uint32_t)s->length - class->head;
	class->tail = (uint32_t)s->length;
	if (column_has(k->valid.registers, config))
		TEXT_U64(s, "registers per thread", k->registers[config]);
	if (column_has(k->valid.static_shared_bytes, config) &&
	    column_has(k->valid.dynamic_shared_bytes, config))
		TEXT_U64(s, "shared memory",
			 (uint64_t)k->static_shared_bytes[config] +
				 k->dynamic_shared_bytes[config]);
	if (column_has(k->valid.grid_x, config)) {
		TEXT(s, ",\"grid\":");
		text_dim3(s, k->grid_x[config], k->grid_y[config], k->grid_z[config]);
		TEXT(s, ",\"block\":");
		text_dim3(s, k->block_x[config], k->block_y[config], k->block_z[config]);
	}
	occupancy_arguments(c, config, c->view.gpus.items[gpu].row);
	class->tail_length = (uint32_t)s->length - class->tail;
}

/* Returns the slice of work other than a kernel. */
static struct chrome_slice other_slice(struct chrome *c, const struct export_event *event)
{
	static const char *const categories[EVENT_KINDS] = {
		[EVENT_MEMCPY] = "gpu_memcpy",
		[EVENT_MEMSET] = "gpu_memset",
		[EVENT_GRAPH] = "cuda_graph",
	};
	const char *category = categories[event->kind];

	strbuf_clear(&c->name);
	event_name(&c->name, c->view.trace, event);
	return (struct chrome_slice){
		.category = category ? category : schema_table(event_table(event->kind))->name,
		.name = strbuf_text(&c->name),
		.length = c->name.length,
	};
}

/* Writes the columns that all exports show, and the bandwidth of what has bytes. */
static void shown_arguments(struct chrome *c, const struct export_event *event)
{
	const struct table_schema *table = schema_table(event_table(event->kind));
	struct strbuf *s = &c->out;

	for (uint64_t left = table->shown; left; left &= left - 1) {
		int column = __builtin_ctzll(left);
		const char *name = table->columns[column].name;
		bool missing;
		uint64_t value =
			trace_value(c->view.trace, table->id, column, event->row, &missing);

		if (missing)
			continue;
		TEXT(s, ",\"");
		raw_add(s, name, strlen(name));
		TEXT(s, "\":");
		text_u64(s, value);
		if (strcmp(name, "bytes") != 0 || event->end_ns == event->start_ns)
			continue;
		TEXT(s, ",\"memory bandwidth (GB/s)\":");
		text_ratio(s, value, event->end_ns - event->start_ns);
	}
}

/* Writes the source and the destination of a copy between GPUs. */
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
		TEXT_U64(s, "graph id", w->graph[row]);
	}
	if (w->graph_node && column_has(w->graph_node_valid, row)) {
		TEXT_U64(s, "graph node id", w->graph_node[row]);
	}
}

/* ,"args":{ and the framework's id */
static void open_arguments(struct chrome *c, uint64_t correlation)
{
	struct strbuf *s = &c->out;
	uint64_t id;

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
		text_pid_tid_ts(c, s, pid, tid, event->start_ns);
		TEXT(s, ",\"cat\":\"ac2g\",\"name\":\"ac2g\",\"bp\":\"e\"}");
		c->view.result->arrows += !is_sync;
	} else if (!w->launches || w->launches[event->row] == TRACE_NO_ROW) {
		c->view.result->unlinked += !is_sync;
	}
}

void chrome_metrics(struct chrome *c, enum table_id table, uint64_t first, unsigned rows)
{
	struct export_view *v = &c->view;
	struct json j = JSON_INIT(&c->out);

	for (uint64_t row = first; rows; row++, rows--) {
		uint32_t metric;
		double value;
		size_t length;
		const char *name;

		if (!metric_values_read(v->trace, table, row, &metric, &value))
			continue;
		name = export_text(v, TABLE_metric, COLUMN_metric_name, metric, &length);
		TEXT(&c->out, ",");
		json_quote(&c->out, name, length);
		TEXT(&c->out, ":");
		json_double(&j, value);
		j = (struct json)JSON_INIT(&c->out);
	}
}

static int open_kernel(struct chrome *c, const struct export_event *event,
		       struct chrome_track *track, const struct chrome_class *class, uint32_t *tid)
{
	struct strbuf *s = &c->out;
	int r = chrome_track_add(c, track, event->start_ns, event->end_ns, tid);

	if (r < 0)
		return r;
	raw_reserve(s, class->head_length + class->tail_length);
	raw_add(s, c->class_text.data + class->head, class->head_length);
	text_u64(s, *tid);
	TEXT(s, ",\"ts\":");
	text_time(c, s, event->start_ns);
	text_duration(s, event);
	return 0;
}

static void kernel_metrics(struct chrome *c, const struct export_event *event, uint64_t correlation)
{
	uint64_t first;
	unsigned rows = metric_values_take(&c->view.metrics, event->process, correlation, &first);

	if (unlikely(rows))
		chrome_metrics(c, TABLE_metric_value, first, rows);
}

int chrome_work(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
	struct export_view *v = &c->view;
	const struct event_columns *w = event_work(v, event->kind);
	struct strbuf *s = &c->out;
	uint64_t row = event->row,
		 correlation = export_correlation(v, event->process, w->correlation[row]);
	size_t gpu = event->gpu;
	struct chrome_track *track = chrome_track(c, CHROME_STREAM, event->process, w->context[row],
						  w->stream[row], gpu);
	const struct chrome_class *class = NULL;
	struct chrome_slice slice;
	uint32_t config = TRACE_NO_ROW;
	int r;

	if (event->kind == EVENT_KERNEL)
		config = kernel_columns(v->trace)->config[row];
	if (config != TRACE_NO_ROW) {
		class = chrome_class(c, (uint64_t)gpu << 32 | config, fill_kernel);
		r = class ? open_kernel(c, event, track, class, &slice.tid) : -ENOMEM;
	} else {
		slice = other_slice(c, event);
		r = chrome_slice_open(c, event, track, &slice);
	}
	if (r < 0)
		return r;
	open_arguments(c, correlation);
	raw_add(s, track->arguments, track->arguments_length);
	text_u64(s, correlation);
	if (class)
		raw_add(s, c->class_text.data + class->tail, class->tail_length);
	if (event->kind == EVENT_KERNEL)
		kernel_metrics(c, event, w->correlation[row]);
	shown_arguments(c, event);
	if (event->kind == EVENT_MEMCPY)
		peer_arguments(c, event);
	graph_arguments(s, w, row);
	TEXT(s, "}}");
	end_arrow(c, event, w, slice.tid, track->pid, correlation);
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

		TEXT_I64(s, "wait_on_stream", record.stream);
		TEXT_I64(s, "wait_on_cuda_event_record_corr_id", record.correlation);
		if (column_has(synchronization_columns(t)->valid.event, row)) {
			TEXT_U64(s, "wait_on_cuda_event_id",
				 synchronization_columns(t)->event[row]);
		}
	}
	TEXT_I64(s, "stream", column_has(w->stream_valid, row) ? (int64_t)w->stream[row] : -1);
	TEXT_U64(s, "correlation",
		 export_correlation(&c->view, event->process, w->correlation[row]));
}

int chrome_sync(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
	const struct event_columns *w = &c->view.work[WORK_SYNC];
	uint64_t row = event->row,
		 correlation = export_correlation(&c->view, event->process, w->correlation[row]);
	uint8_t kind = synchronization_columns(c->view.trace)->kind[row];
	const char *name = synchronization_name(kind);
	struct chrome_slice slice = chrome_slice("cuda_sync", name);
	struct chrome_track *track = chrome_track(
		c, CHROME_SYNC, event->process, w->context[row],
		column_has(w->stream_valid, row) ? w->stream[row] : NO_STREAM, event->gpu);
	struct strbuf *s = &c->out;
	int r = chrome_slice_open(c, event, track, &slice);

	if (r < 0)
		return r;
	open_arguments(c, correlation);
	sync_arguments(c, event, kind, name);
	TEXT_U64(s, "device", track->pid);
	TEXT_U64(s, "context", w->context[row]);
	TEXT(s, "}}");
	end_arrow(c, event, w, slice.tid, track->pid, correlation);
	return 0;
}

int chrome_gpu_range(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
	const struct gpu_range *range = &c->merge.gpu_ranges.items.data[event->row];
	struct chrome_slice slice =
		chrome_message_slice(c, "gpu_user_annotation", range->process, range->nvtx_row);
	struct chrome_track *track =
		chrome_track(c, CHROME_RANGES, range->process, range->context, range->stream,
			     gpus_find(&c->view.gpus, range->process, range->device));
	int r = chrome_slice_open(c, event, track, &slice);

	if (r < 0)
		return r;
	TEXT(&c->out, "}");
	return EXPORT_UNCOUNTED;
}

#define EVENT_NS 1 /* duration that Kineto gives a CUDA event */

int chrome_cuda_event(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
	const struct cuda_event_columns *e = cuda_event_columns(c->view.trace);
	struct strbuf *s = &c->out;
	uint64_t row = event->row, correlation;
	struct export_event drawn = *event;
	struct chrome_slice slice = chrome_slice("cuda_event", "cudaEvent");
	struct chrome_track *track;
	int r;

	drawn.end_ns = drawn.start_ns + EVENT_NS;
	track = chrome_track(c, CHROME_EVENTS, event->process, e->context[row], e->stream[row],
			     event->gpu);
	r = chrome_slice_open(c, &drawn, track, &slice);
	if (r < 0)
		return r;
	correlation = export_correlation(&c->view, event->process, e->correlation[row]);
	open_arguments(c, correlation);
	TEXT(s, "\"event_id\":");
	text_u64(s, e->event[row]);
	TEXT_U64(s, "stream", e->stream[row]);
	TEXT_U64(s, "correlation", correlation);
	TEXT_U64(s, "device", track->pid);
	TEXT_U64(s, "context", e->context[row]);
	TEXT(s, "}}");
	return 0;
}
