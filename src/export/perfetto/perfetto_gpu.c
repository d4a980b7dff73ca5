/* perfetto_gpu.c: GPUs and GPU work. */
#include <errno.h>
#include <stdio.h>

#include "export/perfetto/perfetto_writer.h"
#include "names/demangle.h"
#include "trace/columns.h"

void perfetto_gpus_release(struct perfetto *p)
{
	perfetto_works_release(&p->gpus.works);
	strbuf_release(&p->gpus.text);
	strbuf_release(&p->gpus.demangled);
}

static int stream_width(const struct trace *t)
{
	const uint32_t *ids = stream_columns(t)->id;
	uint64_t rows = trace_rows(t, TABLE_stream);
	uint32_t most = 0;

	for (uint64_t row = 0; row < rows; row++)
		most = MAX(most, ids[row]);
	return snprintf(NULL, 0, "%u", most);
}

/* Returns "NVIDIA H200", numbered if there are several, because readers show only the name. */
static const char *gpu_name(struct perfetto *p, size_t index)
{
	const struct gpu *gpus = p->view.gpus.items;
	struct strbuf *text = &p->gpus.text;
	unsigned before = 0, all = 0;

	for (size_t i = 0; i < p->view.gpus.count; i++) {
		bool same = !strcmp(gpus[i].name, gpus[index].name);

		before += same && i < index;
		all += same;
	}
	strbuf_clear(text);
	strbuf_adds(text, gpus[index].name);
	if (all > 1)
		strbuf_addf(text, " #%u", before);
	return strbuf_text(text);
}

static void describe_gpu(struct perfetto *p, size_t index)
{
	const struct gpu *gpu = &p->view.gpus.items[index];
	struct perfetto_gpu g = { .name = gpu->name, .uuid = gpu->uuid };
	struct row_device device;
	size_t length;

	if (gpu->row == TRACE_NO_ROW) {
		perfetto_gpu_info_add(&p->out, NULL);
		return;
	}
	trace_row(p->view.trace, TABLE_device, gpu->row, &device);
	g.device = &device;
	g.display_name = gpu_name(p, index);
	g.pci = export_text(&p->view, TABLE_device, COLUMN_device_pci, gpu->row, &length);
	perfetto_gpu_info_add(&p->out, &g);
}

/* Defines the argument names: the fixed ones, then those of the hardware metrics. */
static void name_arguments(void *user, struct strbuf *s)
{
	struct perfetto *p = user;
	size_t length;

	for (uint64_t row = 0; row < trace_rows(p->view.trace, TABLE_metric); row++) {
		const char *name =
			export_text(&p->view, TABLE_metric, COLUMN_metric_name, row, &length);

		perfetto_intern_name(s, DATA_ARGUMENT_NAMES, ARG_END + row, name, length);
	}
}

void perfetto_gpus_restart(struct perfetto *p)
{
	struct perfetto_packet head = { p->time_ns, PERFETTO_MONOTONIC, SEQUENCE_GLOBAL, 0 };
	size_t packet, info;

	p->gpus.stream_width = stream_width(p->view.trace);
	perfetto_works_restart(&p->gpus.works, SEQUENCE_GPU);
	p->gpus.works.name_arguments = name_arguments;
	p->gpus.works.user = p;
	if (!p->view.gpus.count)
		return;
	packet = perfetto_gpu_info_open(&p->out, &head, &info);
	for (size_t i = 0; i < p->view.gpus.count; i++)
		describe_gpu(p, i);
	proto_close(&p->out, info);
	proto_close(&p->out, packet);
}

uint64_t perfetto_queue(struct perfetto *p, uint32_t process, uint32_t context, uint32_t stream,
			uint32_t device, size_t gpu)
{
	struct gpu_queue queue = { .gpu = (uint32_t)gpu, .context = context, .stream = stream };

	return perfetto_works_queue(&p->gpus.works, (uint64_t)process << 32 | context, &queue,
				    device);
}

/*
 * Returns "Stream 7", after the process if several use GPUs, and with the context if streams are
 * ambiguous. Readers sort by text, so a blank puts 7 before 13.
 */
const char *perfetto_queue_name(struct perfetto *p, uint32_t process, uint64_t position)
{
	const struct gpu_queue *queue = &p->gpus.works.queues.data[position];
	struct strbuf *text = &p->gpus.text;

	strbuf_clear(text);
	if (p->view.gpu_process == NO_PROCESS)
		strbuf_addf(text, "%s ", p->view.processes[process].title);
	if (p->view.many_contexts)
		strbuf_addf(text, "Context %u ", queue->context);
	strbuf_addf(text, "Stream %*u", p->gpus.stream_width, queue->stream);
	return strbuf_text(text);
}

/*
 * Appends the stage name to the queue's name in p->gpus.text. A kernel gets its short name unless
 * another kernel has the same one.
 */
