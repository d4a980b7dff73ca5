/*
 * cause_build.c: builds the graph by one sweep over the calls of each process in the order of their
 * starts, which is the order in which streams got their work.
 */
#include "causes/causes.h"

#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "causes/cause_sweep.h"

const char *const edge_kind_names[] = {
#define EDGE(name, text) #name,
	EDGE_KINDS_LIST(EDGE)
#undef EDGE
};
const char *const edge_kind_texts[] = {
#define EDGE(name, text) text,
	EDGE_KINDS_LIST(EDGE)
#undef EDGE
};

/* An operation that takes no longer than this after the last one on its channel followed it. */
#define CHANNEL_NS UINT64_C(3000)

int causes_load(struct trace *t, struct error *e)
{
	static const struct {
		enum table_id table;
		uint64_t columns;
	} needs[] = {
		{ TABLE_api_call, COLUMN_BITS(api_call, start_ns, end_ns, function, thread, result,
					      stream, event, context) },
		{ TABLE_api_function, COLUMN_BITS(api_function, kind, waits_for) },
		{ TABLE_memcpy, COLUMN_BITS(memcpy, kind, source_kind, destination_kind, async) },
		{ TABLE_kernel, COLUMN_BITS(kernel, channel) },
		{ TABLE_context, COLUMN_BITS(context, id, null_stream) },
		{ TABLE_stream, COLUMN_BITS(stream, id, context, non_blocking) },
		{ TABLE_graph_edge, COLUMN_BITS(graph_edge, node, dependency, removed) },
		{ TABLE_graph_node, COLUMN_BITS(graph_node, node, original, graph) },
	};
	const uint32_t *launches;
	int code = 0;

	for (size_t i = 0; i < GPU_WORK_KINDS && code >= 0; i++) {
		enum table_id table = schema_gpu_work[i]->id;

		code = trace_launches(t, table, &launches, e);
		if (code >= 0)
			code = events_load(t, table, ROLES_TIMES | ROLES_PLACE | ROLES_GRAPH, e);
	}
	for (size_t i = 0; i < ARRAY_SIZE(needs) && code >= 0; i++)
		code = trace_load(t, needs[i].table, needs[i].columns, e);
	return code;
}

/* The work of a process by its call: that of call row r from first[r - first call] on. */
struct by_call {
	uint32_t *first;
	struct launched_work *items;
	size_t count;
	VEC(struct launched_work) orphans; /* without a recorded call, by start */
	size_t next_orphan;
};

struct call {
	uint64_t row, start_ns, end_ns;
	uint64_t handles; /* the row that has stream, event and result: of queries the last one */
	uint32_t task; /* its own, or that of the call that encloses it */
	bool is_nested;
	enum api_kind kind;
	enum synchronization_kind waits_for;
	int64_t lane; /* of its stream; -1: unknown */
};

static bool is_query(const struct call *call)
{
	return call->kind == api_kind_query;
}

ORDER(by_start, struct launched_work, UP(start_ns) ?: UP(work) ?: UP(row))

static enum api_kind kind_of(const struct trace *t, uint64_t call)
{
	uint32_t function = api_call_columns(t)->function[call];

	return function == TRACE_NO_ROW ? api_kind_other
					: (enum api_kind)api_function_columns(t)->kind[function];
}

/* The row of the call that launched work; TRACE_NO_ROW: it or its time is unknown. */
static uint32_t call_of(const struct sweep *s, unsigned work, uint64_t row)
{
	uint32_t call = s->work[work].launches ? s->work[work].launches[row] : TRACE_NO_ROW;

	return call != TRACE_NO_ROW && kind_of(s->trace, call) == api_kind_untimed ? TRACE_NO_ROW
										   : call;
}

/* Calls visit(user, work) for the timed work of the process. */
static int visit_work(struct sweep *s, struct by_call *b, uint64_t first_call,
		      int (*visit)(struct sweep *, struct by_call *, uint32_t call,
				   const struct launched_work *))
{
	int code = 0;

	for (uint32_t work = 0; work < GPU_WORK_KINDS; work++) {
		const struct event_columns *c = &s->work[work];
		uint64_t row = trace_first_row(s->trace, c->table, s->process),
			 end = trace_first_row(s->trace, c->table, s->process + 1);

		for (; row < end && code >= 0; row++) {
			uint32_t call = call_of(s, work, row);

			if (event_is_timed(c, row))
				code = visit(s, b,
					     call == TRACE_NO_ROW ? call
								  : call - (uint32_t)first_call,
					     &(struct launched_work){ c->start_ns[row],
								      (uint32_t)row, work });
		}
	}
	return code;
}

