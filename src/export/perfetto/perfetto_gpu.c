/*
 * perfetto_gpu.c: work on GPUs as render stages.
 *
 * Names of stages are names of kernels, so that readers without fields for kernels (before v55) show them too. Ids of
 * queues and stages share an index in Perfetto: queues are even, stages odd.
 */
#include "export/perfetto/perfetto_gpu.h"

#include <errno.h>

#include "symbol/kernel_name.h"
#include "trace/columns.h"

/* Keys of classes: work kind << 56 | … */
static uint64_t kernel_key(uint32_t config, size_t gpu)
{
	return (uint64_t)gpu << 32 | config;
}

static uint64_t named_key(enum event_kind kind, uint32_t name)
{
	return (uint64_t)kind << 56 | name;
}

/* Stage ids: fixed ones and names of copies below, names of kernels (by string id) above. */
#define STAGE_KERNELS 4096

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
	map_release(&g->context_iids);
	vec_release(&g->queues);
	vec_release(&g->classes);
	strbuf_release(&g->text);
	strbuf_release(&g->text2);
}

void perfetto_gpus_restart(struct perfetto *p)
{
	struct perfetto_gpus *g = &p->gpus;

	g->started = false;
	map_clear(&g->stages);
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
	uint64_t *context_iid = map_at(&g->contexts, (uint64_t)process << 32 | context, 0),
		 *position;
	size_t from = s->length;

	if (!context_iid)
		return UINT64_MAX;
	if (!*context_iid)
		*context_iid = g->contexts.count;
	queue.context_iid = (uint32_t)*context_iid;
	position = map_at(&g->queue_index, *context_iid << 32 | stream, UINT64_MAX);
	if (!position || *position != UINT64_MAX)
		return position ? *position : UINT64_MAX;
	queue.iid = 2 * (g->queues.count + 1);
	proto_reserve(s, PERFETTO_PACKET_MAX);
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
	struct strbuf *s = &p->out;
	uint64_t position =
		find_class(p, kernel_key(config, gpu),
			   STAGE_KERNELS + config_u32(p, COLUMN_kernel_config_name, config));
	struct gpu_class *class;
	size_t from = s->length;

	if (position == UINT64_MAX || p->gpus.classes.data[position].kernel_iid)
		return position;
	class = &p->gpus.classes.data[position];
	class->kernel_iid = position + 1;
	proto_reserve(s, PERFETTO_PACKET_MAX);
	perfetto_dimensions(s, 1,
			    (uint32_t[]){ config_u32(p, COLUMN_kernel_config_grid_x, config),
					  config_u32(p, COLUMN_kernel_config_grid_y, config),
					  config_u32(p, COLUMN_kernel_config_grid_z, config) });
	perfetto_dimensions(s, 2,
			    (uint32_t[]){ config_u32(p, COLUMN_kernel_config_block_x, config),
					  config_u32(p, COLUMN_kernel_config_block_y, config),
					  config_u32(p, COLUMN_kernel_config_block_z, config) });
	class->launch_length = take_encoded(s, from, class->launch, sizeof(class->launch));
	return position;
}

/* "Stream 7", with the context or process before it where there are several. */
const char *perfetto_queue_name(struct perfetto *p, uint32_t process, const struct gpu_queue *queue)
{
	struct strbuf *text = &p->gpus.text;

	strbuf_clear(text);
	if (p->view.owner_count > 1)
		strbuf_addf(text, "%s ", p->view.processes[process].title);
	if (trace_rows(p->view.trace, TABLE_context) > p->view.gpus.count * p->view.process_count)
		strbuf_addf(text, "Context %u ", queue->context);
	strbuf_addf(text, "Stream %u", queue->stream);
	return strbuf_text(text);
}

/* Whether an id is new to this file; remembers it. */
static bool is_new(struct map *known, uint64_t iid)
{
	uint64_t *seen = map_at(known, iid, 0);

	return seen && !(*seen)++;
}

