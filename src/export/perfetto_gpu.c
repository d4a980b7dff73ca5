/*
 * perfetto_gpu.c: work on GPUs as render stages.
 *
 * Names of stages are names of kernels, so that readers without fields for kernels (before v55) show them too. Ids of
 * queues and stages share an index in Perfetto: queues are even, stages odd.
 */
#include "analysis/occupancy.h"
#include "export/perfetto_writer.h"
#include "symbol/demangle.h"
#include "symbol/kernel_name.h"

#include <errno.h>
#include <stdio.h>

/* Names of arguments. The reader's table of kernels looks for some of them by these very words. */
enum {
	ARG_DEVICE = 1,
	ARG_STREAM,
	ARG_CORRELATION,
	ARG_GRAPH,
	ARG_GRAPH_NODE,
	ARG_BYTES,
	ARG_VALUE,
	ARG_EVENT,
	ARG_REGISTERS,
	ARG_STATIC_SHARED,
	ARG_DYNAMIC_SHARED,
	ARG_SHARED_SIZE,
	ARG_CACHE_CONFIG,
	ARG_LOCAL,
	ARG_THREADS,
	ARG_GRID_SIZE,
	ARG_BLOCK_SIZE,
	ARG_CLUSTER,
	ARG_WAVES,
	ARG_LIMIT_BLOCKS,
	ARG_LIMIT_REGISTERS,
	ARG_LIMIT_SHARED,
	ARG_LIMIT_WARPS,
	ARG_OCCUPANCY,
	ARG_MAX_WARPS,
	ARG_PROCESS_NAME,
	ARG_PROCESS_ID,
	ARG_END,
};

static const char *const argument_names[ARG_END] = {
	[ARG_DEVICE] = "device",
	[ARG_STREAM] = "stream",
	[ARG_CORRELATION] = "correlation",
	[ARG_GRAPH] = "graph_id",
	[ARG_GRAPH_NODE] = "graph_node_id",
	[ARG_BYTES] = "bytes",
	[ARG_VALUE] = "value",
	[ARG_EVENT] = "event",
	[ARG_REGISTERS] = "registers_per_thread",
	[ARG_STATIC_SHARED] = "shared_mem_static",
	[ARG_DYNAMIC_SHARED] = "shared_mem_dynamic",
	[ARG_SHARED_SIZE] = "shared_mem_config_size",
	[ARG_CACHE_CONFIG] = "func_cache_config",
	[ARG_LOCAL] = "local_mem_per_thread",
	[ARG_THREADS] = "thread_count",
	[ARG_GRID_SIZE] = "grid_size",
	[ARG_BLOCK_SIZE] = "workgroup_size",
	[ARG_CLUSTER] = "cluster_size",
	[ARG_WAVES] = "waves_per_multiprocessor",
	[ARG_LIMIT_BLOCKS] = "occupancy_limit_blocks",
	[ARG_LIMIT_REGISTERS] = "occupancy_limit_registers",
	[ARG_LIMIT_SHARED] = "occupancy_limit_shared_mem",
	[ARG_LIMIT_WARPS] = "occupancy_limit_warps",
	[ARG_OCCUPANCY] = "sm__maximum_warps_per_active_cycle_pct",
	[ARG_MAX_WARPS] = "sm__maximum_warps_avg_per_active_cycle",
	[ARG_PROCESS_NAME] = "process_name",
	[ARG_PROCESS_ID] = "process_id",
};

/* Fields in a kernel and in a launch. */
enum { IN_LAUNCH = 3, IN_KERNEL = 5 };

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

/* "GPU-8f3b…" as 16 bytes; false when it is something else. */
static bool parse_uuid(const char *text, uint8_t uuid[16])
{
	size_t digits = 0;

	if (!strncmp(text, "GPU-", 4))
		text += 4;
	memset(uuid, 0, 16);
	for (; *text; text++) {
		int value;

		if (*text == '-')
			continue;
		if (*text >= '0' && *text <= '9')
			value = *text - '0';
		else if (*text >= 'a' && *text <= 'f')
			value = *text - 'a' + 10;
		else
			return false;
		if (digits == 32)
			return false;
		uuid[digits / 2] = (uint8_t)(uuid[digits / 2] << 4 | value);
		digits++;
	}
	return digits == 32;
}