static int count_work(struct sweep *s, struct by_call *b, uint32_t call,
		      const struct launched_work *work)
{
	(void)s;
	if (call == TRACE_NO_ROW)
		return vec_push(&b->orphans, *work);
	b->first[call + 1]++;
	b->count++;
	return 0;
}

static int place_work(struct sweep *s, struct by_call *b, uint32_t call,
		      const struct launched_work *work)
{
	(void)s;
	if (call != TRACE_NO_ROW)
		b->items[b->first[call]++] = *work;
	return 0;
}

static void by_call_release(struct by_call *b)
{
	free(b->first);
	free(b->items);
	vec_release(&b->orphans);
}

static int by_call_make(struct sweep *s, struct by_call *b, uint64_t first_call, uint64_t calls)
{
	int code;

	b->first = calloc(calls + 2, sizeof(*b->first));
	if (!b->first)
		return -ENOMEM;
	code = visit_work(s, b, first_call, count_work);
	b->items = calloc(b->count + 1, sizeof(*b->items));
	if (code < 0 || !b->items)
		return -ENOMEM;
	for (uint64_t i = 0; i < calls; i++)
		b->first[i + 1] += b->first[i];
	visit_work(s, b, first_call, place_work); /* moves each `first` to the next one */
	memmove(b->first + 1, b->first, (calls + 1) * sizeof(*b->first));
	b->first[0] = 0;
	for (uint64_t i = 0; i < calls; i++)
		if (b->first[i + 1] - b->first[i] > 1)
			qsort(b->items + b->first[i], b->first[i + 1] - b->first[i],
			      sizeof(*b->items), by_start);
	vec_sort(&b->orphans, by_start);
	s->c->unknown.unlaunched += b->orphans.count;
	return 0;
}

/* --- the queue --- */

/* Replays the launches of the process. */
static int learn_queue(struct sweep *s, const struct by_call *b, uint64_t first_call,
		       uint64_t calls)
{
	const struct api_call_columns *a = api_call_columns(s->trace);
	struct queued begun;

	for (uint64_t i = 0; i < calls; i++) {
		uint64_t start_ns = a->start_ns[first_call + i], end_ns = a->end_ns[first_call + i];

		if (b->first[i + 1] == b->first[i] || end_ns < start_ns)
			continue;
		queue_begin(s->queue, end_ns, &begun);
		queue_count(s->queue, end_ns - start_ns);
		for (uint32_t w = b->first[i]; w < b->first[i + 1]; w++)
			if (queue_launch(s->queue, b->items[w].start_ns, TASK_NONE) < 0)
				return -ENOMEM;
	}
	queue_learn(s->queue);
	return 0;
}

/* The queue was full: the newest task, a launching call, returned when something began. */
static int add_queue_edge(struct sweep *s, const struct call *call, bool launches)
{
	struct queued begun;

	if (!s->queue->full || !launches || !queue_begin(s->queue, call->end_ns, &begun) ||
	    begun.start_ns <= call->start_ns || s->queue->heap.count < s->queue->full)
		return 0;
	return sweep_edge(s, begun.task, EDGE_queue_full);
}

static int fill_queue(struct sweep *s, uint32_t first_task)
{
	if (!s->queue->full)
		return 0;
	for (uint32_t i = first_task; i < s->c->tasks.count; i++)
		if (task_is_work(&s->c->tasks.data[i]) &&
		    queue_launch(s->queue, s->c->tasks.data[i].start_ns, i) < 0)
			return -ENOMEM;
	return 0;
}

/* --- work --- */

int sweep_task_of(struct sweep *s, const struct launched_work *work, uint32_t call,
		  struct task *task)
{
	const struct event_columns *c = &s->work[work->work];
	int64_t lane =
		sweep_stream(s, c->context[work->row], c->stream[work->row], c->device[work->row]);

