#include "export/perfetto/perfetto_rows.h"

#include <errno.h>
#include <stdio.h>

#include "export/event_records.h"
#include "trace/columns.h"

#define IDS_AT_ONCE 64 /* ids written per buffer reservation */
#define CONTEXTS_MAX 65536 /* per process */

static struct row_feed *feed_of(struct perfetto *p, size_t process)
{
	return &p->feeds[p->view.processes[process].owner];
}

/* --- texts --- */

/*
 * Appends "Stream 7", after the process if several use GPUs, and with the context if streams are
 * ambiguous. Readers sort by text, so a blank puts 7 before 13.
 */
static void queue_title(const struct perfetto *p, uint32_t context, uint32_t stream,
			struct strbuf *text)
{
	if (p->view.gpu_process == NO_PROCESS)
		strbuf_addf(text, "%s ", p->view.processes[p->process].title);
	if (p->view.many_contexts)
		strbuf_addf(text, "Context %u ", context);
	strbuf_addf(text, "Stream %*u", p->stream_width, stream);
}

static void add_text(void *user, enum perfetto_text which, uint32_t context, uint32_t stream,
		     struct strbuf *text)
{
	struct perfetto *p = user;

	if (which == PERFETTO_TEXT_QUEUE)
		queue_title(p, context, stream, text);
	else
		event_name(text, p->view.trace, p->event);
}

/* --- stacks: a frame's number is its index << 32 | line, from the innermost function on --- */

static int find_stack(void *user, uint32_t stack, bool of_call, struct perfetto_frames *frames)
{
	struct perfetto *p = user;
	struct export_stacks *x = &p->stacks;

	if (export_stacks_find(x, p->process, stack, of_call) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < x->frames.count; i++) {
		uint64_t frame = x->frames.data[i];

		for (uint32_t line = MAX(x->stacks.frames.data[frame].line_count, 1u); line-- > 0;)
			if (vec_push(&frames->items, frame << 32 | line) < 0)
				return -ENOMEM;
	}
	return 0;
}

static struct perfetto_mapping module_mapping(const struct perfetto *p, uint32_t row)
{
	const struct module_columns *m = module_columns(p->view.trace);
	size_t length;

	return (struct perfetto_mapping){
		.path = export_text(&p->view, TABLE_module, COLUMN_module_path, row, &length),
		.build_id =
			export_text(&p->view, TABLE_module, COLUMN_module_build_id, row, &length),
		.start = m->start_address[row],
		.end = m->end_address[row],
		.offset = m->file_offset[row],
		.bias = m->load_bias[row],
	};
}

static void describe_frame(void *user, uint64_t number, struct perfetto_frame_text *text)
{
	static const struct {
		const char *mapping;
		int kind;
	} classes[] = {
		[FRAME_PYTHON] = { "[python]", KIND_INTERPRETED },
		[FRAME_SYSTEM] = { "[kernel]", KIND_SYSTEM },
	};
	const struct perfetto *p = user;
	const struct stacks *stacks = &p->stacks.stacks;
	const struct stack_frame *f = &stacks->frames.data[number >> 32];
	const struct stack_line *line =
		f->line_count ? &stacks->lines.data[f->first_line + (uint32_t)number] : NULL;

	text->function = stacks_text(stacks, line ? line->function : f->name);
	text->source = line ? stacks_text(stacks, line->file) : "";
	text->line = line ? line->line : 0;
	text->address = f->address;
	text->kind = f->class == FRAME_NOTE ? 0 : KIND_NATIVE;
	text->mapping.path = "[unknown]";
	if (f->class < ARRAY_SIZE(classes) && classes[f->class].kind) {
		text->kind = classes[f->class].kind;
		text->mapping.path = classes[f->class].mapping;
	}
	if (f->module == TRACE_NO_ROW)
		return;
	text->mapping = module_mapping(p, f->module);
	if (f->address)
		text->address -= text->mapping.bias;
}

static bool read_device(void *user, uint32_t gpu, struct row_device *row)
{
	const struct perfetto *p = user;
	bool is_known = gpu < p->view.gpus.count && p->view.gpus.items[gpu].row != TRACE_NO_ROW;

	if (is_known)
		trace_row(p->view.trace, TABLE_device, p->view.gpus.items[gpu].row, row);
	return is_known;
}

/* --- sinks --- */

