/*
 * chrome_events.c: API calls, ranges, losses and counter samples: events shown under a real
 * process.
 */
#include "export/chrome/chrome_writer.h"
#include "trace/columns.h"
#include "trace/counter_value.h"

#include <errno.h>

const struct chrome_class *chrome_class(struct chrome *c, uint64_t key,
					void fill(struct chrome *, struct chrome_class *, uint64_t))
{
	uint64_t *position = map_at(&c->class_index, key, UINT64_MAX);
	struct chrome_class class;

	if (!position)
		return NULL;
	if (*position == UINT64_MAX) {
		*position = c->classes.count;
		fill(c, &class, key);
		if (c->class_text.failed || c->name.failed || c->class_text.length > UINT32_MAX ||
		    vec_push(&c->classes, class) < 0)
			return NULL;
	}
	return &c->classes.data[*position];
}

void chrome_metadata(struct chrome *c, const char *name, const char *key, uint32_t pid,
		     uint32_t tid, const char *text, size_t length, uint64_t number)
{
	struct strbuf *s = &c->out;

	TEXT(s, ",\n{\"ph\":\"M\",\"name\":");
	text_string(s, name, strlen(name));
	TEXT(s, ",");
	text_pid_tid_ts(c, s, pid, tid, c->base_ns);
	TEXT(s, ",\"args\":{");
	text_string(s, key, strlen(key));
	TEXT(s, ":");
	if (text)
		text_string(s, text, length);
	else
		text_u64(s, number);
	TEXT(s, "}}");
}

/* {"ph": "X", "cat": …, "name": …, "pid": …, "tid": …, "ts": … */
static void open_event(struct chrome *c, const char *phase, const char *category, const char *name,
		       size_t length, uint32_t pid, uint32_t tid, uint64_t time_ns)
{
	struct strbuf *s = &c->out;

	TEXT(s, ",\n{\"ph\":\"");
	raw_add(s, phase, strlen(phase));
	TEXT(s, "\",\"cat\":\"");
	raw_add(s, category, strlen(category));
	TEXT(s, "\",\"name\":");
	text_string(s, name, length);
	TEXT(s, ",");
	text_pid_tid_ts(c, s, pid, tid, time_ns);
}

int chrome_slice_open(struct chrome *c, const struct export_event *event,
		      struct chrome_track *track, struct chrome_slice *slice)
{
	int r = chrome_track_add(c, track, event->start_ns,
				 slice->instant ? event->start_ns : event->end_ns, &slice->tid);

	if (r < 0)
		return r;
	if (slice->instant)
		slice->tid = track->tids.data[0];
	open_event(c, slice->instant ? "i" : "X", slice->category, slice->name, slice->length,
		   track->pid, slice->tid, event->start_ns);
	if (slice->instant)
		TEXT(&c->out, ",\"s\":\"t\"");
	else
		text_duration(&c->out, event);
	return 0;
}

