/*
 * perfetto_cpu.c: slices and instants of threads and processes: calls, ranges, waits, losses.
 */
#include "export/perfetto/perfetto_writer.h"

#include <errno.h>

#include "export/event_names.h"
#include "export/event_records.h"
#include "trace/columns.h"

/* Interning keys of a track's names: each source has its own range. */
#define KEY_FUNCTION (UINT64_C(1) << 32)
#define KEY_STRING (UINT64_C(2) << 32)
#define KEY_FIXED (UINT64_C(3) << 32)
#define KEY_SCOPE (UINT64_C(4) << 32)

#define IDS_AT_ONCE 64 /* ids written per buffer reservation */

static struct track_name fixed_name(uint32_t number, const char *text)
{
	return (struct track_name){ KEY_FIXED | number, text, strlen(text) };
}

static void annotate_wait(struct perfetto *p, struct strbuf *s, uint64_t row)
{
	const struct synchronization_columns *c = synchronization_columns(p->view.trace);
	const struct event_columns *w = &p->view.work[WORK_SYNC];

	perfetto_annotate(s, ANNOTATION_CONTEXT, w->context[row]);
	if (column_has(w->stream_valid, row))
		perfetto_annotate(s, ANNOTATION_STREAM, w->stream[row]);
	if (column_has(c->valid.event, row))
		perfetto_annotate(s, ANNOTATION_EVENT, c->event[row]);
}

static uint64_t work_duration(const struct export_view *v, uint32_t number)
{
	const struct event_columns *w;
	int kind = WORK_SYNC - 1;
	uint32_t row;

	while (number < v->work_base[kind])
		kind--;
	w = &v->work[kind];
	row = number - v->work_base[kind];
	return w->end_ns[row] - w->start_ns[row];
}

/*
 * Writes the arrows from a call to the work that it launched, and from the work that it waited for.
 * The duration of the launched work is the weight of the call's stack in flame graphs.
 */
static void write_arrows(struct perfetto *p, struct open_slice *slice, uint32_t number,
			 uint32_t process)
{
	struct export_view *v = &p->view;
	struct strbuf *s = slice->out;
	size_t token = proto_open(s, 3000);
	uint64_t gpu_ns = 0;
	unsigned n = 0;

	for (; number != NO_WORK; number = v->next_work[number]) {
		if (n++ % IDS_AT_ONCE == 0)
			raw_reserve(s, (size_t)IDS_AT_ONCE * PROTO_FIELD_MAX);
		if (number < v->work_base[WORK_SYNC]) {
			proto_uint(s, 1, perfetto_event_id(p, number));
			gpu_ns += work_duration(v, number);
			v->result->arrows++;
		} else {
			uint32_t waited =
				sync_dependency(v, process, number - v->work_base[WORK_SYNC]);

			if (waited != NO_WORK)
				proto_uint(s, 2, perfetto_event_id(p, waited));
		}
	}
	proto_close(s, token);
	if (slice->has_stack && gpu_ns)
		proto_double(s, 57, (double)gpu_ns);
}

/* Writes the annotations of a call that synchronized. */
static void annotate_waits(struct perfetto *p, struct strbuf *s, uint32_t number)
{
	struct export_view *v = &p->view;
	const uint8_t *kinds = synchronization_columns(v->trace)->kind;

	for (; number != NO_WORK; number = v->next_work[number]) {
		const char *name;
		uint64_t row;

		if (number < v->work_base[WORK_SYNC])
			continue;
		row = number - v->work_base[WORK_SYNC];
		name = synchronization_name(kinds[row]);
		v->result->written[TABLE_synchronization]++;
		perfetto_annotate_text(s, ANNOTATION_SYNC, name, strlen(name));
		annotate_wait(p, s, row);
	}
}

/* Annotates a slice with the hardware counters of the range or graph launch that it shows. */
static void annotate_range_values(struct perfetto *p, struct strbuf *s, enum table_id table,
				  uint64_t row)
{
	const struct trace *t = p->view.trace;
	uint64_t first;
	unsigned rows = range_values_of(&p->view, table, row, &first);
	uint32_t metric;
	double value;

	if (likely(!rows))
		return;
	perfetto_annotate_passes(s, range_value_columns(t)->passes[first]);
	for (; rows; rows--, first++)
		if (metric_values_read(t, TABLE_range_value, first, &metric, &value))
			perfetto_annotate_metric(
				s, trace_string(t, metric_columns(t)->name[metric]), value);
}

int perfetto_range_values(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct trace *t = p->view.trace;
	uint32_t name = range_value_columns(t)->name[event->row];
	struct slice slice = { .track = TRACK_COUNTERS,
			       .process = event->process,
			       .category = CATEGORY_COUNTERS,
			       .name = { KEY_STRING | name, trace_string(t, name),
					 trace_string_length(t, name) } };
	struct open_slice open;
	int r;

	if (!slice.name.length)
		slice.name = fixed_name(1, NO_MESSAGE);
	r = perfetto_slice_open(p, &slice, event, &open);
	if (r < 0)
		return r;
	annotate_range_values(p, open.out, TABLE_range_value, event->row);
	perfetto_slice_close(&open);
	return EXPORT_UNCOUNTED;
}