static int count_digits(const struct trace *t)
{
	const uint32_t *ids = stream_columns(t)->id;
	uint64_t rows = trace_rows(t, TABLE_stream);
	uint32_t most = 0;

	for (uint64_t row = 0; row < rows; row++)
		most = MAX(most, ids[row]);
	return snprintf(NULL, 0, "%u", most);
}

/* Appends the threads of a process, with the names that exports show. */
static void append_threads(struct perfetto *p, size_t process)
{
	const struct trace *t = p->view.trace;
	const uint32_t *tids = thread_columns(t)->tid;
	uint64_t key = (uint64_t)process << 32, row, shown;

	for (size_t i = 0; i < p->view.process_count; i++) {
		if (p->view.processes[i].owner != process)
			continue;
		for (row = trace_first_row(t, TABLE_thread, i);
		     row < trace_first_row(t, TABLE_thread, i + 1); row++)
			if (map_get(&p->view.thread_names, key | tids[row], &shown) && shown == row)
				row_feed_append(&p->feeds[process], TABLE_thread, row);
	}
}

static void append_definitions(struct perfetto *p, size_t process)
{
	static const enum table_id tables[] = { TABLE_device, TABLE_context, TABLE_nvtx_domain,
						TABLE_metric };
	const struct trace_process *info = trace_process(p->view.trace, process);
	struct row_feed *feed = &p->feeds[process];
	struct row_process row = { .missing = schema_missing(TABLE_process),
				   .pid = p->view.processes[process].pid,
				   .parent_pid = info->parent_pid,
				   .source = process_source_inside,
				   .command = row_feed_text(feed, 0, info->command) };

	feed->sink->ops->append(feed->sink, TABLE_process, &row);
	append_threads(p, process);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		row_feed_table(feed, tables[i], process);
}

static int open_sink(struct perfetto *p, size_t process)
{
	const struct trace_process *info = trace_process(p->view.trace, process);
	const struct export_process *x = &p->view.processes[process];
	struct sink *sink = perfetto_sink_new(&(struct perfetto_sink_options){
		.export = &p->export,
		.rows = &p->rows,
		.seed = hash_u64(info->session),
		.name = x->name,
		.title = x->pid == info->pid ? x->label : x->title,
		.context_base = (uint32_t)process * CONTEXTS_MAX,
	});

	if (!sink || row_feed_init(&p->feeds[process], p->view.trace, sink) < 0)
		return -ENOMEM;
	append_definitions(p, process);
	return 0;
}

int perfetto_feeds_init(struct perfetto *p)
{
	uint64_t seed = 1;
	int err = 0;

	/*
	 * The base is unlikely to occur in another trace, in case traces are concatenated. Ids of
	 * work are in every event, so they are kept to 35 bits.
	 */
	for (size_t i = 0; i < p->view.process_count; i++)
		seed = hash_u64(seed ^ trace_process(p->view.trace, i)->session);
	p->event_base = seed >> 29;
	p->stream_width = count_digits(p->view.trace);
	p->rows = PERFETTO_WORK | PERFETTO_CALLS | PERFETTO_RANGES | PERFETTO_COUNTERS |
		  PERFETTO_METRICS | PERFETTO_SAMPLES | PERFETTO_RANGE_METRICS;
	p->export = (struct perfetto_export){
		.out = &p->out,
		.sequences = PERFETTO_SEQUENCE,
		.user = p,
		.text = add_text,
		.find_stack = find_stack,
		.describe_frame = describe_frame,
		.device = read_device,
	};
	p->feeds = calloc(p->view.process_count + 1, sizeof(*p->feeds));
	if (!p->feeds)
		return -ENOMEM;
	for (size_t i = 0; i < p->view.process_count && err >= 0; i++)
		if (p->view.processes[i].owner == i)
			err = open_sink(p, i);
	return err;
}

void perfetto_feeds_release(struct perfetto *p)
{
	for (size_t i = 0; p->feeds && i < p->view.process_count; i++) {
		if (p->feeds[i].sink)
			p->feeds[i].sink->ops->abandon(p->feeds[i].sink);
		row_feed_release(&p->feeds[i]);
	}
	free(p->feeds);
	map_release(&p->export.shared.kernel_names);
	map_release(&p->levels);
}

/* --- GPUs --- */

/* Appends "NVIDIA H200", numbered if there are several, because readers show only the name. */
static void gpu_title(const struct perfetto *p, size_t index, struct strbuf *text)
{
	const struct gpu *gpus = p->view.gpus.items;
	unsigned before = 0, all = 0;

	for (size_t i = 0; i < p->view.gpus.count; i++) {
		bool same = !strcmp(gpus[i].name, gpus[index].name);

		before += same && i < index;
		all += same;
	}
	strbuf_adds(text, gpus[index].name);
	if (all > 1)
		strbuf_addf(text, " #%u", before);
}

