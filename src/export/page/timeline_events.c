/*
 * timeline_events.c: the names, tracks and details of the timeline page's slices.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "export/page/timeline.h"
#include "names/demangle.h"
#include "trace/columns.h"
#include "trace/counter_value.h"

#define NO_GPU SIZE_MAX
#define EXACT_MAX (UINT64_C(1) << 53)

/* --- classes: JSON built in t->text, then interned --- */

static struct json begin_class(struct timeline *t)
{
	struct json j = JSON_INIT(&t->text);

	strbuf_clear(&t->text);
	json_array(&j);
	return j;
}

struct json timeline_class(struct timeline *t, enum event_kind kind, const char *name,
			   size_t length)
{
	struct json j = begin_class(t);

	json_u64(&j, kind);
	json_bytes(&j, name, length);
	json_object(&j);
	return j;
}

static struct json event_class(struct timeline *t, enum event_kind kind, const char *name)
{
	return timeline_class(t, kind, name, strlen(name));
}

int64_t timeline_class_end(struct timeline *t, struct json *j)
{
	while (j->depth)
		json_end(j);
	if (t->text.failed || t->name.failed)
		return -ENOMEM;
	return interner_add(&t->classes, strbuf_text(&t->text), t->text.length, NULL);
}

/* [kind, number of a class, { */
static struct json derived_class(struct timeline *t, enum event_kind kind, int64_t class)
{
	struct json j = begin_class(t);

	json_u64(&j, kind);
	json_i64(&j, class);
	json_object(&j);
	return j;
}

static void add_text(struct json *j, const char *key, const char *text, size_t length)
{
	if (!length)
		return;
	json_key(j, key);
	json_bytes(j, text, length);
}

static void add_dim3(struct json *j, const char *key, uint32_t x, uint32_t y, uint32_t z)
{
	json_key_array(j, key);
	json_u64(j, x);
	json_u64(j, y);
	json_u64(j, z);
	json_end(j);
}

/* Columns with CUDA ordinals, which are shown as GPUs. */
static const struct {
	uint8_t kind, column;
	const char *key;
} devices[] = {
	{ EVENT_MEMCPY, COLUMN_memcpy_source_device, "from device" },
	{ EVENT_MEMCPY, COLUMN_memcpy_destination_device, "to device" },
	{ EVENT_ALLOCATION, COLUMN_allocation_device, "device" },
};

/* Numbers of JavaScript are doubles: an integer that none has exactly is a text. */
static void add_exact(struct json *j, uint64_t magnitude, bool negative)
{
	char text[24];

	snprintf(text, sizeof(text), "%s%llu", negative ? "-" : "", (unsigned long long)magnitude);
	if (magnitude > EXACT_MAX)
		json_string(j, text);
	else if (negative)
		json_i64(j, -(int64_t)magnitude);
	else
		json_u64(j, magnitude);
}

static void key_exact(struct json *j, const char *key, uint64_t value)
{
	json_key(j, key);
	add_exact(j, value, false);
}

static void add_details(struct timeline *t, const struct export_event *event, struct json *j)
{
	const struct table_schema *table = schema_table(event_table(event->kind));
	const struct trace *trace = t->view.trace;
	bool missing;

	for (uint64_t left = table->shown; left; left &= left - 1) {
		int column = __builtin_ctzll(left);
		uint64_t value = trace_value(trace, table->id, column, event->row, &missing);

		if (!missing)
			key_exact(j, table->columns[column].name, value);
	}
	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		uint64_t value;

		if (devices[i].kind != event->kind)
			continue;
		value = trace_value(trace, table->id, devices[i].column, event->row, &missing);
		if (!missing)
			key_exact(j, devices[i].key,
				  gpus_find(&t->view.gpus, event->process, (uint32_t)value));
	}
}

/* --- GPU work --- */

