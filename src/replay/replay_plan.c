#include "replay/replay_plan.h"

#include <stdlib.h>
#include <string.h>

#include "causes/simulate.h"
#include "replay/replay_plan_state.h"

int replay_plan_load(struct trace *t, struct error *e)
{
	static const struct {
		enum table_id table;
		uint64_t columns;
	} needs[] = {
		{ TABLE_kernel, COLUMN_BITS(kernel, config) },
		{ TABLE_kernel_config,
		  COLUMN_BITS(kernel_config, grid_x, grid_y, grid_z, block_x, block_y, block_z,
			      static_shared_bytes, dynamic_shared_bytes) },
		{ TABLE_memcpy, COLUMN_BITS(memcpy, bytes, kind, source_kind, destination_kind) },
		{ TABLE_memset, COLUMN_BITS(memset, bytes, value) },
		{ TABLE_stream, COLUMN_BITS(stream, id, context, priority, non_blocking) },
		{ TABLE_context, COLUMN_BITS(context, id, device, null_stream) },
	};
	int code = causes_load(t, e);

	for (size_t i = 0; i < ARRAY_SIZE(needs) && code >= 0; i++)
		code = trace_load(t, needs[i].table, needs[i].columns, e);
	return code;
}

/* --- streams --- */

static uint64_t key_of(uint32_t context, uint32_t id)
{
	return (uint64_t)context << 32 | id;
}

static int index_streams(struct plan_maker *m)
{
	const struct trace *t = trace_of(m);
	const struct stream_columns *s = stream_columns(t);
	const struct context_columns *c = context_columns(t);
	int code = 0;

	for (uint64_t row = trace_first_row(t, TABLE_stream, m->p->process),
		      end = trace_first_row(t, TABLE_stream, m->p->process + UINT64_C(1));
	     row < end && code >= 0; row++)
		code = map_put(&m->attributes, key_of(s->context[row], s->id[row]), row);
	for (uint64_t row = trace_first_row(t, TABLE_context, m->p->process),
		      end = trace_first_row(t, TABLE_context, m->p->process + UINT64_C(1));
	     row < end && code >= 0; row++)
		code = map_put(&m->contexts, c->id[row], row);
	return code;
}

/* Streams of which it is unknown whether they wait for the default one do not. */
static void describe_stream(const struct plan_maker *m, struct replay_stream *out)
{
	const struct stream_columns *s = stream_columns(trace_of(m));
	const struct context_columns *c = context_columns(trace_of(m));
	uint64_t row;

	if (map_get(&m->attributes, key_of(out->context, out->id), &row)) {
		out->is_blocking = column_has(s->valid.non_blocking, row) && !s->non_blocking[row];
		if (column_has(s->valid.priority, row))
			out->priority = s->priority[row];
	}
	if (!map_get(&m->contexts, out->context, &row))
		return;
	out->device = c->device[row];
	out->is_default = column_has(c->valid.null_stream, row) && c->null_stream[row] == out->id;
}

/* The stream of a lane, or -ENOMEM. */
static int64_t stream_at(struct plan_maker *m, uint32_t lane)
{
	const struct task_lane *of = &m->c->lanes.data[lane];
	struct replay_stream stream = { .id = of->id,
					.context = of->context,
					.device = of->device == TRACE_NO_ROW ? 0 : of->device };

	if (m->stream_of[lane] != STREAM_NONE)
		return m->stream_of[lane];
	describe_stream(m, &stream);
	stream.device = MIN(stream.device, REPLAY_DEVICES_MAX - 1);
	m->p->devices = MAX(m->p->devices, stream.device + 1);
	m->stream_of[lane] = (uint32_t)m->p->streams.count;
	return vec_push(&m->p->streams, stream) < 0 ? -ENOMEM : (int64_t)m->stream_of[lane];
}

/* --- operations --- */