int perfetto_call(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	struct export_view *v = &p->view;
	uint64_t row = event->row;
	uint32_t function = v->call->function[row], work = v->first_work[row];
	uint32_t scope = nvtx_path_of_call(&v->ranges, (uint32_t)row);
	struct slice slice = { .track = TRACK_THREAD,
			       .process = event->process,
			       .id = v->call->thread[row],
			       .category = CATEGORY_RUNTIME,
			       .name = fixed_name(0, "CUDA call"),
			       .stack = export_call_stack(v, row) };
	struct open_slice open;
	int r;

	if (likely(function != TRACE_NO_ROW)) {
		slice.name.key = KEY_FUNCTION | function;
		slice.name.text = calls_function_name(v->trace, function, &slice.name.length);
		if (v->function->id[function] >> 16 == 1)
			slice.category = CATEGORY_DRIVER;
	}
	if (scope != SCOPE_NONE) {
		slice.scope.key = KEY_SCOPE | scope;
		slice.scope.text = export_scope(v, scope, &slice.scope.length);
	}
	r = perfetto_slice_open(p, &slice, event, &open);
	if (r < 0)
		return r;
	if (work != NO_WORK)
		write_arrows(p, &open, work, event->process);
	proto_uint(open.out, 3001, PERFETTO_API_CUDA);
	perfetto_annotate_unsigned(open.out, ANNOTATION_CORRELATION, v->call->correlation[row]);
	if (unlikely(v->external.count)) {
		uint64_t key = export_correlation(v, event->process, v->call->correlation[row]), id;

		if (map_get(&v->external, key, &id))
			perfetto_annotate_unsigned(open.out, ANNOTATION_EXTERNAL, id);
	}
	if (v->call->result && column_has(v->call->valid.result, row))
		perfetto_annotate(open.out, ANNOTATION_RESULT, v->call->result[row]);
	if (work != NO_WORK && v->work[WORK_SYNC].rows)
		annotate_waits(p, open.out, work);
	annotate_range_values(p, open.out, TABLE_api_call, row);
	perfetto_slice_close(&open);
	return 0;
}

/* Sets the name and category of a range or mark, given the row that began it. */
static void name_range(const struct export_view *v, struct slice *slice, uint64_t nvtx_row)
{
	struct export_range range;
	bool pitot = export_range(v, slice->process, nvtx_row, &range);

	slice->category = pitot ? CATEGORY_SCOPE : CATEGORY_NVTX;
	slice->name =
		(struct track_name){ KEY_STRING | range.text, trace_string(v->trace, range.text),
				     trace_string_length(v->trace, range.text) };
	if (!slice->name.length)
		slice->name = fixed_name(1, NO_MESSAGE);
}

static void annotate_payload(struct perfetto *p, struct strbuf *s, uint64_t row)
{
	struct nvtx_payload_value value;

	if (!nvtx_payload_value(p->view.trace, row, &value))
		return;
	if (value.type == PAYLOAD_REAL)
		perfetto_annotate_double(s, ANNOTATION_PAYLOAD, value.real);
	else if (value.type == PAYLOAD_UNSIGNED)
		perfetto_annotate_unsigned(s, ANNOTATION_PAYLOAD, value.natural);
	else
		perfetto_annotate(s, ANNOTATION_PAYLOAD, value.integer);
}

static void annotate_range(struct perfetto *p, struct strbuf *s, const struct export_event *event,
			   uint32_t domain)
{
	const struct export_view *v = &p->view;
	struct export_range range;
	size_t length;
	const char *text = nvtx_domain_name(&v->names, event->process, domain, &length);

	if (length)
		perfetto_annotate_text(s, ANNOTATION_DOMAIN, text, length);
	text = nvtx_category_name(&v->names, event->process, event->row, &length);
	if (length)
		perfetto_annotate_text(s, ANNOTATION_CATEGORY, text, length);
	annotate_payload(p, s, event->row);
	export_range(v, event->process, event->row, &range);
	text = export_scope(&p->view, range.continues, &length);
	if (length)
		perfetto_annotate_text(s, ANNOTATION_CONTINUES, text, length);
	if (range.runs) {
		perfetto_annotate(s, ANNOTATION_REPEATS, (uint32_t)range.runs);
		perfetto_annotate(s, ANNOTATION_WARMUPS, (int64_t)(range.runs >> 32));
	}
	if (!event->finished)
		perfetto_annotate(s, ANNOTATION_UNFINISHED, 1);
}