static int64_t kernel_class(struct timeline *t, uint32_t config)
{
	const struct kernel_config_columns *k = kernel_config_columns(t->view.trace);
	uint64_t *known = map_at(&t->kernels, config, UINT64_MAX);
	const char *name;
	struct json j;

	if (!known)
		return -ENOMEM;
	if (*known != UINT64_MAX)
		return (int64_t)*known;
	name = trace_string(t->view.trace, k->name[config]);
	strbuf_clear(&t->name);
	kernel_name_short(name, &t->name);
	j = timeline_class(t, EVENT_KERNEL, strbuf_text(&t->name), t->name.length);
	strbuf_clear(&t->name);
	demangle(name, &t->name);
	add_text(&j, "name", strbuf_text(&t->name), t->name.length);
	add_dim3(&j, "grid", k->grid_x[config], k->grid_y[config], k->grid_z[config]);
	add_dim3(&j, "block", k->block_x[config], k->block_y[config], k->block_z[config]);
	if (column_has(k->valid.registers, config))
		json_key_u64(&j, "registers per thread", k->registers[config]);
	if (column_has(k->valid.static_shared_bytes, config))
		json_key_u64(&j, "static shared bytes", k->static_shared_bytes[config]);
	if (column_has(k->valid.dynamic_shared_bytes, config))
		json_key_u64(&j, "dynamic shared bytes", k->dynamic_shared_bytes[config]);
	*known = (uint64_t)timeline_class_end(t, &j);
	return (int64_t)*known;
}

static int64_t other_class(struct timeline *t, const struct export_event *event)
{
	struct json j;

	strbuf_clear(&t->name);
	event_name(&t->name, t->view.trace, event);
	j = timeline_class(t, event->kind, strbuf_text(&t->name), t->name.length);
	add_details(t, event, &j);
	return timeline_class_end(t, &j);
}

/* Work in a graph refers to the class of the same work outside graphs. */
static int64_t graph_class(struct timeline *t, const struct export_event *event,
			   const struct event_columns *w, int64_t class)
{
	bool graph = w->graph && column_has(w->graph_valid, event->row);
	bool node = w->graph_node && column_has(w->graph_node_valid, event->row);
	struct json j;

	if (class < 0 || event->kind == EVENT_GRAPH || (!graph && !node))
		return class;
	j = derived_class(t, event->kind, class);
	if (graph)
		json_key_u64(&j, "graph", w->graph[event->row]);
	if (node)
		key_exact(&j, "graph node", w->graph_node[event->row]);
	return timeline_class_end(t, &j);
}

/* Stores where a kernel of a collective is on the page. */
static void add_member(struct timeline *t, const struct timeline_track *track, uint64_t kernel)
{
	const struct collective_link *link = collective_link_of(&t->links, kernel);

	if (link)
		t->members[link - t->links.items.data] = (struct timeline_member){
			track->number,
			(uint32_t)track->last_row + 1,
			track->rows.data[track->last_row].count - 1,
		};
}

static int work_event(void *exporter, const struct export_event *event)
{
	struct timeline *t = exporter;
	struct export_view *v = &t->view;
	const struct event_columns *w = event_work(v, event->kind);
	uint64_t row = event->row;
	struct timeline_track *track = timeline_track(t, TIMELINE_STREAM, event->process,
						      w->context[row], w->stream[row], event->gpu);
	uint32_t config = TRACE_NO_ROW;
	int64_t class;
	int r;

	if (event->kind == EVENT_KERNEL)
		config = kernel_columns(v->trace)->config[row];
	class = config != TRACE_NO_ROW ? kernel_class(t, config) : other_class(t, event);
	class = graph_class(t, event, w, class);
	r = timeline_slice(t, track, event, class,
			   export_correlation(v, event->process, w->correlation[row]));
	if (r < 0)
		return r;
	if (event->kind == EVENT_KERNEL)
		add_member(t, track, row);
	if (work_call(v, w, row) != TRACE_NO_ROW)
		v->result->arrows++;
	else if (!w->launches || w->launches[row] == TRACE_NO_ROW)
		v->result->unlinked++;
	return 0;
}