struct gpu_names {
	uint32_t process, context, stream;
	uint32_t config; /* of a kernel, or TRACE_NO_ROW */
	const char *stage; /* name of the stage of what is no kernel */
};

static void define_stage(struct perfetto *p, const struct gpu_class *class,
			 const struct gpu_names *names)
{
	struct strbuf *text = &p->gpus.text;
	uint32_t name;

	if (!is_new(&p->gpus.stages, class->stage_iid))
		return;
	if (!class->kernel_iid) {
		perfetto_intern_specification(&p->out, class->stage_iid, names->stage,
					      strlen(names->stage), PERFETTO_OTHER);
		return;
	}
	name = config_u32(p, COLUMN_kernel_config_name, names->config);
	strbuf_clear(text);
	kernel_name_short(trace_string(p->view.trace, name), text);
	perfetto_intern_specification(&p->out, class->stage_iid, strbuf_text(text), text->length,
				      PERFETTO_COMPUTE);
}

/* The interned data that a packet needs and that this file does not have yet. */
static void define(struct perfetto *p, struct gpu_queue *queue, struct gpu_class *class,
		   const struct gpu_names *names)
{
	struct strbuf *s = &p->out;
	size_t token = proto_open(s, PACKET_INTERNED_DATA);

	if (!p->gpus.started)
		for (size_t i = 1; i < ARG_END; i++)
			perfetto_intern_name(s, 1001, i, perfetto_argument_names[i],
					     strlen(perfetto_argument_names[i]));
	if (!queue->defined) {
		const char *name = perfetto_queue_name(p, names->process, queue);

		perfetto_intern_specification(s, queue->iid, name, strlen(name), PERFETTO_OTHER);
		if (is_new(&p->gpus.context_iids, queue->context_iid))
			perfetto_intern_context(s, queue->context_iid,
						p->view.processes[names->process].pid);
	}
	if (!class->defined) {
		define_stage(p, class, names);
		if (class->kernel_iid)
			perfetto_define_kernel(p, class->kernel_iid, names->config, names->process,
					       queue->gpu);
	}
	proto_close(s, token);
	proto_reserve(s, PERFETTO_PACKET_MAX);
	queue->defined = true;
	class->defined = true;
	p->gpus.started = true;
}

struct open_stage {
	size_t packet, stage, launch;
};

