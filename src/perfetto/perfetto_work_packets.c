#include "perfetto/perfetto_work_packets.h"

/* Keys of classes other than kernels: the stage. */
#define STAGE_CLASS (UINT64_C(1) << 63)

#define ARGUMENT_NAME(id, name) [ARG_##id] = name,
static const char *const argument_names[ARG_END] = { PERFETTO_ARGUMENTS(ARGUMENT_NAME) };

void perfetto_works_restart(struct perfetto_works *g, uint32_t sequence)
{
	g->sequence = (struct perfetto_sequence){ .id = sequence };
	map_clear(&g->stages);
	map_clear(&g->shared->kernel_names);
	map_clear(&g->context_iids);
	for (size_t i = 0; i < g->queues.count; i++)
		g->queues.data[i].defined = false;
	for (size_t i = 0; i < g->classes.count; i++)
		g->classes.data[i].defined = false;
}

void perfetto_works_release(struct perfetto_works *g)
{
	map_release(&g->contexts);
	map_release(&g->queue_index);
	map_release(&g->class_index);
	map_release(&g->stages);
	map_release(&g->own.kernel_names);
	map_release(&g->context_iids);
	vec_release(&g->queues);
	vec_release(&g->classes);
}

/* Two small numbers here, and three twice below: less than the arrays hold. */
static void encode_queue(struct gpu_queue *queue, uint32_t device)
{
	struct strbuf s = { .data = (char *)queue->arguments };

	perfetto_argument(&s, IN_LAUNCH, ARG_DEVICE, device);
	perfetto_argument(&s, IN_LAUNCH, ARG_STREAM, queue->stream);
	queue->arguments_length = (uint8_t)s.length;
}

static void encode_launch(struct gpu_class *class, const struct row_kernel_config *k)
{
	struct strbuf s = { .data = (char *)class->launch };

	if (row_has(k, COLUMN_kernel_config_grid_x))
		perfetto_dimensions(&s, 1, (uint32_t[]){ k->grid_x, k->grid_y, k->grid_z });
	if (row_has(k, COLUMN_kernel_config_block_x))
		perfetto_dimensions(&s, 2, (uint32_t[]){ k->block_x, k->block_y, k->block_z });
	class->launch_length = (uint8_t)s.length;
}

uint64_t perfetto_works_queue(struct perfetto_works *g, const struct gpu_queue *queue,
			      uint32_t device)
{
	uint64_t *position =
		map_at(&g->queue_index, (uint64_t)queue->context << 32 | queue->stream, UINT64_MAX);
	struct gpu_queue added = *queue;
	uint64_t context;

	if (!position || *position != UINT64_MAX)
		return position ? *position : UINT64_MAX;
	context = map_number(&g->contexts, queue->context);
	added.context_iid = g->context_base + (uint32_t)context;
	added.iid = 2 * (g->shared->queues + 1);
	encode_queue(&added, device);
	if (!context || vec_push(&g->queues, added) < 0)
		return UINT64_MAX;
	g->shared->queues++;
	*position = g->queues.count - 1;
	return *position;
}

static uint64_t stage_iid(uint64_t number)
{
	return 2 * number + 1;
}

/* *is_new: whether it was created. */
static uint64_t find_class(struct perfetto_works *g, uint64_t key, uint64_t stage, bool *is_new)
{
	struct gpu_class class = { .stage_iid = stage_iid(stage) };
	uint64_t *position = map_at(&g->class_index, key, UINT64_MAX);

	*is_new = false;
	if (!position || *position != UINT64_MAX)
		return position ? *position : UINT64_MAX;
	if (vec_push(&g->classes, class) < 0)
		return UINT64_MAX;
	*is_new = true;
	*position = g->classes.count - 1;
	return *position;
}

uint64_t perfetto_works_class(struct perfetto_works *g, uint64_t stage)
{
	bool is_new;

	return find_class(g, STAGE_CLASS | stage, stage, &is_new);
}