static void describe_gpu(struct perfetto *p, size_t index)
{
	_cleanup_strbuf_ struct strbuf title = STRBUF_INIT;
	const struct gpu *gpu = &p->view.gpus.items[index];
	struct perfetto_gpu g = { .name = gpu->name, .uuid = gpu->uuid };
	struct row_device device;
	size_t length;

	if (!read_device(p, (uint32_t)index, &device)) {
		perfetto_gpu_info_add(&p->out, NULL);
		return;
	}
	gpu_title(p, index, &title);
	g.device = &device;
	g.display_name = strbuf_text(&title);
	g.pci = export_text(&p->view, TABLE_device, COLUMN_device_pci, gpu->row, &length);
	perfetto_gpu_info_add(&p->out, &g);
}

void perfetto_describe_gpus(struct perfetto *p)
{
	struct perfetto_packet head = { p->time_ns, PERFETTO_MONOTONIC, PERFETTO_SEQUENCE, 0 };
	size_t packet, info;

	if (!p->view.gpus.count)
		return;
	packet = perfetto_gpu_info_open(&p->out, &head, &info);
	for (size_t i = 0; i < p->view.gpus.count; i++)
		describe_gpu(p, i);
	proto_close(&p->out, info);
	proto_close(&p->out, packet);
}

/* --- events --- */

typedef void annotator(void *user, struct open_slice *slice);

/* Appends an event's row to the sink of its process. Returns the row's result. */
static int append(struct perfetto *p, const struct export_event *event, annotator *annotate)
{
	p->event = event;
	p->process = event->process;
	p->export.annotate = annotate;
	row_feed_append(feed_of(p, event->process), event_table(event->kind), event->row);
	return p->export.rc;
}

/* Appends the hardware counters of a kernel, if it was measured. */
static void append_metrics(struct perfetto *p, const struct export_event *event)
{
	uint64_t correlation = kernel_columns(p->view.trace)->correlation[event->row], row = 0;
	unsigned rows = metric_values_take(&p->view.metrics, event->process, correlation, &row);
	uint32_t metric;
	double value;

	for (; rows; rows--, row++)
		if (metric_values_read(p->view.trace, TABLE_metric_value, row, &metric, &value))
			row_feed_append(feed_of(p, event->process), TABLE_metric_value, row);
}

/* Finds the member of a collective for which a kernel waited, if that is exported. */
static void find_wait(struct perfetto *p, const struct event_columns *w, uint64_t row)
{
	const struct collective_link *link = collective_link_of(&p->links, row);

	if (!link || !link->wait_ns || !work_is_selected(&p->view, w, link->last))
		return;
	p->export.waited_for = perfetto_work_id(p, work_number(&p->view, w, link->last));
	p->export.waited_ns = link->wait_ns;
}

int perfetto_gpu_work(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct event_columns *w = event_work(&p->view, event->kind);

	p->export.event_id = perfetto_work_id(p, work_number(&p->view, w, event->row));
	p->export.gpu = event->gpu;
	p->export.waited_for = 0;
	if (event->kind == EVENT_KERNEL) {
		append_metrics(p, event);
		find_wait(p, w, event->row);
	}
	if (!w->launches || w->launches[event->row] == TRACE_NO_ROW)
		p->view.result->unlinked++;
	return append(p, event, NULL);
}

int perfetto_cuda_event(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	uint64_t base = p->view.work_base[WORK_SYNC] + p->view.work[WORK_SYNC].rows;

	p->export.event_id = perfetto_work_id(p, base + event->row);
	p->export.waited_for = 0;
	p->export.gpu = event->gpu;
	return append(p, event, NULL);
}

int perfetto_counter_sample(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct counter_sample_columns *c = counter_sample_columns(p->view.trace);
	struct export_event sample = *event;

	if (c->counter[event->row] == TRACE_NO_ROW)
		return EXPORT_UNCOUNTED;
	if (column_has(c->valid.device, event->row)) {
		p->export.gpu =
			(uint32_t)gpus_find(&p->view.gpus, event->process, c->device[event->row]);
		sample.process = 0; /* processes that read a GPU share its counters */
	}
	return append(p, &sample, NULL);
}