static int cuda_event(void *exporter, const struct export_event *event)
{
	struct timeline *t = exporter;
	const struct cuda_event_columns *e = cuda_event_columns(t->view.trace);
	uint64_t row = event->row;
	struct json j = event_class(t, event->kind, "cudaEvent");

	add_details(t, event, &j);
	return timeline_slice(t,
			      timeline_track(t, TIMELINE_EVENTS, event->process, e->context[row],
					     e->stream[row], event->gpu),
			      event, timeline_class_end(t, &j),
			      export_correlation(&t->view, event->process, e->correlation[row]));
}

/* --- calls, ranges, and other events of a process --- */

static int64_t call_class(struct timeline *t, const struct export_event *event)
{
	const struct export_view *v = &t->view;
	uint32_t function = v->call->function[event->row];
	int64_t node = timeline_call_node(t, event);
	uint64_t *known;
	size_t length;
	const char *name;
	struct json j;

	if (node < 0 || node > UINT32_MAX)
		return -ENOMEM;
	known = map_at(&t->calls, (uint64_t)function << 32 | (uint64_t)node, UINT64_MAX);
	if (!known)
		return -ENOMEM;
	if (*known != UINT64_MAX)
		return (int64_t)*known;
	name = calls_function_name(v->trace, function, &length);
	j = length ? timeline_class(t, EVENT_CALL, name, length)
		   : event_class(t, EVENT_CALL, "CUDA call");
	if (node)
		json_key_i64(&j, "stack", node);
	*known = (uint64_t)timeline_class_end(t, &j);
	return (int64_t)*known;
}

static int call_event(void *exporter, const struct export_event *event)
{
	struct timeline *t = exporter;
	const struct export_view *v = &t->view;
	uint64_t row = event->row, id = 0;
	uint64_t correlation = export_correlation(v, event->process, v->call->correlation[row]);
	bool failed = v->call->result && column_has(v->call->valid.result, row);
	bool external = v->external.count && map_get(&v->external, correlation, &id);
	int64_t class = call_class(t, event);
	struct json j;

	if (class >= 0 && (failed || external)) {
		j = derived_class(t, EVENT_CALL, class);
		if (failed)
			json_key_i64(&j, "result", v->call->result[row]);
		if (external)
			key_exact(&j, "external id", id);
		class = timeline_class_end(t, &j);
	}
	return timeline_slice(
		t,
		timeline_track(t, TIMELINE_THREAD, event->process, 0, v->call->thread[row], NO_GPU),
		event, class, correlation);
}

/* Begins a class named by the message of a range or mark. */
static struct json message_class(struct timeline *t, enum event_kind kind, uint32_t process,
				 uint64_t row, struct export_range *range)
{
	const struct trace *trace = t->view.trace;
	bool is_scope = export_range(&t->view, process, row, range);
	struct json j = range->text ? timeline_class(t, kind, trace_string(trace, range->text),
						     trace_string_length(trace, range->text))
				    : event_class(t, kind, NO_MESSAGE);

	if (is_scope)
		json_key_bool(&j, "scope", true);
	return j;
}

static void add_payload(struct timeline *t, uint64_t row, struct json *j)
{
	struct nvtx_payload_value value;

	if (!nvtx_payload_value(t->view.trace, row, &value))
		return;
	json_key(j, "payload");
	if (value.type == PAYLOAD_REAL)
		json_any_double(j, value.real);
	else if (value.type == PAYLOAD_UNSIGNED)
		add_exact(j, value.natural, false);
	else
		add_exact(j, value.integer < 0 ? -(uint64_t)value.integer : value.natural,
			  value.integer < 0);
}