	if (lane < 0)
		return (int)lane;
	*task = (struct task){ .start_ns = c->start_ns[work->row],
			       .end_ns = c->end_ns[work->row],
			       .row = work->row,
			       .lane = (uint32_t)lane,
			       .launch = call,
			       .kind = (uint8_t)work->work };
	return 0;
}

/*
 * Streams that share a hardware channel can be serialized although they are independent: the work
 * began when other work on the channel ended, and all that it waited for was over long before.
 */
static int add_false_dependency(struct sweep *s, uint32_t index)
{
	const struct kernel_columns *k = kernel_columns(s->trace);
	struct task *task = &s->c->tasks.data[index];
	const struct task *other;
	uint64_t *last;

	if (task->kind != GPU_WORK_kernel || !k->channel ||
	    !column_has(k->valid.channel, task->row))
		return 0;
	last = map_at(&s->channels,
		      (uint64_t)s->c->lanes.data[task->lane].device << 32 | k->channel[task->row],
		      index);
	if (!last)
		return -ENOMEM;
	other = &s->c->tasks.data[*last];
	*last = index;
	if (other->lane == task->lane || other->end_ns > task->start_ns ||
	    task->start_ns - other->end_ns > CHANNEL_NS ||
	    causes_start(s->c, index).ns + CHANNEL_NS > other->end_ns)
		return 0;
	return sweep_edge(s, (uint32_t)(other - s->c->tasks.data), EDGE_false_dependency);
}

static int append_work(struct sweep *s, const struct launched_work *work, uint32_t call)
{
	struct task task;
	int64_t index;
	int code = sweep_task_of(s, work, call, &task);

	index = code < 0 ? code : sweep_append(s, task);
	return index < 0 ? (int)index : add_false_dependency(s, (uint32_t)index);
}

static int append_orphans(struct sweep *s, struct by_call *b, uint64_t before_ns)
{
	int code = 0;

	for (; b->next_orphan < b->orphans.count && code >= 0; b->next_orphan++) {
		if (b->orphans.data[b->next_orphan].start_ns >= before_ns)
			break;
		code = append_work(s, &b->orphans.data[b->next_orphan], TASK_NONE);
		s->orphans++;
	}
	return code;
}

/* Whether a copy is one for which its call may wait. */
static bool may_block(const struct sweep *s, const struct task *task)
{
	const struct memcpy_columns *m = memcpy_columns(s->trace);
	uint32_t row = task->row;

	if (task->kind != GPU_WORK_memcpy || m->kind[row] == copy_kind_DtoD)
		return false;
	return (column_has(m->valid.async, row) && !m->async[row]) ||
	       m->source_kind[row] == memory_kind_pageable ||
	       m->destination_kind[row] == memory_kind_pageable || m->kind[row] == copy_kind_HtoH;
}

/*
 * By the times of the row, so that no table of drivers' rules is needed. One rule is documented and
 * the same everywhere: a copy from a device to pageable memory is over when its call returns, which
 * may take longer than other returns.
 */
static void find_blocking_copy(struct sweep *s, const struct call *call)
{
	struct task *task = &s->c->tasks.data[s->c->tasks.count - 1],
		    *of = &s->c->tasks.data[call->task];
	const struct memcpy_columns *m = memcpy_columns(s->trace);

	if (may_block(s, task) && task->start_ns <= call->end_ns &&
	    task->end_ns <= call->end_ns + CAUSES_CLOCK_NS &&
	    (task->end_ns + CAUSES_RETURN_NS >= call->end_ns ||
	     (m->kind[task->row] == copy_kind_DtoH &&
	      m->destination_kind[task->row] == memory_kind_pageable))) {
		task->flags |= TASK_BLOCKS;
		of->flags |= TASK_SYNC_CALL;
		s->c->counts[EDGE_copy]++;
	}
}

static int append_launched(struct sweep *s, const struct by_call *b, const struct call *call,
			   uint64_t first_call)
{
	uint32_t i = b->first[call->row - first_call], end = b->first[call->row - first_call + 1],
		 first_task = (uint32_t)s->c->tasks.count;
	int code = 0;

	if (i == end)
		return 0;
	s->c->tasks.data[call->task].flags |= TASK_LAUNCH_CALL;
	if (call->end_ns - call->start_ns >= CAUSES_LAUNCH_NS &&
	    (call->kind == api_kind_launch || call->kind == api_kind_graph_launch))
		s->c->tasks.data[call->task].flags |= TASK_LONG_LAUNCH;
	if (call->kind == api_kind_graph_launch)
		code = sweep_graph(s, b->items + i, end - i, call->task);
	else
		for (; i < end && code >= 0; i++)
			code = append_work(s, &b->items[i], call->task);
	if (code >= 0)
		find_blocking_copy(s, call);
	return code < 0 ? code : fill_queue(s, first_task);
}