/* The number of a thread: there is one, unless threads make calls side by side. */
static int64_t thread_at(struct plan_maker *m, uint32_t lane)
{
	uint64_t number = m->is_beside ? map_number(&m->threads, lane) : 1;

	if (!number)
		return -ENOMEM;
	while (m->last_ns.count < number)
		if (vec_push(&m->last_ns, m->p->start_ns) < 0)
			return -ENOMEM;
	return (int64_t)number - 1;
}

static int begin_call(struct plan_maker *m, uint32_t i, bool is_call)
{
	const struct task *task = task_at(m, i);
	struct arrival waited = causes_return(m->c, i);
	int64_t thread = is_call ? thread_at(m, task->lane) : 0;

	m->call = (struct current_call){ .start_ns = task->start_ns,
					 .end_ns = is_call ? task->end_ns : task->start_ns,
					 .thread = (uint32_t)thread,
					 .is_new = true };
	m->call.own_ns = m->call.end_ns - m->call.start_ns;
	if (is_call && waited.from != TASK_NONE) {
		m->call.own_ns = MIN(m->call.own_ns, task->end_ns - waited.ns);
		m->call.is_queued = waited.kind == EDGE_queue_full;
	}
	return thread < 0 ? -ENOMEM : 0;
}

static int add_op(struct plan_maker *m, uint32_t stream, struct replay_work work)
{
	struct replay_op op = { .work = work, .stream = stream, .thread = m->call.thread };
	uint64_t *last_ns = &m->last_ns.data[op.thread];

	if (m->call.is_new) {
		op.work.flags |= OP_FIRST;
		op.call_ns = m->call.start_ns;
		op.own_ns = m->call.own_ns;
		op.gap_ns = op.call_ns - MIN(*last_ns, op.call_ns);
		*last_ns = MAX(*last_ns, m->call.end_ns);
		m->p->end_ns = MAX(m->p->end_ns, m->call.end_ns);
		m->call.is_new = false;
	}
	m->p->counts[work.kind]++;
	return vec_push(&m->p->ops, op);
}

/* The event of a task gets free with its last use, unless other threads may be waiting for it. */
static int use_event(struct plan_maker *m, uint32_t task, uint64_t *event)
{
	uint32_t stream;

	if (!map_get(&m->events, task, event))
		return 0;
	if (--m->uses[task - m->first] || m->is_beside)
		return 1;
	map_remove(&m->events, task, event);
	stream = m->stream_of[task_at(m, task)->lane];
	return vec_push(&m->free_events,
			((struct free_event){ (uint32_t)*event,
					      m->p->streams.data[stream].device })) < 0
		       ? -ENOMEM
		       : 1;
}

static int add_record(struct plan_maker *m, uint32_t task, uint32_t stream)
{
	const struct free_event *last = m->free_events.data + m->free_events.count;
	uint32_t event = m->p->events;

	if (!m->uses[task - m->first])
		return 0;
	/* The driver has an event's GPU from its first record. */
	if (m->free_events.count && last[-1].device == m->p->streams.data[stream].device)
		event = m->free_events.data[--m->free_events.count].event;
	else
		m->p->events++;
	if (map_put(&m->events, task, event) < 0)
		return -ENOMEM;
	return add_op(m, stream,
		      (struct replay_work){ .kind = REPLAY_event_record, .item = event });
}

/* What the stream waits for before a piece of work, or at a join. */
static int add_waits(struct plan_maker *m, uint32_t i, uint32_t stream)
{
	const struct task *task = task_at(m, i);
	uint64_t event;
	int code = 0;

	for (size_t k = task->edges; k < task[1].edges && code >= 0; k++) {
		const struct task_edge *edge = &m->c->edges.data[k];

		if (!is_by_event(task, edge->kind) || !is_selected(m, edge->from))
			continue;
		code = use_event(m, edge->from, &event);
		if (code > 0)
			code = add_op(m, stream,
				      (struct replay_work){ .kind = REPLAY_event_wait,
							    .item = (uint32_t)event });
	}
	return code;
}