static void extra_info(struct strbuf *s, const char *key, uint64_t value)
{
	char text[24];
	size_t token = proto_open(s, 6);

	snprintf(text, sizeof(text), "%llu", (unsigned long long)value);
	proto_string(s, 1, key);
	proto_string(s, 2, text);
	proto_close(s, token);
	proto_reserve(s, PERFETTO_PACKET_MAX);
}

static uint32_t device_u32(const struct trace *t, int column, uint32_t row)
{
	return trace_u32(t, TABLE_device, column)[row];
}

static void describe_gpu(struct perfetto *p, const struct gpu *gpu)
{
	const struct trace *t = p->view.trace;
	struct strbuf *s = &p->out;
	size_t token = proto_open(s, 1), length;
	const char *pci;
	uint8_t uuid[16];
	char text[32];

	if (gpu->row == TRACE_NO_ROW) {
		proto_close(s, token); /* keeps the positions of those after it */
		return;
	}
	proto_text(s, 1, gpu->name, strlen(gpu->name));
	proto_string(s, 2, "NVIDIA");
	proto_text(s, 3, gpu->name, strlen(gpu->name));
	snprintf(text, sizeof(text), "CC_%u%u",
		 device_u32(t, COLUMN_device_compute_major, gpu->row),
		 device_u32(t, COLUMN_device_compute_minor, gpu->row));
	proto_string(s, 4, text);
	if (parse_uuid(gpu->uuid, uuid))
		proto_bytes(s, 5, uuid, sizeof(uuid));
	proto_reserve(s, PERFETTO_PACKET_MAX);
	extra_info(s, "memory_bytes",
		   trace_u64(t, TABLE_device, COLUMN_device_memory_bytes)[gpu->row]);
	extra_info(s, "multiprocessors", device_u32(t, COLUMN_device_multiprocessors, gpu->row));
	extra_info(s, "driver_version", device_u32(t, COLUMN_device_driver_version, gpu->row));
	pci = export_text(&p->view, TABLE_device, COLUMN_device_pci, gpu->row, &length);
	proto_text(s, 7, pci, length);
	proto_close(s, token);
	proto_reserve(s, PERFETTO_PACKET_MAX);
}