/* --- calls --- */

/* The call waited for whatever ended shortly before it returned, if anything did. */
static int add_assumed(struct sweep *s, const struct call *call)
{
	uint32_t best = TASK_NONE;
	uint64_t end_ns = 0;

	for (size_t i = 0; i < s->active.count; i++) {
		uint32_t tail = s->states.data[s->active.data[i]].tail;
		const struct task *task = &s->c->tasks.data[tail];

		if (task->end_ns > MAX(end_ns, call->start_ns) && task->end_ns <= call->end_ns &&
		    task->end_ns + CAUSES_RETURN_NS >= call->end_ns) {
			best = tail;
			end_ns = task->end_ns;
		}
	}
	if (best == TASK_NONE) {
		if (call->kind == api_kind_synchronize)
			s->c->tasks.data[call->task].flags |= TASK_UNKNOWN_WAIT;
		return 0;
	}
	s->c->unknown.assumed++;
	return sweep_edge(s, best, EDGE_wait);
}

/*
 * A context's synchronization waits for all of its streams. Streams that were idle when it began
 * need not be looked at again before they have new work.
 */
static int add_context_edges(struct sweep *s, const struct call *call)
{
	const struct api_call_columns *a = api_call_columns(s->trace);
	bool is_known = a->context && column_has(a->valid.context, call->row);
	size_t kept = 0;
	int code = 0;

	for (size_t i = 0; i < s->active.count && code >= 0; i++) {
		uint32_t lane = s->active.data[i];
		struct stream_state *st = &s->states.data[lane];
		bool is_meant =
			!is_known || s->c->lanes.data[lane].context == a->context[call->row];

		if (is_meant)
			code = sweep_edge(s, st->tail, EDGE_sync_context);
		if (!is_meant || s->c->tasks.data[st->tail].end_ns > call->start_ns)
			s->active.data[kept++] = lane;
		else
			st->is_active = false;
	}
	s->active.count = kept;
	return code;
}

static int add_event_edge(struct sweep *s, const struct call *call)
{
	const struct api_call_columns *a = api_call_columns(s->trace);
	uint64_t value;

	if (!a->event || !column_has(a->valid.event, call->handles))
		return add_assumed(s, call);
	if (!map_get(&s->events, a->event[call->handles], &value)) {
		s->c->unknown.events++;
		return add_assumed(s, call);
	}
	return value && value < EVENT_CAPTURED
		       ? sweep_edge(s, (uint32_t)(value - 1),
				    is_query(call) ? EDGE_query : EDGE_sync_event)
		       : 0;
}

/* Adds the edges to the return of the newest task, which is this call's. */
static int add_returns(struct sweep *s, const struct call *call)
{
	uint32_t tail;

	if (call->kind == api_kind_release)
		return add_assumed(s, call);
	if (call->kind != api_kind_synchronize &&
	    (!is_query(call) || !sweep_query_is_done(s->trace, call->handles)))
		return 0;
	switch (call->waits_for) {
	case synchronization_kind_context:
		return add_context_edges(s, call);
	case synchronization_kind_event:
		return add_event_edge(s, call);
	default:
		if (call->lane < 0)
			return add_assumed(s, call);
		tail = s->states.data[call->lane].tail;
		return tail == TASK_NONE
			       ? 0
			       : sweep_edge(s, tail,
					    is_query(call) ? EDGE_query : EDGE_sync_stream);
	}
}