static int add_synchronization(struct plan_maker *m, const struct task_edge *edge,
			       bool *device_done)
{
	const struct task *from = task_at(m, edge->from);
	int64_t stream = m->stream_of[from->lane];
	struct replay_work work = { .flags = OP_WAITS };
	uint64_t event;
	int code;

	if (stream == STREAM_NONE)
		return 0; /* nothing of it is replayed */
	switch (edge->kind) {
	case EDGE_sync_stream:
		work.kind = REPLAY_stream_synchronize;
		return add_op(m, (uint32_t)stream, work);
	case EDGE_sync_context:
		if (*device_done)
			return 0;
		*device_done = true;
		work.kind = REPLAY_device_synchronize;
		return add_op(m, (uint32_t)stream, work);
	case EDGE_wait:
	case EDGE_sync_event:
	case EDGE_query:
		if (!is_selected(m, edge->from))
			return 0;
		m->p->substituted[SUBSTITUTION_assumed_waits] += edge->kind == EDGE_wait;
		code = use_event(m, edge->from, &event);
		work.kind = REPLAY_event_synchronize;
		work.item = (uint32_t)event;
		return code > 0 ? add_op(m, (uint32_t)stream, work) : code;
	default:
		return 0;
	}
}

static int add_call(struct plan_maker *m, uint32_t i)
{
	const struct task *task = task_at(m, i);
	bool device_done = false;
	int code = begin_call(m, i, true);

	for (size_t k = task->edges; k < task[1].edges && code >= 0 && is_selected(m, i); k++)
		code = add_synchronization(m, &m->c->edges.data[k], &device_done);
	return code;
}

/* --- work --- */

static int64_t shape_at(struct plan_maker *m, uint32_t config)
{
	const struct kernel_config_columns *c = kernel_config_columns(trace_of(m));
	uint64_t *number = map_at(&m->shapes, config, m->p->shapes.count);
	struct replay_shape shape = { .grid = { 1, 1, 1 }, .block = { 1, 1, 1 } };
	const uint32_t *values[] = { c->grid_x,  c->grid_y,  c->grid_z,
				     c->block_x, c->block_y, c->block_z };
	uint32_t *members[] = { &shape.grid[0],  &shape.grid[1],  &shape.grid[2],
				&shape.block[0], &shape.block[1], &shape.block[2] };

	if (!number || *number < m->p->shapes.count)
		return number ? (int64_t)*number : -ENOMEM;
	for (unsigned i = 0; i < 6 && config != TRACE_NO_ROW; i++)
		if (values[i])
			*members[i] = MAX(values[i][config], 1);
	if (config != TRACE_NO_ROW && c->static_shared_bytes && c->dynamic_shared_bytes)
		shape.shared_bytes = (uint32_t)MIN((uint64_t)c->static_shared_bytes[config] +
							   c->dynamic_shared_bytes[config],
						   UINT32_MAX);
	return vec_push(&m->p->shapes, shape) < 0 ? -ENOMEM : (int64_t)*number;
}

static int describe_kernel(struct plan_maker *m, uint32_t config, struct replay_work *out)
{
	int64_t shape = shape_at(m, config);

	out->item = (uint32_t)shape;
	return shape < 0 ? -ENOMEM : 0;
}

static void describe_copy(struct plan_maker *m, uint32_t row, struct replay_work *out)
{
	static const uint8_t plain[] = {
		[copy_kind_HtoA] = copy_kind_HtoD, [copy_kind_AtoH] = copy_kind_DtoH,
		[copy_kind_AtoA] = copy_kind_DtoD, [copy_kind_AtoD] = copy_kind_DtoD,
		[copy_kind_DtoA] = copy_kind_DtoD, [copy_kind_unknown] = copy_kind_DtoD,
		[copy_kind_HtoD] = copy_kind_HtoD, [copy_kind_DtoH] = copy_kind_DtoH,
		[copy_kind_DtoD] = copy_kind_DtoD, [copy_kind_HtoH] = copy_kind_HtoH,
		[copy_kind_PtoP] = copy_kind_PtoP,
	};
	const struct memcpy_columns *c = memcpy_columns(trace_of(m));
	uint8_t kind = c->kind[row];

	out->bytes = c->bytes[row];
	out->copy_kind = kind < ARRAY_SIZE(plain) ? plain[kind] : copy_kind_DtoD;
	m->p->substituted[SUBSTITUTION_copy_kinds] += out->copy_kind != kind;
	if (c->source_kind[row] == memory_kind_pageable ||
	    c->destination_kind[row] == memory_kind_pageable)
		out->flags |= OP_PAGEABLE;
}