int perfetto_nvtx(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct nvtx_columns *n = nvtx_columns(p->view.trace);
	uint64_t row = event->row;
	bool crosses_threads = n->kind[row] == nvtx_kind_start;
	struct slice slice = { .track = crosses_threads ? TRACK_RANGES : TRACK_THREAD,
			       .process = event->process,
			       .id = crosses_threads ? n->domain[row] : n->thread[row],
			       .instant = n->kind[row] == nvtx_kind_mark };
	struct open_slice open;
	int r;

	name_range(&p->view, &slice, row);
	r = perfetto_slice_open(p, &slice, event, &open);
	if (r < 0)
		return r;
	annotate_range(p, open.out, event, n->domain[row]);
	annotate_range_values(p, open.out, TABLE_nvtx, row);
	perfetto_slice_close(&open);
	return 0;
}

int perfetto_gpu_range(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct gpu_range *range = &p->merge.gpu_ranges.items.data[event->row];
	uint64_t queue =
		perfetto_queue(p, range->process, range->context, range->stream, range->device,
			       gpus_find(&p->view.gpus, range->process, range->device));
	struct slice slice = { .track = TRACK_GPU_RANGES,
			       .process = range->process,
			       .id = (uint32_t)queue };
	struct open_slice open;
	int r;

	name_range(&p->view, &slice, range->nvtx_row);
	r = queue == UINT64_MAX ? -ENOMEM : perfetto_slice_open(p, &slice, event, &open);
	if (r >= 0)
		perfetto_slice_close(&open);
	return r == -ENOMEM ? r : EXPORT_UNCOUNTED;
}

/* Whether a synchronization is shown by its call. */
static bool shown_by_call(const struct export_view *v, uint64_t row)
{
	uint32_t call = work_call(v, &v->work[WORK_SYNC], row);

	return call != TRACE_NO_ROW && call_is_selected(v, call);
}

int perfetto_sync(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct export_view *v = &p->view;
	uint8_t kind = synchronization_columns(v->trace)->kind[event->row];
	struct slice slice = { .track = TRACK_SYNC,
			       .process = event->process,
			       .category = CATEGORY_SYNC,
			       .name = fixed_name(kind, synchronization_name(kind)) };
	struct open_slice open;
	int r;

	if (shown_by_call(v, event->row))
		return EXPORT_UNCOUNTED;
	r = perfetto_slice_open(p, &slice, event, &open);
	if (r < 0)
		return r;
	annotate_wait(p, open.out, event->row);
	perfetto_annotate(open.out, ANNOTATION_CORRELATION,
			  (int64_t)v->work[WORK_SYNC].correlation[event->row]);
	perfetto_slice_close(&open);
	return 0;
}

int perfetto_overhead(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct overhead_columns *o = overhead_columns(p->view.trace);
	uint8_t kind = o->kind[event->row];
	struct slice slice = { .track = TRACK_OVERHEAD,
			       .process = event->process,
			       .category = CATEGORY_OVERHEAD,
			       .name = fixed_name(kind, overhead_name(kind)) };
	struct open_slice open;
	int r = perfetto_slice_open(p, &slice, event, &open);

	if (r < 0)
		return r;
	if (column_has(o->valid.thread, event->row))
		perfetto_annotate(open.out, ANNOTATION_THREAD, o->thread[event->row]);
	perfetto_slice_close(&open);
	return 0;
}

int perfetto_allocation(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct allocation_columns *a = allocation_columns(p->view.trace);
	uint64_t row = event->row;
	uint8_t operation = a->operation[row];
	struct slice slice = { .track = TRACK_MEMORY,
			       .process = event->process,
			       .category = CATEGORY_MEMORY,
			       .name = fixed_name(operation, allocation_name(operation)),
			       .instant = true };
	struct open_slice open;
	int r = perfetto_slice_open(p, &slice, event, &open);

	if (r < 0)
		return r;
	perfetto_annotate(open.out, ANNOTATION_DEVICE, a->device[row]);
	if (column_has(a->valid.bytes, row))
		perfetto_annotate_unsigned(open.out, ANNOTATION_BYTES, a->bytes[row]);
	perfetto_annotate_unsigned(open.out, ANNOTATION_ADDRESS, a->address[row]);
	perfetto_annotate_unsigned(open.out, ANNOTATION_CORRELATION, a->correlation[row]);
	perfetto_slice_close(&open);
	return 0;
}

int perfetto_loss(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct trace_loss *loss = &p->merge.losses[event->row];
	struct slice slice = { .track = TRACK_LOSS,
			       .process = (uint32_t)loss->process,
			       .category = CATEGORY_LOSS,
			       .name = fixed_name(loss->reason, loss_name(loss->reason)),
			       .instant = event->start_ns == event->end_ns };
	struct open_slice open;
	int r = perfetto_slice_open(p, &slice, event, &open);

	if (r < 0)
		return r;
	if (loss->count)
		perfetto_annotate(open.out, ANNOTATION_COUNT, (int64_t)loss->count);
	if (loss->detail[0])
		perfetto_annotate_text(open.out, ANNOTATION_DETAIL, loss->detail,
				       strlen(loss->detail));
	perfetto_slice_close(&open);
	return 0;
}