/* What a call does to its stream, before its own task. */
static int follow_stream(struct sweep *s, const struct call *call)
{
	const struct api_call_columns *a = api_call_columns(s->trace);
	uint32_t lane = (uint32_t)call->lane;
	bool has_event = a->event && column_has(a->valid.event, call->row);

	if (call->lane < 0) {
		/* A record on an unknown stream is not the event's earlier one. */
		if (call->kind == api_kind_event && has_event && !call->waits_for) {
			uint64_t value;

			map_remove(&s->events, a->event[call->row], &value);
		}
		return 0;
	}
	if (s->states.data[lane].capture && call->kind != api_kind_end_capture)
		s->c->captured++;
	switch (call->kind) {
	case api_kind_event:
		if (!has_event)
			return 0;
		return call->waits_for ? sweep_wait_event(s, lane, a->event[call->row])
				       : sweep_record_event(s, lane, a->event[call->row]);
	case api_kind_synchronize:
	case api_kind_query:
		return sweep_settle(s, lane);
	case api_kind_host_function:
		s->states.data[lane].order = EDGE_host_function;
		return 0;
	case api_kind_stream_memory:
		s->states.data[lane].order = EDGE_stream_memory;
		return 0;
	case api_kind_begin_capture:
		return sweep_begin_capture(s, lane);
	case api_kind_end_capture:
		sweep_end_capture(s, lane);
		return 0;
	default:
		return 0;
	}
}

static bool is_about_stream(const struct call *call)
{
	return call->kind == api_kind_event || call->kind == api_kind_host_function ||
	       call->kind == api_kind_stream_memory ||
	       ((call->kind == api_kind_synchronize || is_query(call)) &&
		call->waits_for == synchronization_kind_stream);
}

static int find_lane(struct sweep *s, struct call *call)
{
	const struct api_call_columns *a = api_call_columns(s->trace);
	bool has_stream = a->stream && column_has(a->valid.stream, call->handles) &&
			  column_has(a->valid.context, call->handles);

	call->lane = -1;
	if (has_stream)
		call->lane = sweep_stream(s, a->context[call->handles], a->stream[call->handles],
					  TRACE_NO_ROW);
	else if (is_about_stream(call)) {
		s->c->unknown.streams++;
		s->c->unknown.stream_waits +=
			call->waits_for == synchronization_kind_stream_wait_event;
	}
	return call->lane == -ENOMEM ? -ENOMEM : 0;
}

/* Appends the call's task, unless it is inside of another call of its thread. */
static int append_call(struct sweep *s, struct call *call, bool launches)
{
	int64_t lane = sweep_thread(s, api_call_columns(s->trace)->thread[call->row]), index;
	struct stream_state *st;
	int code;

	if (lane < 0)
		return (int)lane;
	st = &s->states.data[lane];
	call->task = st->tail;
	call->is_nested =
		st->tail != TASK_NONE && call->end_ns <= s->c->tasks.data[st->tail].end_ns;
	if (call->is_nested)
		return 0;
	index = sweep_add(s, (struct task){ .start_ns = call->start_ns,
					    .end_ns = call->end_ns,
					    .row = (uint32_t)call->row,
					    .lane = (uint32_t)lane,
					    .previous = st->tail,
					    .launch = TASK_NONE,
					    .kind = TASK_CALL,
					    .order = EDGE_program });
	if (index < 0)
		return (int)index;
	if (st->tail != TASK_NONE && st->default_seen != s->orphans)
		s->c->tasks.data[index].flags |= TASK_UNKNOWN_HOST;
	st->default_seen = s->orphans;
	st->tail = call->task = (uint32_t)index;
	code = add_returns(s, call);
	if (code >= 0)
		code = add_queue_edge(s, call, launches);
	if (s->c->edges.count > s->c->tasks.data[index].edges)
		s->c->tasks.data[index].flags |= TASK_SYNC_CALL;
	return code;
}

static int sweep_call(struct sweep *s, const struct by_call *b, uint64_t first_call, uint64_t row)
{
	const struct api_call_columns *a = api_call_columns(s->trace);
	const struct api_function_columns *f = api_function_columns(s->trace);
	uint32_t function = a->function[row];
	struct call call = { .row = row,
			     .start_ns = a->start_ns[row],
			     .handles = row,
			     .kind = kind_of(s->trace, row) };
	int code;

	if (is_query(&call))
		map_get(&s->polls, row, &call.handles);
	if (call.kind == api_kind_untimed || call.handles == POLL_INSIDE)
		return 0;
	call.end_ns = MAX(a->end_ns[call.handles], call.start_ns);
	if (function != TRACE_NO_ROW && f->waits_for && column_has(f->valid.waits_for, function))
		call.waits_for = (enum synchronization_kind)f->waits_for[function];
	code = find_lane(s, &call);
	if (code >= 0)
		code = follow_stream(s, &call);
	if (code >= 0)
		code = append_call(s, &call,
				   b->first[row - first_call] < b->first[row - first_call + 1]);
	return code < 0 ? code : append_launched(s, b, &call, first_call);
}