static enum replay_kind kind_of(const struct plan_maker *m, const struct task *task)
{
	const struct memcpy_columns *c = memcpy_columns(trace_of(m));
	const struct memset_columns *s = memset_columns(trace_of(m));

	if (task->kind == GPU_WORK_memcpy && c->bytes && column_has(c->valid.bytes, task->row))
		return REPLAY_memcpy;
	if (task->kind == GPU_WORK_memset && s->bytes && column_has(s->valid.bytes, task->row))
		return REPLAY_memset;
	return REPLAY_kernel;
}

static void describe_memset(struct plan_maker *m, uint32_t row, struct replay_work *out)
{
	const struct memset_columns *s = memset_columns(trace_of(m));

	out->bytes = s->bytes[row];
	out->value = s->value ? (uint8_t)s->value[row] : 0;
}

int describe_work(struct plan_maker *m, const struct task *task, struct replay_work *out)
{
	uint64_t ns = task->end_ns - task->start_ns, *substituted = m->p->substituted;

	*out = (struct replay_work){ .kind = kind_of(m, task),
				     .duration_ns = MIN(ns, REPLAY_KERNEL_NS_MAX) };
	if (out->kind == REPLAY_memcpy)
		describe_copy(m, task->row, out);
	if (out->kind == REPLAY_memset)
		describe_memset(m, task->row, out);
	if (out->kind != REPLAY_kernel)
		return 0;
	substituted[SUBSTITUTION_sizes] +=
		task->kind == GPU_WORK_memcpy || task->kind == GPU_WORK_memset;
	substituted[SUBSTITUTION_whole_graphs] += task->kind == GPU_WORK_graph_launch;
	substituted[SUBSTITUTION_long_kernels] += ns > REPLAY_KERNEL_NS_MAX;
	return describe_kernel(m,
			       task->kind == GPU_WORK_kernel
				       ? kernel_columns(trace_of(m))->config[task->row]
				       : TRACE_NO_ROW,
			       out);
}

static void count_work(struct plan_maker *m, const struct task *task, uint32_t stream)
{
	struct replay_stream *s = &m->p->streams.data[stream];

	s->operations++;
	m->p->end_ns = MAX(m->p->end_ns, task->end_ns);
	if (kind_of(m, task) == REPLAY_kernel) {
		s->kernels++;
		s->kernel_ns += task->end_ns - task->start_ns;
	}
}

static int add_graph(struct plan_maker *m, uint32_t first, uint32_t end, uint32_t stream)
{
	int64_t graph = graph_at(m, first, end);

	if (graph < 0)
		return -ENOMEM;
	for (uint32_t i = first; i < end; i++)
		count_work(m, task_at(m, i), stream);
	return add_op(m, stream,
		      (struct replay_work){ .kind = REPLAY_graph,
					    .item = (uint32_t)graph,
					    .flags = m->call.is_queued ? OP_QUEUED : 0 });
}

static void average_nodes(struct replay_plan *p)
{
	for (size_t g = 0; g < p->graphs.count; g++)
		for (uint32_t n = 0; n < p->graphs.data[g].node_count; n++)
			p->nodes.data[p->graphs.data[g].first_node + n].work.duration_ns /=
				p->graphs.data[g].launches;
}

/* --- the plan --- */

