/*
 * perfetto_gpu.c: work on GPUs as render stages.
 *
 * Names of stages are names of kernels, so that readers without fields for kernels (before v55) show them too. Ids of
 * queues and stages share an index in Perfetto: queues are even, stages odd.
 */
#include "export/perfetto/perfetto_gpu.h"

#include <errno.h>
#include <stdio.h>

#include "symbol/demangle.h"
#include "trace/columns.h"

/*
 * Numbers of stages: copies, by their kinds; fixed ones; names of kernels, by string id; labels of
 * other tables.
 */
#define STAGE_MEMSETS 1024u
#define STAGE_GRAPH 2048u
#define STAGE_EVENT 2049u
#define STAGE_UNKNOWN_KERNEL 2050u
#define STAGE_KERNELS 4096u
#define STAGE_LABELS (UINT64_C(1) << 40)

/* Keys of classes: gpu << 32 | configuration; OTHER_CLASS | stage. */
#define OTHER_CLASS (UINT64_C(1) << 63)

static uint64_t stage_iid(uint64_t number)
{
	return 2 * number + 1;
}

void perfetto_gpus_release(struct perfetto *p)
{
	struct perfetto_gpus *g = &p->gpus;

	map_release(&g->contexts);
	map_release(&g->queue_index);
	map_release(&g->class_index);
	map_release(&g->stages);
	map_release(&g->kernel_names);
	map_release(&g->context_iids);
	vec_release(&g->queues);
	vec_release(&g->classes);
	strbuf_release(&g->text);
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

void perfetto_gpus_restart(struct perfetto *p)
{
	struct perfetto_gpus *g = &p->gpus;

	g->stream_width = stream_width(p->view.trace);
	g->sequence = (struct perfetto_sequence){ .id = SEQUENCE_GPU };
	map_clear(&g->stages);
	map_clear(&g->kernel_names);
	map_clear(&g->context_iids);
	for (size_t i = 0; i < g->queues.count; i++)
		g->queues.data[i].defined = false;
	for (size_t i = 0; i < g->classes.count; i++)
		g->classes.data[i].defined = false;
	perfetto_gpu_info(p);
}

/* Encodes with `write` into a small array: out must hold what is written. */
static uint8_t take_encoded(struct strbuf *s, size_t from, uint8_t *to, size_t size)
{
	size_t length = s->length - from;

	s->length = from;
	if (s->failed || length > size)
		return 0;
	memcpy(to, s->data + from, length);
	return (uint8_t)length;
}

uint64_t perfetto_queue(struct perfetto *p, uint32_t process, uint32_t context, uint32_t stream,
			uint32_t device, size_t gpu)
{
	struct perfetto_gpus *g = &p->gpus;
	struct strbuf *s = &p->out;
	struct gpu_queue queue = { .gpu = (uint32_t)gpu, .context = context, .stream = stream };
	uint64_t context_iid = map_number(&g->contexts, (uint64_t)process << 32 | context);
	uint64_t *position;
	size_t from = s->length;

	if (!context_iid)
		return UINT64_MAX;
	queue.context_iid = (uint32_t)context_iid;
	position = map_at(&g->queue_index, context_iid << 32 | stream, UINT64_MAX);
	if (!position || *position != UINT64_MAX)
		return position ? *position : UINT64_MAX;
	queue.iid = 2 * (g->queues.count + 1);
	perfetto_argument(s, IN_LAUNCH, ARG_DEVICE, device);
	perfetto_argument(s, IN_LAUNCH, ARG_STREAM, stream);
	queue.arguments_length = take_encoded(s, from, queue.arguments, sizeof(queue.arguments));
	if (vec_push(&g->queues, queue) < 0)
		return UINT64_MAX;
	*position = g->queues.count - 1;
	return *position;
}

/* Position of a class, made when it is new; UINT64_MAX without memory. */
static uint64_t find_class(struct perfetto *p, uint64_t key, uint64_t stage)
{
	struct perfetto_gpus *g = &p->gpus;
	struct gpu_class class = { .stage_iid = stage_iid(stage) };
	uint64_t *position = map_at(&g->class_index, key, UINT64_MAX);

	if (!position || *position != UINT64_MAX)
		return position ? *position : UINT64_MAX;
	if (vec_push(&g->classes, class) < 0)
		return UINT64_MAX;
	*position = g->classes.count - 1;
	return *position;
}

static uint64_t find_kernel_class(struct perfetto *p, uint32_t config, size_t gpu)
{
	const struct kernel_config_columns *k = kernel_config_columns(p->view.trace);
	struct strbuf *s = &p->out;
	uint64_t position =
		find_class(p, (uint64_t)gpu << 32 | config, STAGE_KERNELS + k->name[config]);
	struct gpu_class *class;
	size_t from = s->length;

	if (position == UINT64_MAX || p->gpus.classes.data[position].kernel_iid)
		return position;
	class = &p->gpus.classes.data[position];
	class->kernel_iid = position + 1;
	perfetto_dimensions(
		s, 1, (uint32_t[]){ k->grid_x[config], k->grid_y[config], k->grid_z[config] });
	perfetto_dimensions(
		s, 2, (uint32_t[]){ k->block_x[config], k->block_y[config], k->block_z[config] });
	class->launch_length = take_encoded(s, from, class->launch, sizeof(class->launch));
	return position;
}

/*
 * "Stream 7", with the process before it where several use GPUs, and the context where streams need it. Readers sort by the text: blanks
 * put 7 before 13.
 */
const char *perfetto_queue_name(struct perfetto *p, uint32_t process, const struct gpu_queue *queue)
{
	struct strbuf *text = &p->gpus.text;

	strbuf_clear(text);
	if (p->view.gpu_process == NO_PROCESS)
		strbuf_addf(text, "%s ", p->view.processes[process].title);
	if (p->view.many_contexts)
		strbuf_addf(text, "Context %u ", queue->context);
	strbuf_addf(text, "Stream %*u", p->gpus.stream_width, queue->stream);
	return strbuf_text(text);
}

/* Its short name; its whole one where another kernel is called so already, for readers add up slices by their names. */
static void kernel_stage_name(struct perfetto *p, uint64_t iid, const char *name)
{
	struct strbuf *text = &p->gpus.text;
	uint64_t *first;

	kernel_name_short(name, text);
	first = map_at(&p->gpus.kernel_names, hash_bytes(strbuf_text(text), text->length), iid);
	if (!first || *first == iid)
		return;
	strbuf_clear(text);
	demangle(name, text);
}

static void define_stage(struct perfetto *p, const struct gpu_class *class,
			 const struct export_event *event)
{
	const struct trace *t = p->view.trace;
	struct strbuf *text = &p->gpus.text;

	if (map_add(&p->gpus.stages, class->stage_iid) <= 0)
		return;
	strbuf_clear(text);
	if (class->kernel_iid)
		kernel_stage_name(p, class->stage_iid, event_label(t, TABLE_kernel, event->row));
	else if (event->kind == EVENT_CUDA_EVENT)
		strbuf_adds(text, "Event record");
	else if (event->kind == EVENT_GRAPH)
		strbuf_adds(text, "CUDA graph");
	else
		event_name(text, t, event);
	perfetto_intern_specification(&p->out, class->stage_iid, strbuf_text(text), text->length,
				      class->kernel_iid ? PERFETTO_COMPUTE : PERFETTO_OTHER);
}

/* The interned data that a packet needs and that this file does not have yet. */
static void define(struct perfetto *p, struct gpu_queue *queue, struct gpu_class *class,
		   const struct export_event *event, bool is_first)
{
	struct strbuf *s = &p->out;
	size_t token = proto_open(s, PACKET_INTERNED_DATA);

	if (is_first)
		for (size_t i = 1; i < ARG_END; i++)
			perfetto_intern_name(s, 1001, i, perfetto_argument_names[i],
					     strlen(perfetto_argument_names[i]));
	if (!queue->defined) {
		const char *name = perfetto_queue_name(p, event->process, queue);

		perfetto_intern_specification(s, queue->iid, name, strlen(name), PERFETTO_OTHER);
		if (map_add(&p->gpus.context_iids, queue->context_iid) > 0)
			perfetto_intern_context(s, queue->context_iid,
						p->view.processes[event->process].pid);
	}
	if (!class->defined) {
		define_stage(p, class, event);
		if (class->kernel_iid)
			perfetto_define_kernel(p, class->kernel_iid,
					       kernel_columns(p->view.trace)->config[event->row],
					       event->process, queue->gpu);
	}
	proto_close(s, token);
	queue->defined = true;
	class->defined = true;
}

struct open_stage {
	size_t packet, stage, launch;
};

/* Opens the packet of an event up to the arguments of its launch. 0 or -ENOMEM. */
static int open_stage(struct perfetto *p, const struct export_event *event, uint64_t event_id,
		      uint64_t queue_position, uint64_t class_position, struct open_stage *open)
{
	struct strbuf *s = &p->out;
	struct gpu_queue *queue;
	struct gpu_class *class;
	struct perfetto_stage stage = { .event_id = event_id };
	size_t defaults;

	if (queue_position == UINT64_MAX || class_position == UINT64_MAX)
		return -ENOMEM;
	queue = &p->gpus.queues.data[queue_position];
	class = &p->gpus.classes.data[class_position];
	open->packet = perfetto_sequence_open(s, &p->gpus.sequence, event->start_ns, &defaults);
	if (unlikely(defaults))
		proto_close(s, defaults);
	if (unlikely(!queue->defined || !class->defined || defaults))
		define(p, queue, class, event, defaults != 0);
	stage.duration_ns = event->kind == EVENT_CUDA_EVENT ? PERFETTO_NO_TIME
							    : event->end_ns - event->start_ns;
	stage.queue_iid = queue->iid;
	stage.stage_iid = class->stage_iid;
	stage.gpu = queue->gpu;
	stage.context_iid = queue->context_iid;
	stage.kernel_iid = class->kernel_iid;
	open->stage = perfetto_stage_open(s, &stage);
	open->launch = proto_open(s, STAGE_LAUNCH);
	raw_add(s, class->launch, class->launch_length);
	raw_add(s, queue->arguments, queue->arguments_length);
	return 0;
}

static void close_stage(struct perfetto *p, const struct open_stage *open)
{
	proto_close(&p->out, open->launch);
	proto_close(&p->out, open->stage);
	proto_close(&p->out, open->packet);
}

/* Number of the stage of what is no known kernel. */
static uint64_t other_stage(const struct trace *t, const struct export_event *event)
{
	const struct memcpy_columns *c = memcpy_columns(t);
	uint64_t row = event->row;

	switch (event->kind) {
	case EVENT_KERNEL:
		return STAGE_UNKNOWN_KERNEL;
	case EVENT_MEMCPY:
		return ((c->kind[row] & 15u) * 8 + (c->source_kind[row] & 7u)) * 8 +
		       (c->destination_kind[row] & 7u);
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

static uint64_t class_of(struct perfetto *p, const struct export_event *event, size_t gpu)
{
	uint32_t config = TRACE_NO_ROW;
	uint64_t stage;

	if (event->kind == EVENT_KERNEL)
		config = kernel_columns(p->view.trace)->config[event->row];
	if (config != TRACE_NO_ROW)
		return find_kernel_class(p, config, gpu);
	stage = other_stage(p->view.trace, event);
	return find_class(p, OTHER_CLASS | stage, stage);
}

static void work_arguments(struct perfetto *p, const struct export_event *event,
			   const struct event_columns *w)
{
	const struct trace *t = p->view.trace;
	const struct memset_columns *sets = memset_columns(t);
	struct strbuf *s = &p->out;
	uint64_t row = event->row;

	if (w->correlation)
		perfetto_argument(s, IN_LAUNCH, ARG_CORRELATION, (int64_t)w->correlation[row]);
	if (w->graph && column_has(w->graph_valid, row))
		perfetto_argument(s, IN_LAUNCH, ARG_GRAPH, w->graph[row]);
	if (w->graph_node && column_has(w->graph_node_valid, row))
		perfetto_argument(s, IN_LAUNCH, ARG_GRAPH_NODE, (int64_t)w->graph_node[row]);
	if (event->kind == EVENT_MEMCPY)
		perfetto_argument(s, IN_LAUNCH, ARG_BYTES, (int64_t)memcpy_columns(t)->bytes[row]);
	if (event->kind == EVENT_MEMSET) {
		perfetto_argument(s, IN_LAUNCH, ARG_BYTES, (int64_t)sets->bytes[row]);
		perfetto_argument(s, IN_LAUNCH, ARG_VALUE, sets->value[row]);
	}
}

int perfetto_gpu_work(void *exporter, const struct export_event *event)
{
	struct perfetto *p = exporter;
	const struct event_columns *w = event_work(&p->view, event->kind);
	uint64_t row = event->row, queue;
	size_t gpu = work_gpu(&p->view, w, event->process, row);
	struct open_stage open;

	queue = perfetto_queue(p, event->process, w->context[row], w->stream[row], w->device[row],
			       gpu);
	if (open_stage(p, event, perfetto_event_id(p, work_number(&p->view, w, row)), queue,
		       class_of(p, event, gpu), &open) < 0)
		return -ENOMEM;
	work_arguments(p, event, w);
	close_stage(p, &open);
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
	struct open_stage open;
	size_t gpu;

	map_get(&p->view.context_devices, (uint64_t)event->process << 32 | e->context[row],
		&device);
	gpu = gpus_find(&p->view.gpus, event->process, (uint32_t)device);
	queue = perfetto_queue(p, event->process, e->context[row], e->stream[row], (uint32_t)device,
			       gpu);
	id = perfetto_event_id(p, p->view.work_base[WORK_SYNC]) + last->rows + row;
	if (open_stage(p, event, id, queue, class_of(p, event, gpu), &open) < 0)
		return -ENOMEM;
	perfetto_argument(&p->out, IN_LAUNCH, ARG_CORRELATION, (int64_t)e->correlation[row]);
	perfetto_argument(&p->out, IN_LAUNCH, ARG_EVENT, e->event[row]);
	close_stage(p, &open);
	return 0;
}