static void fill_call(struct chrome *c, struct chrome_class *class, uint64_t key)
{
	const struct export_view *v = &c->view;
	struct strbuf *s = &c->class_text;
	uint32_t function = (uint32_t)key;
	uint32_t id = function != TRACE_NO_ROW ? v->function->id[function] : 0;
	size_t length;
	const char *text = calls_function_name(v->trace, function, &length);

	class->head = (uint32_t)s->length;
	if (id >> 16 == 1)
		TEXT(s, ",\n{\"ph\":\"X\",\"cat\":\"cuda_driver\",\"name\":");
	else
		TEXT(s, ",\n{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":");
	text_string(s, text, length);
	class->head_length = (uint32_t)s->length - class->head;
	class->tail = (uint32_t)s->length;
	TEXT(s, "\"cbid\":");
	text_u64(s, id & 0xffff);
	TEXT(s, ",\"correlation\":");
	class->tail_length = (uint32_t)s->length - class->tail;
}

/* Starts the arrow of the call just written; chrome_work.c ends it on the stream. */
static void start_arrow(struct chrome *c, const struct chrome_track *track, uint64_t id,
			uint32_t tid, uint64_t time_ns)
{
	struct strbuf *s = &c->out;

	TEXT(s, ",\n{\"ph\":\"s\",\"id\":");
	text_u64(s, id);
	raw_add_part(s, track->arguments, track->arguments_length);
	text_u64(s, tid);
	TEXT(s, ",\"ts\":");
	text_time(c, s, time_ns);
	TEXT(s, ",\"cat\":\"ac2g\",\"name\":\"ac2g\"}");
}

/* Writes a key of the object whose members start at offset `begin`. */
static void text_key(struct strbuf *s, size_t begin, const char *key)
{
	if (s->length > begin)
		TEXT(s, ",");
	text_string(s, key, strlen(key));
	TEXT(s, ":");
}

/* Writes what was measured of a range or graph launch into the object that starts at `begin`. */
static void range_values(struct chrome *c, size_t begin, enum table_id table, uint64_t row)
{
	uint64_t first;
	unsigned rows = range_values_of(&c->view, table, row, &first);

	if (likely(!rows))
		return;
	text_key(&c->out, begin, "passes");
	text_u64(&c->out, range_value_columns(c->view.trace)->passes[first]);
	chrome_metrics(c, TABLE_range_value, first, rows);
}

static int call_event(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
	struct export_view *v = &c->view;
	struct strbuf *s = &c->out;
	uint64_t row = event->row, id;
	uint64_t correlation = export_correlation(v, event->process, v->call->correlation[row]);
	struct chrome_track *track =
		chrome_track(c, CHROME_THREAD, event->process, 0, v->call->thread[row], 0);
	const struct chrome_class *class =
		chrome_class(c, CALL_CLASS | v->call->function[row], fill_call);
	const struct chrome_stack *stack;
	const char *text;
	uint32_t tid;
	size_t length;
	int r;

	if (!track || !class || chrome_stack(c, event, &stack) < 0)
		return -ENOMEM;
	r = chrome_track_add(c, track, event->start_ns, event->end_ns, &tid);
	if (r < 0)
		return r;
	raw_reserve(s, class->head_length + (stack ? stack->caller_length : 0));
	raw_add(s, c->class_text.data + class->head, class->head_length);
	raw_add_part(s, track->arguments, track->arguments_length);
	text_u64(s, tid);
	TEXT(s, ",\"ts\":");
	text_time(c, s, event->start_ns);
	text_duration(s, event);
	if (stack) {
		TEXT_U64(s, "sf", stack->node);
	}
	TEXT(s, ",\"args\":{");
	if (unlikely(v->external.count) && map_get(&v->external, correlation, &id)) {
		TEXT(s, "\"External id\":");
		text_u64(s, id);
		TEXT(s, ",");
	}
	raw_add(s, c->class_text.data + class->tail, class->tail_length);
	text_u64(s, correlation);
	if (v->call->result && column_has(v->call->valid.result, row)) {
		TEXT_I64(s, "result", v->call->result[row]);
	}
	text = export_scope(v, nvtx_path_of_call(&v->ranges, (uint32_t)row), &length);
	if (length) {
		TEXT(s, ",\"scope\":");
		text_string(s, text, length);
	}
	if (stack)
		raw_add(s, c->stacks.callers.data + stack->caller, stack->caller_length);
	range_values(c, 0, TABLE_api_call, row);
	TEXT(s, "}}");
	if (v->first_work[row] != NO_WORK)
		start_arrow(c, track, correlation, tid, event->start_ns);
	return 0;
}

static void range_arguments(struct chrome *c, const struct export_event *event)
{
	struct export_view *v = &c->view;
	struct strbuf *s = &c->out;
	uint32_t domain = nvtx_columns(v->trace)->domain[event->row];
	struct nvtx_payload_value value;
	struct export_range range;
	size_t length, begin;
	const char *text = nvtx_domain_name(&v->names, event->process, domain, &length);

	TEXT(s, ",\"args\":{");
	begin = s->length;
	if (length) {
		text_key(s, begin, "domain");
		text_string(s, text, length);
	}
	text = nvtx_category_name(&v->names, event->process, event->row, &length);
	if (length) {
		text_key(s, begin, "category");
		text_string(s, text, length);
	}
	if (nvtx_payload_value(v->trace, event->row, &value)) {
		text_key(s, begin, "payload");
		if (value.type == PAYLOAD_REAL)
			json_any_double(&(struct json)JSON_INIT(s), value.real);
		else if (value.type == PAYLOAD_UNSIGNED)
			text_u64(s, value.natural);
		else
			text_i64(s, value.integer);
	}
	export_range(v, event->process, event->row, &range);
	if (range.continues != SCOPE_NONE) {
		text = export_scope(v, range.continues, &length);
		text_key(s, begin, "continues");
		text_string(s, text, length);
	}
	if (range.runs) {
		text_key(s, begin, "repeats");
		text_u64(s, (uint32_t)range.runs);
		TEXT_U64(s, "warmups", range.runs >> 32);
	}
	if (!event->finished) {
		text_key(s, begin, "finished");
		TEXT(s, "\"false\"");
	}
	range_values(c, begin, TABLE_nvtx, event->row);
	TEXT(s, "}}");
}

/* Writes a range that may overlap others and cross threads, as a pair of events with an id. */
static void async_range(struct chrome *c, const struct export_event *event,
			const struct chrome_slice *slice, uint32_t pid, uint32_t tid)
{
	struct strbuf *s = &c->out;

	open_event(c, "b", "nvtx_range", slice->name, slice->length, pid, tid, event->start_ns);
	TEXT_U64(s, "id", event->row + 1);
	range_arguments(c, event);
	open_event(c, "e", "nvtx_range", slice->name, slice->length, pid, tid, event->end_ns);
	TEXT_U64(s, "id", event->row + 1);
	TEXT(s, "}");
}

struct chrome_slice chrome_message_slice(const struct chrome *c, const char *category,
					 uint32_t process, uint64_t nvtx_row)
{
	struct chrome_slice slice = { .category = category };
	struct export_range range;

	export_range(&c->view, process, nvtx_row, &range);
	slice.name = trace_string(c->view.trace, range.text);
	slice.length = trace_string_length(c->view.trace, range.text);
	return slice.length ? slice : chrome_slice(category, NO_MESSAGE);
}

static int nvtx_event(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
	const struct nvtx_columns *n = nvtx_columns(c->view.trace);
	uint8_t kind = n->kind[event->row];
	bool is_mark = kind == nvtx_kind_mark;
	struct chrome_slice slice = chrome_message_slice(
		c, is_mark ? "cpu_instant_event" : "user_annotation", event->process, event->row);
	struct chrome_track *track =
		chrome_track(c, CHROME_THREAD, event->process, 0, n->thread[event->row], 0);
	int r;

	slice.instant = is_mark;
	if (kind == nvtx_kind_start) {
		/* Use the thread's first lane without taking part in its nesting. */
		r = chrome_track_add(c, track, event->start_ns, event->start_ns, &slice.tid);
		if (r >= 0)
			async_range(c, event, &slice, track->pid, track->tids.data[0]);
		return MIN(r, 0);
	}
	r = chrome_slice_open(c, event, track, &slice);
	if (r >= 0)
		range_arguments(c, event);
	return r;
}

static int range_values_event(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
	const struct trace *t = c->view.trace;
	const struct range_value_columns *v = range_value_columns(t);
	uint32_t name = v->name[event->row];
	const char *text = trace_string(t, name);
	struct chrome_slice slice = chrome_slice("hardware_counters", *text ? text : NO_MESSAGE);
	int r = chrome_slice_open(
		c, event,
		chrome_track(c, CHROME_THREAD, event->process, 0, v->thread[event->row], 0),
		&slice);

	if (r < 0)
		return r;
	TEXT(&c->out, ",\"args\":{");
	range_values(c, c->out.length, TABLE_range_value, event->row);
	TEXT(&c->out, "}}");
	return EXPORT_UNCOUNTED;
}

static int overhead_event(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
	const struct overhead_columns *o = overhead_columns(c->view.trace);
	uint32_t thread = o->thread[event->row];
	struct chrome_slice slice = chrome_slice("overhead", overhead_name(o->kind[event->row]));
	int r;

	if (!column_has(o->valid.thread, event->row))
		thread = c->view.processes[event->process].pid;
	r = chrome_slice_open(
		c, event, chrome_track(c, CHROME_OVERHEAD, event->process, 0, thread, 0), &slice);
	if (r >= 0)
		TEXT(&c->out, "}");
	return r;
}

static int allocation_event(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
	const struct allocation_columns *a = allocation_columns(c->view.trace);
	struct strbuf *s = &c->out;
	uint64_t row = event->row;
	struct chrome_slice slice =
		chrome_slice("cpu_instant_event", allocation_name(a->operation[row]));
	int r;

	slice.instant = true;
	r = chrome_slice_open(c, event, chrome_track(c, CHROME_MEMORY, event->process, 0, 0, 0),
			      &slice);
	if (r < 0)
		return r;
	TEXT(s, ",\"args\":{\"Addr\":");
	text_u64(s, a->address[row]);
	if (column_has(a->valid.bytes, row))
		TEXT_U64(s, "Bytes", a->bytes[row]);
	TEXT_U64(s, "Device Id", gpus_find(&c->view.gpus, event->process, a->device[row]));
	TEXT_U64(s, "correlation",
		 export_correlation(&c->view, event->process, a->correlation[row]));
	TEXT(s, "}}");
	if (c->view.memory_levels[row] == NO_LEVEL)
		return 0;
	strbuf_clear(&c->name);
	export_memory_name(&c->view, event->process, row, &c->name);
	TEXT(s, ",\n{\"ph\":\"C\",\"cat\":\"memory\",\"name\":");
	text_string(s, strbuf_text(&c->name), c->name.length);
	TEXT(s, ",\"pid\":");
	text_u64(s, c->view.processes[event->process].pid);
	TEXT(s, ",\"tid\":0,\"ts\":");
	text_time(c, s, event->start_ns);
	TEXT(s, ",\"args\":{\"bytes\":");
	text_u64(s, c->view.memory_levels[row]);
	TEXT(s, "}}");
	return 0;
}

static int counter_event(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
	const struct trace *t = c->view.trace;
	const struct counter_sample_columns *sample = counter_sample_columns(t);
	uint32_t counter = sample->counter[event->row];
	uint32_t device = sample->device[event->row];
	struct counter_value value = counter_value(t, event->row);
	struct strbuf *s = &c->out;
	struct json j = JSON_INIT(s);
	size_t length;
	const char *name;

	if (counter == TRACE_NO_ROW)
		return 0;
	name = export_text(&c->view, TABLE_counter, COLUMN_counter_name, counter, &length);
	TEXT(s, ",\n{\"ph\":\"C\",\"cat\":\"hardware_counters\",\"name\":");
	text_string(s, name, length);
	TEXT(s, ",\"pid\":");
	if (column_has(sample->valid.device, event->row)) {
		TEXT(s, "\"GPU ");
		text_u64(s, gpus_find(&c->view.gpus, event->process, device));
		TEXT(s, " Counters\"");
	} else {
		text_u64(s, c->view.processes[event->process].pid);
	}
	TEXT(s, ",\"tid\":0,\"ts\":");
	text_time(c, s, event->start_ns);
	TEXT(s, ",\"args\":{\"\":");
	counter_value_json(&value, &j);
	TEXT(s, "}}");
	return 0;
}

static int loss_event(void *exporter, const struct export_event *event)
{
	struct chrome *c = exporter;
	const struct trace_loss *loss = &c->merge.losses[event->row];
	struct strbuf *s = &c->out;

	strbuf_clear(&c->name);
	strbuf_addf(&c->name, "loss: %s", loss_name(loss->reason));
	open_event(c, "i", "loss", strbuf_text(&c->name), c->name.length,
		   c->view.processes[loss->process].pid, c->view.processes[loss->process].pid,
		   event->start_ns);
	TEXT(s, ",\"s\":\"p\",\"args\":{\"count\":");
	text_u64(s, loss->count);
	TEXT(s, ",\"until\":");
	text_time(c, s, event->end_ns);
	TEXT(s, ",\"detail\":");
	text_string(s, loss->detail, strlen(loss->detail));
	TEXT(s, "}}");
	return 0;
}

static export_writer *const writers[EVENT_KINDS] = {
	[EVENT_LOSS] = loss_event,
	[EVENT_RANGE_VALUES] = range_values_event,
	[EVENT_NVTX] = nvtx_event,
	[EVENT_CALL] = call_event,
	[EVENT_OVERHEAD] = overhead_event,
	[EVENT_ALLOCATION] = allocation_event,
	[EVENT_SYNC] = chrome_sync,
	[EVENT_GPU_RANGE] = chrome_gpu_range,
	[EVENT_WORK... EVENT_CUDA_EVENT - 1] = chrome_work,
	[EVENT_CUDA_EVENT] = chrome_cuda_event,
	[EVENT_COUNTER] = counter_event,
};

int chrome_event(struct chrome *c, const struct export_event *event)
{
	return export_event_write(&c->view, writers, c, event);
}