/* A host function took what its stream stood still, except what an empty one takes. */
static int add_host_function(struct plan_maker *m, uint32_t i, uint32_t stream)
{
	const struct task *task = task_at(m, i);
	struct arrival best = causes_start(m->c, i);
	struct replay_work work = { .kind = REPLAY_host_function };
	uint64_t usual_ns = m->c->typical_ns[EDGE_host_function];

	m->p->skipped[SKIP_stream_memory] += task->order == EDGE_stream_memory;
	if (task->order != EDGE_host_function)
		return 0;
	if (best.kind == EDGE_host_function && task->start_ns - best.ns > usual_ns)
		work.duration_ns = MIN(task->start_ns - best.ns - usual_ns, REPLAY_KERNEL_NS_MAX);
	return add_op(m, stream, work);
}

static int add_work(struct plan_maker *m, uint32_t first, uint32_t end)
{
	const struct task *task = task_at(m, first);
	int64_t stream = stream_at(m, task->lane);
	struct replay_work work;
	int code = stream < 0 ? -ENOMEM : 0;

	if (task->launch == TASK_NONE && code >= 0) {
		m->p->substituted[SUBSTITUTION_unlaunched]++;
		code = begin_call(m, first, false);
	}
	for (uint32_t i = first; i < end && code >= 0; i++)
		code = add_waits(m, i, (uint32_t)stream);
	if (code >= 0)
		code = add_host_function(m, first, (uint32_t)stream);
	if (code >= 0 && is_node(m, task)) {
		code = add_graph(m, first, end, (uint32_t)stream);
	} else if (code >= 0) {
		code = describe_work(m, task, &work);
		if (task->flags & TASK_BLOCKS)
			work.flags |= OP_WAITS;
		if (m->call.is_queued)
			work.flags |= OP_QUEUED;
		count_work(m, task, (uint32_t)stream);
		if (code >= 0)
			code = add_op(m, (uint32_t)stream, work);
	}
	for (uint32_t i = first; i < end && code >= 0; i++)
		code = add_record(m, i, (uint32_t)stream);
	return code;
}

static int add_join(struct plan_maker *m, uint32_t i)
{
	int64_t stream = stream_at(m, task_at(m, i)->lane);
	int code = stream < 0 ? -ENOMEM : add_waits(m, i, (uint32_t)stream);

	return code < 0 ? code : add_record(m, i, (uint32_t)stream);
}

/* What ran at `since`: on each stream one kernel until the last of it ended. */
static int add_in_flight(struct plan_maker *m)
{
	int code = 0;

	for (uint32_t i = m->first; i < m->end && code >= 0; i++) {
		const struct task *task = task_at(m, i);
		struct replay_work work = { 0 };
		int64_t stream;

		if (!task_is_work(task) || !is_in_flight(m, i))
			continue;
		stream = stream_at(m, task->lane);
		code = stream < 0 ? -ENOMEM : describe_kernel(m, TRACE_NO_ROW, &work);
		work.duration_ns = task->end_ns - MAX(task->start_ns, m->p->start_ns);
		work.duration_ns = MIN(work.duration_ns, REPLAY_KERNEL_NS_MAX);
		if (code >= 0) {
			m->p->streams.data[stream].operations++;
			m->p->streams.data[stream].kernels++;
			m->p->streams.data[stream].kernel_ns += work.duration_ns;
			m->p->end_ns = MAX(m->p->end_ns, task->end_ns);
			code = add_op(m, (uint32_t)stream, work);
		}
	}
	return code;
}

static int add_all(struct plan_maker *m)
{
	uint32_t end;
	int code = vec_push(&m->last_ns, m->p->start_ns); /* also of work without a call */

	if (code >= 0)
		code = add_in_flight(m);

	for (uint32_t i = m->from; i < m->end && code >= 0; i = end) {
		end = i + 1;
		if (task_is_work(task_at(m, i)))
			end = group_end(m, i);
		if (task_at(m, i)->kind == TASK_CALL)
			code = add_call(m, i);
		else if (!is_selected(m, i))
			continue;
		else if (task_at(m, i)->kind == TASK_JOIN)
			code = add_join(m, i);
		else
			code = add_work(m, i, end);
	}
	m->p->threads = (uint32_t)m->last_ns.count;
	average_nodes(m->p);
	return code < 0 ? code
			: vec_push(&m->p->nodes,
				   ((struct replay_node){ .first_edge =
								  (uint32_t)m->p->edges.count }));
}