/* Opens the packet of an event up to the arguments of its launch. 0 or -ENOMEM. */
static int open_stage(struct perfetto *p, const struct export_event *event, uint64_t event_id,
		      uint64_t queue_position, uint64_t class_position,
		      const struct gpu_names *names, struct open_stage *open)
{
	struct strbuf *s = &p->out;
	struct perfetto_packet head = { event->start_ns, 0, SEQUENCE_GPU, PERFETTO_NEEDS_STATE };
	struct gpu_queue *queue;
	struct gpu_class *class;
	struct perfetto_stage stage = { .event_id = event_id };

	if (queue_position == UINT64_MAX || class_position == UINT64_MAX)
		return -ENOMEM;
	queue = &p->gpus.queues.data[queue_position];
	class = &p->gpus.classes.data[class_position];
	if (unlikely(!p->gpus.started)) {
		head.clock = PERFETTO_MONOTONIC;
		head.flags |= PERFETTO_CLEARED;
	}
	open->packet = perfetto_packet_open(s, &head);
	if (unlikely(!p->gpus.started)) {
		size_t defaults = proto_open(s, PACKET_DEFAULTS);

		proto_uint(s, 58, PERFETTO_MONOTONIC);
		proto_close(s, defaults);
	}
	if (unlikely(!queue->defined || !class->defined || !p->gpus.started))
		define(p, queue, class, names);
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

static uint64_t memcpy_class(struct perfetto *p, uint64_t row, struct gpu_names *names)
{
	const struct trace *t = p->view.trace;
	const struct memcpy_columns *c = memcpy_columns(t);
	uint8_t kind = c->kind[row];
	uint8_t from = c->source_kind[row];
	uint8_t to = c->destination_kind[row];
	uint32_t number = ((kind & 15u) * 8 + (from & 7u)) * 8 + (to & 7u);

	strbuf_clear(&p->gpus.text2);
	memcpy_name(&p->gpus.text2, kind & 15, from & 7, to & 7);
	names->stage = strbuf_text(&p->gpus.text2);
	return find_class(p, named_key(EVENT_MEMCPY, number), number);
}

#define STAGE_MEMSETS 1024 /* after the copies */
#define STAGE_GRAPH 2048
#define STAGE_EVENT 2049
#define STAGE_LABELS (UINT64_C(1) << 40) /* after the kernels */

static uint64_t memset_class(struct perfetto *p, uint64_t row, struct gpu_names *names)
{
	uint8_t kind = memset_columns(p->view.trace)->memory_kind[row];

	strbuf_clear(&p->gpus.text2);
	memset_name(&p->gpus.text2, kind);
	names->stage = strbuf_text(&p->gpus.text2);
	return find_class(p, named_key(EVENT_MEMSET, kind), STAGE_MEMSETS + kind);
}

/* Of a table of GPU work that has no stages of its own: one for each label. */
static uint64_t labelled_class(struct perfetto *p, const struct export_event *event,
			       struct gpu_names *names)
{
	enum table_id table = event_table(event->kind);
	uint32_t label = event_label_key(p->view.trace, table, event->row);

	names->stage = event_label(p->view.trace, table, event->row);
	return find_class(p, named_key(event->kind, label),
			  STAGE_LABELS + ((uint64_t)event->kind << 32 | label));
}

static uint64_t class_of(struct perfetto *p, const struct export_event *event, size_t gpu,
			 struct gpu_names *names)
{
	switch (event->kind) {
	case EVENT_KERNEL:
		names->config = kernel_columns(p->view.trace)->config[event->row];
		if (names->config != TRACE_NO_ROW)
			return find_kernel_class(p, names->config, gpu);
		names->stage = "(unknown kernel)";
		return find_class(p, named_key(EVENT_KERNEL, 0), STAGE_EVENT + 1);
	case EVENT_MEMCPY:
		return memcpy_class(p, event->row, names);
	case EVENT_MEMSET:
		return memset_class(p, event->row, names);
	case EVENT_GRAPH:
		names->stage = "CUDA graph";
		return find_class(p, named_key(EVENT_GRAPH, 0), STAGE_GRAPH);
	default:
		return labelled_class(p, event, names);
	}
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
	struct gpu_names names = { event->process, w->context[row], w->stream[row], TRACE_NO_ROW,
				   NULL };
	size_t gpu = work_gpu(&p->view, w, event->process, row);
	struct open_stage open;

	queue = perfetto_queue(p, event->process, names.context, names.stream, w->device[row], gpu);
	if (open_stage(p, event, perfetto_event_id(work_number(&p->view, w, row)), queue,
		       class_of(p, event, gpu, &names), &names, &open) < 0)
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
	struct gpu_names names = { event->process, e->context[row], e->stream[row], TRACE_NO_ROW,
				   "Event record" };
	struct open_stage open;

	map_get(&p->view.context_devices, (uint64_t)event->process << 32 | names.context, &device);
	queue = perfetto_queue(p, event->process, names.context, names.stream, (uint32_t)device,
			       gpus_find(&p->view.gpus, event->process, (uint32_t)device));
	id = perfetto_event_id(p->view.work_base[WORK_SYNC]) + last->rows + row;
	if (open_stage(p, event, id, queue,
		       find_class(p, named_key(EVENT_CUDA_EVENT, 0), STAGE_EVENT), &names,
		       &open) < 0)
		return -ENOMEM;
	perfetto_argument(&p->out, IN_LAUNCH, ARG_CORRELATION, (int64_t)e->correlation[row]);
	perfetto_argument(&p->out, IN_LAUNCH, ARG_EVENT, e->event[row]);
	close_stage(p, &open);
	return 0;
}