int perfetto_sample(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;

	p->export.session = event->process;
	return append(p, event, NULL);
}

int perfetto_overhead(void *exporter, const struct export_event *event)
{
	return append(exporter, event, NULL);
}

#define LEVEL_NUMBER 16u /* of the first text and counter of a level of memory */

/* The level of memory after an event, as a reading of a counter of the process. */
static int append_level(struct perfetto *p, const struct export_event *event)
{
	const struct allocation_columns *a = allocation_columns(p->view.trace);
	struct row_feed *feed = feed_of(p, event->process);
	uint32_t number = LEVEL_NUMBER + (a->device[event->row] % 64 << 8 | a->kind[event->row]);
	struct row_counter counter = { .id = UINT32_MAX - number };
	struct row_counter_sample sample = { .time_ns = event->start_ns,
					     .counter = counter.id,
					     .value = (int64_t)p->view.memory_levels[event->row] };
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;
	int is_new;

	ROW_MISSING(&sample, counter_sample, device, thread);
	is_new = map_add(&p->levels, (uint64_t)event->process << 32 | number);
	if (is_new < 0)
		return is_new;
	if (is_new) {
		export_memory_name(&p->view, event->process, event->row, &name);
		counter.name = row_feed_text(feed, number, strbuf_text(&name));
		counter.unit = row_feed_text(feed, LEVEL_NUMBER - 1, "bytes");
		counter.description = counter.name;
		ROW_MISSING(&counter, counter, reading, kind);
		feed->sink->ops->append(feed->sink, TABLE_counter, &counter);
	}
	feed->sink->ops->append(feed->sink, TABLE_counter_sample, &sample);
	return p->export.rc;
}

int perfetto_allocation(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	int rc = p->view.memory_levels[event->row] == NO_LEVEL ? 0 : append_level(p, event);

	return rc < 0 ? rc : append(exporter, event, NULL);
}

int perfetto_loss(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct trace_loss *loss = &p->merge.losses[event->row];
	struct row_feed *feed = feed_of(p, loss->process);
	struct row_loss row = { .reason = (uint8_t)loss->reason,
				.count = loss->count,
				.start_ns = event->start_ns,
				.end_ns = event->end_ns };

	if (!feed->sink)
		return EXPORT_UNCOUNTED;
	row.detail = row_feed_text(feed, 1, loss->detail);
	p->export.annotate = NULL;
	feed->sink->ops->append(feed->sink, TABLE_loss, &row);
	return p->export.rc;
}

/* --- measured ranges --- */

/* Annotates a slice with the hardware counters of the range or graph launch that it shows. */
static void annotate_range_values(void *user, struct open_slice *slice)
{
	struct perfetto *p = user;
	const struct trace *t = p->view.trace;
	uint64_t first;
	unsigned rows =
		range_values_of(&p->view, event_table(p->event->kind), p->event->row, &first);
	uint32_t metric;
	double value;

	if (likely(!rows))
		return;
	perfetto_annotate_passes(slice->out, range_value_columns(t)->passes[first]);
	for (; rows; rows--, first++)
		if (metric_values_read(t, TABLE_range_value, first, &metric, &value))
			perfetto_annotate_metric(slice->out,
						 trace_string(t, metric_columns(t)->name[metric]),
						 value);
}

int perfetto_range_values(void *exporter, const struct export_event *event)
{
	int rc = append(exporter, event, annotate_range_values);

	return rc < 0 ? rc : EXPORT_UNCOUNTED;
}

/* --- calls --- */

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
static void write_arrows(struct perfetto *p, struct open_slice *slice, uint32_t number)
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
			proto_uint(s, 1, perfetto_work_id(p, number));
			gpu_ns += work_duration(v, number);
			v->result->arrows++;
		} else {
			uint32_t waited =
				sync_dependency(v, p->process, number - v->work_base[WORK_SYNC]);

			if (waited != NO_WORK)
				proto_uint(s, 2, perfetto_work_id(p, waited));
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
	struct row_synchronization row;

	for (; number != NO_WORK; number = v->next_work[number]) {
		const char *name;

		if (number < v->work_base[WORK_SYNC])
			continue;
		row_feed_read(feed_of(p, p->process), TABLE_synchronization,
			      number - v->work_base[WORK_SYNC], &row);
		name = synchronization_name(row.kind);
		v->result->written[TABLE_synchronization]++;
		perfetto_annotate_text(s, ANNOTATION_SYNC, name, strlen(name));
		perfetto_annotate_wait(s, &row);
	}
}