static uint64_t same_cost(void *user, enum cost_of what, uint32_t task, enum edge_kind edge,
			  uint64_t recorded_ns)
{
	(void)user, (void)what, (void)task, (void)edge;
	return recorded_ns;
}

/* What the time of a replay of everything would be, by the simulator: to the same end. */
static int simulate_all(struct plan_maker *m)
{
	struct simulation s = { .causes = m->c,
				.cost = same_cost,
				.turns = m->turns,
				.first = m->first,
				.end = m->end };
	_cleanup_free_ struct simulated *times =
		calloc(m->end - m->first + UINT64_C(1), sizeof(*times));
	int64_t end_ns = 0;

	if (!times)
		return -ENOMEM;
	simulate_tasks(&s, times);
	for (uint32_t i = m->from; i < m->end; i++)
		if (task_at(m, i)->end_ns <= m->p->end_ns)
			end_ns = MAX(end_ns, times[i - m->first].end_ns);
	m->p->simulated_ns = (uint64_t)MAX(end_ns - (int64_t)m->p->start_ns, 0);
	return 0;
}

static bool is_whole(const struct replay_options *o)
{
	return !o->since_ns && o->until_ns == UINT64_MAX && !o->first_op && !o->stream_count;
}

static int make(struct plan_maker *m, struct error *e)
{
	size_t tasks = m->end - m->first, lanes = m->c->lanes.count;
	_cleanup_free_ uint8_t *beside = calloc(trace_process_count(trace_of(m)) + 1, 1);
	int code;

	m->selected = calloc(tasks + 1, sizeof(*m->selected));
	m->uses = calloc(tasks + 1, sizeof(*m->uses));
	m->stream_of = malloc((lanes + 1) * sizeof(*m->stream_of));
	m->turns = beside ? causes_turns(m->c, beside) : NULL;
	if (!m->selected || !m->uses || !m->stream_of || !m->turns)
		return -ENOMEM;
	m->is_beside = beside[m->p->process];
	memset(m->stream_of, 0xff, lanes * sizeof(*m->stream_of));
	code = select_work(m, e);
	if (code >= 0)
		code = index_streams(m);
	if (code >= 0)
		code = add_all(m);
	return code >= 0 && is_whole(m->o) ? simulate_all(m) : code;
}

int replay_plan_make(struct replay_plan *p, const struct causes *c, const struct replay_options *o,
		     struct error *e)
{
	struct plan_maker m = { .p = p, .c = c, .o = o };
	struct map *maps[] = { &m.events,   &m.shapes, &m.threads, &m.attributes,
			       &m.contexts, &m.graphs, &m.nodes,   &m.seen };
	int code;

	*p = (struct replay_plan){
		.latency_ns = c->typical_ns[EDGE_stream],
		.graph_latency_ns = c->typical_ns[EDGE_graph] ?: c->typical_ns[EDGE_graph_order],
	};
	for (unsigned work = 0; work < GPU_WORK_KINDS; work++)
		m.work[work] = events_of(c->trace, schema_gpu_work[work]->id);
	code = select_process(&m, e);
	if (code >= 0)
		code = make(&m, e);
	for (size_t i = 0; i < ARRAY_SIZE(maps); i++)
		map_release(maps[i]);
	vec_release(&m.free_events);
	vec_release(&m.last_ns);
	free(m.selected);
	free(m.uses);
	free(m.stream_of);
	free(m.turns);
	return code == -ENOMEM ? error_set(e, code, "out of memory") : code;
}

void replay_plan_release(struct replay_plan *p)
{
	vec_release(&p->ops);
	vec_release(&p->streams);
	vec_release(&p->shapes);
	vec_release(&p->graphs);
	vec_release(&p->nodes);
	vec_release(&p->edges);
}