static int64_t range_class(struct timeline *t, const struct export_event *event)
{
	struct export_view *v = &t->view;
	uint32_t domain = nvtx_columns(v->trace)->domain[event->row];
	struct export_range range;
	struct json j = message_class(t, EVENT_NVTX, event->process, event->row, &range);
	size_t length;
	const char *text = nvtx_domain_name(&v->names, event->process, domain, &length);

	add_text(&j, "domain", text, length);
	text = nvtx_category_name(&v->names, event->process, event->row, &length);
	add_text(&j, "category", text, length);
	add_payload(t, event->row, &j);
	text = export_scope(v, range.continues, &length);
	add_text(&j, "continues", text, length);
	if (range.runs) {
		json_key_u64(&j, "repeats", (uint32_t)range.runs);
		json_key_u64(&j, "warmups", range.runs >> 32);
	}
	if (!event->finished)
		json_key_bool(&j, "finished", false);
	return timeline_class_end(t, &j);
}

static int nvtx_event(void *exporter, const struct export_event *event)
{
	struct timeline *t = exporter;
	const struct nvtx_columns *n = nvtx_columns(t->view.trace);
	bool crosses = n->kind[event->row] == nvtx_kind_start;

	return timeline_slice(t,
			      timeline_track(t, crosses ? TIMELINE_RANGES : TIMELINE_THREAD,
					     event->process, 0, crosses ? 0 : n->thread[event->row],
					     NO_GPU),
			      event, range_class(t, event), 0);
}

static int gpu_range_event(void *exporter, const struct export_event *event)
{
	struct timeline *t = exporter;
	const struct gpu_range *range = &t->merge.gpu_ranges.items.data[event->row];
	struct export_range message;
	struct json j =
		message_class(t, EVENT_GPU_RANGE, range->process, range->nvtx_row, &message);
	int r = timeline_slice(
		t,
		timeline_track(t, TIMELINE_STREAM_RANGES, range->process, range->context,
			       range->stream,
			       gpus_find(&t->view.gpus, range->process, range->device)),
		event, timeline_class_end(t, &j), 0);

	return r < 0 ? r : EXPORT_UNCOUNTED;
}

/* Writes an event without a name of its own, named by its kind, on a track of its process. */
static int process_event(void *exporter, const struct export_event *event)
{
	struct timeline *t = exporter;
	const struct export_view *v = &t->view;
	const struct allocation_columns *a = allocation_columns(v->trace);
	enum timeline_track_kind track = TIMELINE_OVERHEAD;
	const uint64_t *correlations = NULL;
	uint64_t row = event->row;
	const char *name;
	struct json j;

	if (event->kind == EVENT_SYNC) {
		track = TIMELINE_SYNC;
		name = synchronization_name(synchronization_columns(v->trace)->kind[row]);
		correlations = v->work[WORK_SYNC].correlation;
	} else if (event->kind == EVENT_ALLOCATION) {
		track = TIMELINE_MEMORY;
		name = allocation_name(a->operation[row]);
		correlations = a->correlation;
	} else {
		name = overhead_name(overhead_columns(v->trace)->kind[row]);
	}
	j = event_class(t, event->kind, name);
	add_details(t, event, &j);
	return timeline_slice(
		t, timeline_track(t, track, event->process, 0, 0, NO_GPU), event,
		timeline_class_end(t, &j),
		correlations ? export_correlation(v, event->process, correlations[row]) : 0);
}

static int allocation_event(void *exporter, const struct export_event *event)
{
	struct timeline *t = exporter;
	const struct allocation_columns *a = allocation_columns(t->view.trace);
	uint64_t row = event->row, level = t->view.memory_levels[row];
	struct timeline_track *track;
	int r = 0;

	if (level != NO_LEVEL) {
		track = timeline_track(t, TIMELINE_LEVEL, event->process, (uint32_t)row,
				       a->device[row] << 8 | a->kind[row], NO_GPU);
		r = timeline_reading(t, track, event->start_ns, (double)level);
	}
	return r < 0 ? r : process_event(exporter, event);
}