static void annotate_call(void *user, struct open_slice *slice)
{
	struct perfetto *p = user;
	struct export_view *v = &p->view;
	uint64_t row = p->event->row, id;
	uint32_t work = v->first_work[row];

	if (work != NO_WORK)
		write_arrows(p, slice, work);
	if (unlikely(v->external.count) &&
	    map_get(&v->external, export_correlation(v, p->process, v->call->correlation[row]),
		    &id))
		perfetto_annotate_unsigned(slice->out, ANNOTATION_EXTERNAL, id);
	if (work != NO_WORK && v->work[WORK_SYNC].rows)
		annotate_waits(p, slice->out, work);
	annotate_range_values(p, slice);
	perfetto_path_add_flow(p, row, slice->out);
}

int perfetto_call(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	struct track_name *scope = &p->export.scope;
	uint32_t path = nvtx_path_of_call(&p->view.ranges, (uint32_t)event->row);

	uint32_t function = p->view.call->function[event->row];

	p->export.is_driver_call =
		function != TRACE_NO_ROW && p->view.function->id[function] >> 16 == 1;
	*scope = (struct track_name){ .key = path };
	if (path != SCOPE_NONE)
		scope->text = export_scope(&p->view, path, &scope->length);
	return append(p, event, annotate_call);
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

	return shown_by_call(&p->view, event->row) ? EXPORT_UNCOUNTED : append(p, event, NULL);
}

/* --- ranges --- */

static void annotate_payload(const struct perfetto *p, struct strbuf *s)
{
	struct nvtx_payload_value value;

	if (!nvtx_payload_value(p->view.trace, p->event->row, &value))
		return;
	if (value.type == PAYLOAD_REAL)
		perfetto_annotate_double(s, ANNOTATION_PAYLOAD, value.real);
	else if (value.type == PAYLOAD_UNSIGNED)
		perfetto_annotate_unsigned(s, ANNOTATION_PAYLOAD, value.natural);
	else
		perfetto_annotate(s, ANNOTATION_PAYLOAD, value.integer);
}

static void annotate_range(void *user, struct open_slice *slice)
{
	struct perfetto *p = user;
	const struct export_event *event = p->event;
	struct strbuf *s = slice->out;
	struct export_range range;
	size_t length;
	const char *text = nvtx_category_name(&p->view.names, event->process, event->row, &length);

	if (length)
		perfetto_annotate_text(s, ANNOTATION_CATEGORY, text, length);
	annotate_payload(p, s);
	export_range(&p->view, event->process, event->row, &range);
	text = export_scope(&p->view, range.continues, &length);
	if (length)
		perfetto_annotate_text(s, ANNOTATION_CONTINUES, text, length);
	if (range.runs) {
		perfetto_annotate(s, ANNOTATION_REPEATS, (uint32_t)range.runs);
		perfetto_annotate(s, ANNOTATION_WARMUPS, (int64_t)(range.runs >> 32));
	}
	if (!event->finished)
		perfetto_annotate(s, ANNOTATION_UNFINISHED, 1);
	annotate_range_values(p, slice);
}

/* Appends a row of table nvtx, with the name that exports show. */
static int append_range(struct perfetto *p, const struct export_event *event, uint32_t process,
			uint64_t row, const struct perfetto_stream *stream)
{
	struct row_feed *feed = feed_of(p, process);
	struct export_range range;
	struct row_nvtx r;

	p->event = event;
	p->process = process;
	row_feed_read(feed, TABLE_nvtx, row, &r);
	export_range(&p->view, process, row, &range);
	row_feed_refer(feed, TABLE_string, range.text);
	r.message = range.text;
	ROW_PRESENT(&r, nvtx, message);
	p->export.start_ns = event->start_ns;
	p->export.end_ns = event->end_ns;
	p->export.stream = stream;
	p->export.annotate = stream ? NULL : annotate_range;
	feed->sink->ops->append(feed->sink, TABLE_nvtx, &r);
	return p->export.rc;
}

int perfetto_nvtx(void *exporter, const struct export_event *event)
{
	return append_range(exporter, event, event->process, event->row, NULL);
}

int perfetto_gpu_range(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct gpu_range *range = &p->merge.gpu_ranges.items.data[event->row];
	struct perfetto_stream stream = { range->context, range->stream };
	int rc = append_range(p, event, range->process, range->nvtx_row, &stream);

	return rc == -ENOMEM ? rc : EXPORT_UNCOUNTED;
}