static void write_gpu_info(struct perfetto *p)
{
	struct perfetto_packet head = { p->time_ns, PERFETTO_MONOTONIC, SEQUENCE_GLOBAL, 0 };
	size_t packet, info;

	if (!p->view.gpus.count)
		return;
	packet = perfetto_packet_open(&p->out, &head);
	info = proto_open(&p->out, PACKET_GPU_INFO);
	for (size_t i = 0; i < p->view.gpus.count; i++)
		describe_gpu(p, &p->view.gpus.items[i]);
	proto_close(&p->out, info);
	proto_close(&p->out, packet);
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
	write_gpu_info(p);
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

/* Position of the queue of a context's stream, made when it is new; UINT64_MAX without memory. */
static uint64_t find_queue(struct perfetto *p, uint32_t process, uint32_t context, uint32_t stream,
			   uint32_t device, size_t gpu)
{
	struct perfetto_gpus *g = &p->gpus;
	struct strbuf *s = &p->out;
	struct gpu_queue queue = { .gpu = (uint32_t)gpu };
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

static uint32_t config_u32(const struct perfetto *p, int column, uint32_t config)
{
	return trace_u32(p->view.trace, TABLE_kernel_config, column)[config];
}

static bool config_has(const struct perfetto *p, int column, uint32_t config)
{
	const uint8_t *valid = trace_valid(p->view.trace, TABLE_kernel_config, column);

	return !valid || valid[config];
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

static void argument_limit(struct strbuf *s, uint32_t name, uint32_t limit)
{
	if (limit != UINT32_MAX)
		perfetto_argument(s, IN_KERNEL, name, limit);
}

static void occupancy_arguments(struct perfetto *p, uint32_t config, size_t gpu)
{
	struct strbuf *s = &p->out;
	struct occupancy o;

	if (occupancy_of_rows(p->view.trace, p->view.gpus.items[gpu].row, config, &o) < 0)
		return;
	argument_limit(s, ARG_LIMIT_BLOCKS, o.limits[OCCUPANCY_BLOCKS]);
	argument_limit(s, ARG_LIMIT_REGISTERS, o.limits[OCCUPANCY_REGISTERS]);
	argument_limit(s, ARG_LIMIT_SHARED, o.limits[OCCUPANCY_SHARED]);
	argument_limit(s, ARG_LIMIT_WARPS, o.limits[OCCUPANCY_WARPS]);
	perfetto_argument(s, IN_KERNEL, ARG_MAX_WARPS, o.warps);
	if (o.max_warps)
		perfetto_argument_double(s, IN_KERNEL, ARG_OCCUPANCY,
					 100.0 * o.warps / o.max_warps);
	if (o.waves_milli)
		perfetto_argument_double(s, IN_KERNEL, ARG_WAVES, (double)o.waves_milli / 1000);
}

static const char *cache_config_name(uint8_t config)
{
	static const char *const names[] = {
		[cache_config_unknown] = "n/a",
		[cache_config_none] = "CachePreferNone",
		[cache_config_prefer_shared] = "CachePreferShared",
		[cache_config_prefer_l1] = "CachePreferL1",
		[cache_config_prefer_equal] = "CachePreferEqual",
	};

	return config < ARRAY_SIZE(names) ? names[config] : names[0];
}

static uint64_t product(const struct perfetto *p, int first_column, uint32_t config)
{
	uint64_t xy = (uint64_t)config_u32(p, first_column, config) *
		      config_u32(p, first_column + 1, config),
		 all;

	return __builtin_mul_overflow(xy, config_u32(p, first_column + 2, config), &all)
		       ? UINT64_MAX
		       : all;
}

static void shape_arguments(struct perfetto *p, uint32_t config)
{
	struct strbuf *s = &p->out;
	uint64_t blocks = product(p, COLUMN_kernel_config_grid_x, config);
	uint64_t threads = product(p, COLUMN_kernel_config_block_x, config), all;

	perfetto_argument(s, IN_KERNEL, ARG_GRID_SIZE, (int64_t)blocks);
	perfetto_argument(s, IN_KERNEL, ARG_BLOCK_SIZE, (int64_t)threads);
	if (!__builtin_mul_overflow(blocks, threads, &all))
		perfetto_argument(s, IN_KERNEL, ARG_THREADS, (int64_t)all);
	if (config_has(p, COLUMN_kernel_config_cluster_x, config))
		perfetto_argument(s, IN_KERNEL, ARG_CLUSTER,
				  (int64_t)product(p, COLUMN_kernel_config_cluster_x, config));
}

static void resource_arguments(struct perfetto *p, uint32_t config)
{
	static const struct {
		uint8_t name, column;
	} arguments[] = {
		{ ARG_REGISTERS, COLUMN_kernel_config_registers },
		{ ARG_STATIC_SHARED, COLUMN_kernel_config_static_shared_bytes },
		{ ARG_DYNAMIC_SHARED, COLUMN_kernel_config_dynamic_shared_bytes },
		{ ARG_SHARED_SIZE, COLUMN_kernel_config_executed_shared_bytes },
		{ ARG_LOCAL, COLUMN_kernel_config_local_bytes_per_thread },
	};
	uint8_t cache = trace_u8(p->view.trace, TABLE_kernel_config,
				 COLUMN_kernel_config_cache_config_executed)[config];

	for (size_t i = 0; i < ARRAY_SIZE(arguments); i++)
		if (config_has(p, arguments[i].column, config))
			perfetto_argument(&p->out, IN_KERNEL, arguments[i].name,
					  config_u32(p, arguments[i].column, config));
	perfetto_argument_text(&p->out, IN_KERNEL, ARG_CACHE_CONFIG, cache_config_name(cache));
}

static void define_kernel(struct perfetto *p, uint64_t iid, uint32_t config, uint32_t process,
			  size_t gpu)
{
	const struct trace *t = p->view.trace;
	const struct export_process *x = &p->view.processes[process];
	uint32_t name = config_u32(p, COLUMN_kernel_config_name, config),
		 row = p->view.gpus.items[gpu].row;
	char arch[32] = "";
	size_t token;

	strbuf_clear(&p->gpus.text);
	demangle(trace_string(t, name), &p->gpus.text);
	if (row != TRACE_NO_ROW)
		snprintf(arch, sizeof(arch), "CC_%u%u",
			 device_u32(t, COLUMN_device_compute_major, row),
			 device_u32(t, COLUMN_device_compute_minor, row));
	token = perfetto_intern_kernel(&p->out, iid, trace_string(t, name),
				       trace_string_length(t, name), strbuf_text(&p->gpus.text),
				       p->gpus.text.length, arch);
	shape_arguments(p, config);
	resource_arguments(p, config);
	occupancy_arguments(p, config, gpu);
	perfetto_argument(&p->out, IN_KERNEL, ARG_PROCESS_ID, x->pid);
	perfetto_argument_text(&p->out, IN_KERNEL, ARG_PROCESS_NAME, x->name);
	proto_close(&p->out, token);
}

/* "Stream 7", with the context or process before it where there are several. */
static void queue_name(struct perfetto *p, uint32_t process, uint32_t context, uint32_t stream)
{
	struct strbuf *text = &p->gpus.text;

	strbuf_clear(text);
	if (p->view.process_count > 1)
		strbuf_addf(text, "%s ", p->view.processes[process].title);
	if (trace_rows(p->view.trace, TABLE_context) > p->view.gpus.count * p->view.process_count)
		strbuf_addf(text, "Context %u ", context);
	strbuf_addf(text, "Stream %u", stream);
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
			perfetto_intern_name(s, 1001, i, argument_names[i],
					     strlen(argument_names[i]));
	if (!queue->defined) {
		queue_name(p, names->process, names->context, names->stream);
		perfetto_intern_specification(s, queue->iid, strbuf_text(&p->gpus.text),
					      p->gpus.text.length, PERFETTO_OTHER);
		if (is_new(&p->gpus.context_iids, queue->context_iid))
			perfetto_intern_context(s, queue->context_iid,
						p->view.processes[names->process].pid);
	}
	if (!class->defined) {
		define_stage(p, class, names);
		if (class->kernel_iid)
			define_kernel(p, class->kernel_iid, names->config, names->process,
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
	uint8_t kind = trace_u8(t, TABLE_memcpy, COLUMN_memcpy_kind)[row];
	uint8_t from = trace_u8(t, TABLE_memcpy, COLUMN_memcpy_source_kind)[row];
	uint8_t to = trace_u8(t, TABLE_memcpy, COLUMN_memcpy_destination_kind)[row];
	uint32_t number = ((kind & 15u) * 8 + (from & 7u)) * 8 + (to & 7u);

	strbuf_clear(&p->gpus.text2);
	memcpy_name(&p->gpus.text2, kind & 15, from & 7, to & 7);
	names->stage = strbuf_text(&p->gpus.text2);
	return find_class(p, named_key(EVENT_MEMCPY, number), number);
}

#define STAGE_MEMSETS 1024 /* after the copies */
#define STAGE_GRAPH 2048
#define STAGE_EVENT 2049

static uint64_t memset_class(struct perfetto *p, uint64_t row, struct gpu_names *names)
{
	uint8_t kind = trace_u8(p->view.trace, TABLE_memset, COLUMN_memset_memory_kind)[row];

	strbuf_clear(&p->gpus.text2);
	memset_name(&p->gpus.text2, kind);
	names->stage = strbuf_text(&p->gpus.text2);
	return find_class(p, named_key(EVENT_MEMSET, kind), STAGE_MEMSETS + kind);
}

static uint64_t class_of(struct perfetto *p, const struct export_event *event, size_t gpu,
			 struct gpu_names *names)
{
	switch (event->kind) {
	case EVENT_KERNEL:
		names->config =
			trace_u32(p->view.trace, TABLE_kernel, COLUMN_kernel_config)[event->row];
		if (names->config != TRACE_NO_ROW)
			return find_kernel_class(p, names->config, gpu);
		names->stage = "(unknown kernel)";
		return find_class(p, named_key(EVENT_KERNEL, 0), STAGE_EVENT + 1);
	case EVENT_MEMCPY:
		return memcpy_class(p, event->row, names);
	case EVENT_MEMSET:
		return memset_class(p, event->row, names);
	default:
		names->stage = "CUDA graph";
		return find_class(p, named_key(EVENT_GRAPH, 0), STAGE_GRAPH);
	}
}

static void work_arguments(struct perfetto *p, const struct export_event *event,
			   const struct work_columns *w)
{
	const struct trace *t = p->view.trace;
	struct strbuf *s = &p->out;
	uint64_t row = event->row;

	perfetto_argument(s, IN_LAUNCH, ARG_CORRELATION, (int64_t)w->correlation[row]);
	if (w->graph && (!w->graph_valid || w->graph_valid[row]))
		perfetto_argument(s, IN_LAUNCH, ARG_GRAPH, w->graph[row]);
	if (w->graph_node && (!w->graph_node_valid || w->graph_node_valid[row]))
		perfetto_argument(s, IN_LAUNCH, ARG_GRAPH_NODE, (int64_t)w->graph_node[row]);
	if (event->kind == EVENT_MEMCPY)
		perfetto_argument(s, IN_LAUNCH, ARG_BYTES,
				  (int64_t)trace_u64(t, TABLE_memcpy, COLUMN_memcpy_bytes)[row]);
	if (event->kind == EVENT_MEMSET) {
		perfetto_argument(s, IN_LAUNCH, ARG_BYTES,
				  (int64_t)trace_u64(t, TABLE_memset, COLUMN_memset_bytes)[row]);
		perfetto_argument(s, IN_LAUNCH, ARG_VALUE,
				  trace_u32(t, TABLE_memset, COLUMN_memset_value)[row]);
	}
}

int perfetto_gpu_work(struct perfetto *p, const struct export_event *event)
{
	const struct work_columns *w = &p->view.work[event_work(event->kind)];
	uint64_t row = event->row, queue;
	struct gpu_names names = { event->process, w->context[row], w->stream[row], TRACE_NO_ROW,
				   NULL };
	size_t gpu = work_gpu(&p->view, w, event->process, row);
	struct open_stage open;

	queue = find_queue(p, event->process, names.context, names.stream, w->device[row], gpu);
	if (open_stage(p, event, perfetto_event_id(work_number(w, row)), queue,
		       class_of(p, event, gpu, &names), &names, &open) < 0)
		return -ENOMEM;
	work_arguments(p, event, w);
	close_stage(p, &open);
	p->view.result->written[w->table]++;
	if (!w->calls || w->calls[row] == TRACE_NO_ROW)
		p->view.result->unlinked++;
	return 0;
}

int perfetto_gpu_event(struct perfetto *p, const struct export_event *event)
{
	const struct trace *t = p->view.trace;
	const struct work_columns *last = &p->view.work[WORK_SYNC];
	uint64_t row = event->row, device = 0, queue, id;
	struct gpu_names names = { event->process,
				   trace_u32(t, TABLE_cuda_event, COLUMN_cuda_event_context)[row],
				   trace_u32(t, TABLE_cuda_event, COLUMN_cuda_event_stream)[row],
				   TRACE_NO_ROW, "Event record" };
	struct open_stage open;

	map_get(&p->view.context_devices, (uint64_t)event->process << 32 | names.context, &device);
	queue = find_queue(p, event->process, names.context, names.stream, (uint32_t)device,
			   gpus_find(&p->view.gpus, event->process, (uint32_t)device));
	id = perfetto_event_id(last->base) + last->rows + row;
	if (open_stage(p, event, id, queue,
		       find_class(p, named_key(EVENT_CUDA_EVENT, 0), STAGE_EVENT), &names,
		       &open) < 0)
		return -ENOMEM;
	perfetto_argument(
		&p->out, IN_LAUNCH, ARG_CORRELATION,
		(int64_t)trace_u64(t, TABLE_cuda_event, COLUMN_cuda_event_correlation)[row]);
	perfetto_argument(&p->out, IN_LAUNCH, ARG_EVENT,
			  trace_u32(t, TABLE_cuda_event, COLUMN_cuda_event_event)[row]);
	close_stage(p, &open);
	p->view.result->written[TABLE_cuda_event]++;
	return 0;
}