/* --- processes --- */

static int read_streams(struct sweep *s)
{
	const struct stream_columns *st = stream_columns(s->trace);
	const struct context_columns *c = context_columns(s->trace);
	int code = 0;

	for (uint64_t row = trace_first_row(s->trace, TABLE_stream, s->process),
		      end = trace_first_row(s->trace, TABLE_stream, s->process + 1);
	     row < end && code >= 0; row++)
		if (column_has(st->valid.non_blocking, row))
			code = sweep_set_attribute(s, st->context[row], st->id[row],
						   st->non_blocking[row] ? STREAM_NON_BLOCKING
									 : STREAM_BLOCKING);
	for (uint64_t row = trace_first_row(s->trace, TABLE_context, s->process),
		      end = trace_first_row(s->trace, TABLE_context, s->process + 1);
	     row < end && code >= 0; row++)
		if (c->null_stream && column_has(c->valid.null_stream, row))
			code = sweep_set_attribute(s, c->id[row], c->null_stream[row],
						   STREAM_DEFAULT);
	return code;
}

static int sweep_process(struct sweep *s)
{
	uint64_t first = trace_first_row(s->trace, TABLE_api_call, s->process),
		 end = trace_first_row(s->trace, TABLE_api_call, s->process + 1);
	const uint64_t *start_ns = api_call_columns(s->trace)->start_ns;
	struct by_call b = { NULL };
	int code = by_call_make(s, &b, first, end - first);

	if (code >= 0)
		code = learn_queue(s, &b, first, end - first);
	if (code >= 0)
		code = sweep_find_polls(s, first, end);
	if (code >= 0)
		code = read_streams(s);
	if (code >= 0)
		code = graph_edges_new(s);
	for (uint64_t row = first; row < end && code >= 0; row++) {
		code = append_orphans(s, &b, start_ns[row]);
		if (code >= 0)
			code = sweep_call(s, &b, first, row);
	}
	if (code >= 0)
		code = append_orphans(s, &b, UINT64_MAX);
	by_call_release(&b);
	graph_edges_free(s->graphs);
	s->graphs = NULL;
	sweep_end_process(s);
	return code;
}

static void count_untimed(struct sweep *s)
{
	for (unsigned work = 0; work < GPU_WORK_KINDS; work++)
		for (uint64_t row = 0; row < s->work[work].rows; row++)
			s->c->unknown.untimed += !event_is_timed(&s->work[work], row);
}

/* For the usual case, so that the array is not copied while it grows. */
static int reserve(struct sweep *s)
{
	uint64_t count = trace_rows(s->trace, TABLE_api_call) + 1;

	for (unsigned work = 0; work < GPU_WORK_KINDS; work++)
		count += s->work[work].rows;
	return vec_reserve(&s->c->tasks, count);
}

int causes_build(struct causes *c, const struct trace *t)
{
	_cleanup_free_ struct cause_queue *queue = calloc(1, sizeof(*queue));
	struct sweep s = { .c = c, .trace = t, .queue = queue };
	int code;

	*c = (struct causes){ .trace = t };
	for (unsigned work = 0; work < GPU_WORK_KINDS; work++)
		s.work[work] = events_of(t, schema_gpu_work[work]->id);
	count_untimed(&s);
	code = queue ? reserve(&s) : -ENOMEM;
	for (; s.process < trace_process_count(t) && code >= 0; s.process++)
		code = sweep_process(&s);
	if (code >= 0)
		code = (int)MIN(sweep_add(&s, (struct task){ .kind = TASK_JOIN }), 0);
	sweep_release(&s);
	if (queue)
		vec_release(&queue->heap);
	if (code >= 0)
		code = causes_measure(c);
	if (code < 0)
		causes_release(c);
	return code;
}

void causes_release(struct causes *c)
{
	vec_release(&c->tasks);
	vec_release(&c->edges);
	vec_release(&c->lanes);
}