static void stage_name(struct perfetto *p, const struct export_event *event, uint64_t class)
{
	const struct trace *t = p->view.trace;
	struct strbuf *text = &p->gpus.text;
	size_t from = text->length;

	if (p->gpus.works.classes.data[class].kernel_iid) {
		kernel_name_short(event_label(t, TABLE_kernel, event->row), text);
		if (perfetto_works_claim_name(&p->gpus.works, class, strbuf_text(text) + from,
					      text->length - from))
			return;
		text->length = from;
		strbuf_adds(text, strbuf_text(&p->gpus.demangled));
	} else if (event->kind == EVENT_CUDA_EVENT) {
		strbuf_adds(text, "Event record");
	} else if (event->kind == EVENT_GRAPH) {
		strbuf_adds(text, "CUDA graph");
	} else {
		event_name(text, t, event);
	}
}

static void metric_arguments(struct perfetto *p, uint64_t first, unsigned rows)
{
	uint32_t metric;
	double value;

	for (uint64_t row = first; row < first + rows; row++)
		if (metric_values_read(p->view.trace, TABLE_metric_value, row, &metric, &value))
			perfetto_argument_double(&p->out, IN_LAUNCH, ARG_END + metric, value);
}

static void describe_kernel(struct perfetto *p, const struct export_event *event, uint32_t gpu,
			    struct row_kernel_config *config, struct row_device *device,
			    struct perfetto_kernel *kernel)
{
	const struct trace *t = p->view.trace;
	uint32_t device_row = p->view.gpus.items[gpu].row;

	trace_row(t, TABLE_kernel_config, kernel_columns(t)->config[event->row], config);
	if (device_row != TRACE_NO_ROW)
		trace_row(t, TABLE_device, device_row, device);
	strbuf_clear(&p->gpus.demangled);
	demangle(trace_string(t, config->name), &p->gpus.demangled);
	*kernel = (struct perfetto_kernel){
		.name = trace_string(t, config->name),
		.name_length = trace_string_length(t, config->name),
		.demangled = strbuf_text(&p->gpus.demangled),
		.demangled_length = p->gpus.demangled.length,
		.config = config,
		.device = device_row == TRACE_NO_ROW ? NULL : device,
		.pid = p->view.processes[event->process].pid,
		.process = p->view.processes[event->process].name,
	};
}

/* Opens the first packet of a queue or class in this file, and defines it there. */
static void open_described(struct perfetto *p, const struct export_event *event,
			   const struct perfetto_work *work, struct open_work *open)
{
	struct perfetto_works *g = &p->gpus.works;
	struct perfetto_work_texts texts = { .pid = p->view.processes[event->process].pid };
	struct row_kernel_config config;
	struct row_device device;
	size_t stage;

	if (g->classes.data[work->class].kernel_iid)
		describe_kernel(p, event, g->queues.data[work->queue].gpu, &config, &device,
				&texts.kernel);
	perfetto_queue_name(p, event->process, work->queue);
	strbuf_addc(&p->gpus.text, '\0');
	stage = p->gpus.text.length;
	stage_name(p, event, work->class);
	texts.queue = strbuf_text(&p->gpus.text);
	texts.stage = texts.queue + stage;
	texts.stage_length = p->gpus.text.length - stage;
	perfetto_work_open(g, &p->out, work, &texts, open);
}

/* Opens the packet of an event up to the arguments of its launch. Returns 0 or -ENOMEM. */
static int open_work(struct perfetto *p, const struct export_event *event, uint64_t event_id,
		     uint64_t queue, uint64_t class, struct open_work *open)
{
	struct perfetto_work work = {
		.start_ns = event->start_ns,
		.duration_ns = event->kind == EVENT_CUDA_EVENT ? PERFETTO_NO_TIME
							       : event->end_ns - event->start_ns,
		.event_id = event_id,
		.queue = queue,
		.class = class,
	};

	if (queue == UINT64_MAX || class == UINT64_MAX)
		return -ENOMEM;
	if (likely(perfetto_works_defined(&p->gpus.works, queue, class)))
		perfetto_work_open(&p->gpus.works, &p->out, &work, NULL, open);
	else
		open_described(p, event, &work, open);
	return 0;
}

/* Returns the stage number of work other than a known kernel. */
static uint64_t other_stage(const struct trace *t, const struct export_event *event)
{
	const struct memcpy_columns *c = memcpy_columns(t);
	uint64_t row = event->row;

	switch (event->kind) {
	case EVENT_KERNEL:
		return STAGE_UNKNOWN_KERNEL;
	case EVENT_MEMCPY:
		return perfetto_copy_stage(c->kind[row], c->source_kind[row],
					   c->destination_kind[row]);
	case EVENT_MEMSET:
		return STAGE_MEMSETS + memset_columns(t)->memory_kind[row];
	case EVENT_GRAPH:
		return STAGE_GRAPH;
	case EVENT_CUDA_EVENT:
		return STAGE_EVENT;
	default:
		return STAGE_LABELS + ((uint64_t)event->kind << 32 |
				       event_label_key(t, event_table(event->kind), row));
	}
}