/* A piece of the critical path; its correlation is that of the call and the work of its task. */
static int path_event(void *exporter, const struct export_event *event)
{
	struct timeline *t = exporter;
	const struct export_view *v = &t->view;
	const struct export_path *path = &t->merge.path;
	const struct path_piece *piece = &path->path.pieces.data[event->row];
	const struct task *task =
		piece->task == TASK_NONE ? NULL : &path->causes.tasks.data[piece->task];
	uint32_t process = task ? path->causes.lanes.data[task->lane].process : 0;
	uint64_t correlation = 0;
	struct json j;
	int r;

	if (task && task->kind == TASK_CALL)
		correlation = v->call->correlation[task->row];
	else if (task && task_is_work(task) && v->work[task->kind].correlation)
		correlation = v->work[task->kind].correlation[task->row];
	strbuf_clear(&t->name);
	export_piece_name(path, piece, &t->name);
	j = timeline_class(t, EVENT_PATH, strbuf_text(&t->name), t->name.length);
	r = timeline_slice(t, timeline_track(t, TIMELINE_PATH, process, 0, 0, NO_GPU), event,
			   timeline_class_end(t, &j),
			   correlation ? export_correlation(v, process, correlation) : 0);
	return r < 0 ? r : EXPORT_UNCOUNTED;
}

/* Losses of no process are shown in the first one. */
static int loss_event(void *exporter, const struct export_event *event)
{
	struct timeline *t = exporter;
	const struct trace_loss *loss = &t->merge.losses[event->row];
	uint32_t process = loss->process < t->view.process_count ? (uint32_t)loss->process : 0;
	struct json j = event_class(t, event->kind, loss_name(loss->reason));

	json_key_u64(&j, "count", loss->count);
	add_text(&j, "detail", loss->detail, strlen(loss->detail));
	return timeline_slice(t, timeline_track(t, TIMELINE_LOSS, process, 0, 0, NO_GPU), event,
			      timeline_class_end(t, &j), 0);
}

static int counter_event(void *exporter, const struct export_event *event)
{
	struct timeline *t = exporter;
	const struct trace *trace = t->view.trace;
	const struct counter_sample_columns *c = counter_sample_columns(trace);
	uint32_t counter = c->counter[event->row], id = counter;
	struct counter_value value = counter_value(trace, event->row);
	size_t gpu = NO_GPU;

	if (counter == TRACE_NO_ROW)
		return EXPORT_UNCOUNTED;
	if (column_has(c->valid.device, event->row)) {
		gpu = gpus_find(&t->view.gpus, event->process, c->device[event->row]);
		id = counter_columns(trace)->name[counter];
	}
	return timeline_reading(
		t, timeline_track(t, TIMELINE_COUNTER, event->process, counter, id, gpu),
		event->start_ns, counter_value_double(&value));
}

static export_writer *const writers[EVENT_KINDS] = {
	[EVENT_LOSS] = loss_event,
	[EVENT_PATH] = path_event,
	[EVENT_NVTX] = nvtx_event,
	[EVENT_CALL] = call_event,
	[EVENT_OVERHEAD] = process_event,
	[EVENT_ALLOCATION] = allocation_event,
	[EVENT_SYNC] = process_event,
	[EVENT_GPU_RANGE] = gpu_range_event,
	[EVENT_WORK... EVENT_CUDA_EVENT - 1] = work_event,
	[EVENT_CUDA_EVENT] = cuda_event,
	[EVENT_COUNTER] = counter_event,
	[EVENT_CPU_SAMPLE] = timeline_cpu_sample,
	[EVENT_OFF_CPU] = timeline_off_cpu,
};

int timeline_event(struct timeline *t, const struct export_event *event)
{
	return export_event_write(&t->view, writers, t, event);
}