uint64_t perfetto_works_kernel(struct perfetto_works *g, uint64_t key,
			       const struct row_kernel_config *config)
{
	bool is_new;
	uint64_t position = find_class(g, key, STAGE_KERNELS + config->name, &is_new);

	if (!is_new)
		return position;
	g->classes.data[position].kernel_iid = position + 1;
	encode_launch(&g->classes.data[position], config);
	return position;
}

bool perfetto_works_reserve_name(struct perfetto_works *g, uint64_t class, const char *name,
				 size_t length)
{
	uint64_t iid = g->classes.data[class].stage_iid;
	uint64_t *first = map_at(&g->shared->kernel_names, hash_bytes(name, length), iid);

	return !first || *first == iid;
}

static void name_shown(struct strbuf *s, const struct table_schema *table)
{
	for (uint64_t left = table->shown; left; left &= left - 1) {
		int column = __builtin_ctzll(left);
		const char *name = table->columns[column].name;

		perfetto_intern_name(s, DATA_ARGUMENT_NAMES,
				     perfetto_argument_iid(table->id, column), name, strlen(name));
	}
}

static void name_arguments(struct strbuf *s)
{
	for (size_t i = 1; i < ARG_END; i++)
		perfetto_intern_name(s, DATA_ARGUMENT_NAMES, i, argument_names[i],
				     strlen(argument_names[i]));
	for (int i = 0; i < GPU_WORK_KINDS; i++)
		name_shown(s, schema_gpu_work[i]);
	name_shown(s, schema_table(TABLE_cuda_event));
}

/* Writes the interned data that a packet needs and this file lacks. */
static void define(struct perfetto_works *g, struct strbuf *s, struct gpu_queue *queue,
		   struct gpu_class *class, const struct perfetto_work_texts *texts, bool is_first)
{
	size_t token = proto_open(s, PACKET_INTERNED_DATA);

	if (is_first)
		name_arguments(s);
	if (!queue->defined) {
		perfetto_intern_specification(s, queue->iid, texts->queue, strlen(texts->queue),
					      PERFETTO_OTHER);
		if (map_add(&g->context_iids, queue->context_iid) > 0)
			perfetto_intern_context(s, queue->context_iid, texts->pid);
	}
	if (!class->defined) {
		if (map_add(&g->stages, class->stage_iid) > 0)
			perfetto_intern_specification(
				s, class->stage_iid, texts->stage, texts->stage_length,
				class->kernel_iid ? PERFETTO_COMPUTE : PERFETTO_OTHER);
		if (class->kernel_iid)
			perfetto_kernel_define(s, class->kernel_iid, &texts->kernel);
	}
	proto_close(s, token);
	queue->defined = true;
	class->defined = true;
}

void perfetto_work_open(struct perfetto_works *g, struct strbuf *s,
			const struct perfetto_work *work, const struct perfetto_work_texts *texts,
			struct open_work *open)
{
	struct gpu_queue *queue = &g->queues.data[work->queue];
	struct gpu_class *class = &g->classes.data[work->class];
	struct perfetto_stage stage = {
		.event_id = work->event_id,
		.duration_ns = work->duration_ns,
		.queue_iid = queue->iid,
		.stage_iid = class->stage_iid,
		.gpu = queue->gpu,
		.context_iid = queue->context_iid,
		.kernel_iid = class->kernel_iid,
		.waited_for = work->waited_for,
	};
	size_t defaults;

	open->packet = perfetto_sequence_open(s, &g->sequence, work->start_ns, &defaults);
	if (unlikely(defaults))
		proto_close(s, defaults);
	if (unlikely(texts))
		define(g, s, queue, class, texts, defaults != 0);
	open->stage = perfetto_stage_open(s, &stage);
	open->launch = proto_open(s, STAGE_LAUNCH);
	raw_add_part(s, class->launch, class->launch_length);
	raw_add_part(s, queue->arguments, queue->arguments_length);
}

void perfetto_work_close(struct strbuf *s, const struct open_work *open)
{
	proto_close(s, open->launch);
	proto_close(s, open->stage);
	proto_close(s, open->packet);
}