/* Finds or adds the class of a configuration on a GPU. */
static uint64_t kernel_class(struct perfetto *p, uint32_t config, size_t gpu)
{
	uint64_t key = (uint64_t)gpu << 32 | config, position;
	struct row_kernel_config row;

	if (map_get(&p->gpus.works.class_index, key, &position))
		return position;
	trace_row(p->view.trace, TABLE_kernel_config, config, &row);
	return perfetto_works_kernel(&p->gpus.works, key, &row);
}

static uint64_t class_of(struct perfetto *p, const struct export_event *event, size_t gpu)
{
	uint32_t config = TRACE_NO_ROW;

	if (event->kind == EVENT_KERNEL)
		config = kernel_columns(p->view.trace)->config[event->row];
	if (config != TRACE_NO_ROW)
		return kernel_class(p, config, gpu);
	return perfetto_works_class(&p->gpus.works, other_stage(p->view.trace, event));
}

static void work_arguments(struct perfetto *p, const struct export_event *event,
			   const struct event_columns *w)
{
	const struct trace *t = p->view.trace;
	const struct memcpy_columns *copies = memcpy_columns(t);
	const struct memset_columns *sets = memset_columns(t);
	struct strbuf *s = &p->out;
	uint64_t row = event->row;

	if (w->correlation)
		perfetto_argument_unsigned(s, IN_LAUNCH, ARG_CORRELATION, w->correlation[row]);
	if (w->graph && column_has(w->graph_valid, row))
		perfetto_argument(s, IN_LAUNCH, ARG_GRAPH, w->graph[row]);
	if (w->graph_node && column_has(w->graph_node_valid, row))
		perfetto_argument_unsigned(s, IN_LAUNCH, ARG_GRAPH_NODE, w->graph_node[row]);
	if (event->kind == EVENT_MEMCPY && column_has(copies->valid.bytes, row))
		perfetto_argument_unsigned(s, IN_LAUNCH, ARG_BYTES, copies->bytes[row]);
	if (event->kind == EVENT_MEMSET && column_has(sets->valid.bytes, row))
		perfetto_argument_unsigned(s, IN_LAUNCH, ARG_BYTES, sets->bytes[row]);
	if (event->kind == EVENT_MEMSET && column_has(sets->valid.value, row))
		perfetto_argument(s, IN_LAUNCH, ARG_VALUE, sets->value[row]);
}

int perfetto_gpu_work(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct event_columns *w = event_work(&p->view, event->kind);
	uint64_t row = event->row, queue, first = 0;
	size_t gpu = work_gpu(&p->view, w, event->process, row);
	struct open_work open;
	unsigned metrics = 0;

	queue = perfetto_queue(p, event->process, w->context[row], w->stream[row], w->device[row],
			       gpu);
	if (open_work(p, event, perfetto_event_id(p, work_number(&p->view, w, row)), queue,
		      class_of(p, event, gpu), &open) < 0)
		return -ENOMEM;
	work_arguments(p, event, w);
	if (event->kind == EVENT_KERNEL)
		metrics = metric_values_take(&p->view.metrics, event->process, w->correlation[row],
					     &first);
	metric_arguments(p, first, metrics);
	perfetto_work_close(&p->out, &open);
	if (metrics && perfetto_kernel_counters(p, event, gpu, first, metrics) < 0)
		return -ENOMEM;
	if (!w->launches || w->launches[row] == TRACE_NO_ROW)
		p->view.result->unlinked++;
	return 0;
}

int perfetto_cuda_event(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct trace *t = p->view.trace;
	const struct cuda_event_columns *e = cuda_event_columns(t);
	const struct event_columns *last = &p->view.work[WORK_SYNC];
	uint64_t row = event->row, device = 0, queue, id;
	struct open_work open;
	size_t gpu;

	map_get(&p->view.context_devices, (uint64_t)event->process << 32 | e->context[row],
		&device);
	gpu = gpus_find(&p->view.gpus, event->process, (uint32_t)device);
	queue = perfetto_queue(p, event->process, e->context[row], e->stream[row], (uint32_t)device,
			       gpu);
	id = perfetto_event_id(p, p->view.work_base[WORK_SYNC]) + last->rows + row;
	if (open_work(p, event, id, queue, class_of(p, event, gpu), &open) < 0)
		return -ENOMEM;
	perfetto_argument_unsigned(&p->out, IN_LAUNCH, ARG_CORRELATION, e->correlation[row]);
	perfetto_argument(&p->out, IN_LAUNCH, ARG_EVENT, e->event[row]);
	perfetto_work_close(&p->out, &open);
	return 0;
}
