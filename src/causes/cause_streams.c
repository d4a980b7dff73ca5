/*
 * cause_streams.c: streams in host order: what the next work of a stream waits for. A wait for an
 * event concerns all later work of its stream, but stream order implies it for all except the next.
 */
#include "causes/cause_sweep.h"

#include <stdlib.h>

#define PENDING_MAX 64u /* then a join stands for them */
/*
 * Streams with work at a time: each call that waits for all of them looks at each. GPUs run work of
 * at most 128 streams beside each other; of further ones such calls do not know that they wait.
 */
#define ACTIVE_MAX 4096u

static uint64_t key_of(uint32_t context, uint32_t id)
{
	return (uint64_t)context << 32 | id;
}

static int64_t add_lane(struct sweep *s, struct map *of, uint64_t key, struct task_lane lane,
			struct stream_state state)
{
	size_t index = s->c->lanes.count;

	lane.process = s->process;
	if (vec_push(&s->c->lanes, lane) < 0 || vec_push(&s->states, state) < 0 ||
	    map_put(of, key, index) < 0)
		return -ENOMEM;
	return (int64_t)index;
}

static int64_t context_at(struct sweep *s, uint32_t context)
{
	uint64_t *index = map_at(&s->contexts, context, UINT64_MAX);

	if (index && *index == UINT64_MAX) {
		*index = s->contexts_at.count;
		if (vec_push(&s->contexts_at, (struct context_state){ .default_tail = TASK_NONE }) <
		    0)
			return -ENOMEM;
	}
	return index ? (int64_t)*index : -ENOMEM;
}

int sweep_set_attribute(struct sweep *s, uint32_t context, uint32_t stream,
			enum stream_attribute value)
{
	return map_put(&s->attributes, key_of(context, stream), value);
}

int64_t sweep_stream(struct sweep *s, uint32_t context, uint32_t stream, uint32_t device)
{
	struct stream_state state = { .tail = TASK_NONE, .order = EDGE_stream };
	uint64_t key = key_of(context, stream), value = 0;
	int64_t item;

	if (map_get(&s->streams, key, &value))
		return (int64_t)value;
	item = context_at(s, context);
	if (item < 0)
		return item;
	map_get(&s->attributes, key, &value);
	s->c->unknown.blocking += value == 0;
	state.context = (uint32_t)item;
	state.is_default = value == STREAM_DEFAULT;
	state.blocks = value == STREAM_DEFAULT || value == STREAM_BLOCKING;
	return add_lane(s, &s->streams, key,
			(struct task_lane){ .id = stream, .context = context, .device = device },
			state);
}

int64_t sweep_thread(struct sweep *s, uint32_t thread)
{
	uint64_t lane;

	if (map_get(&s->threads, thread, &lane))
		return (int64_t)lane;
	return add_lane(s, &s->threads, thread,
			(struct task_lane){ .id = thread, .is_thread = true },
			(struct stream_state){ .tail = TASK_NONE });
}

int64_t sweep_add(struct sweep *s, struct task task)
{
	if (s->c->tasks.count >= TASKS_MAX)
		return E_LIMIT;
	task.edges = (uint32_t)s->c->edges.count;
	if (vec_push(&s->c->tasks, task) < 0)
		return -ENOMEM;
	return (int64_t)s->c->tasks.count - 1;
}

int sweep_edge(struct sweep *s, uint32_t from, enum edge_kind kind)
{
	return vec_push(&s->c->edges, ((struct task_edge){ from, (uint8_t)kind }));
}

/* The default stream waits for all blocking streams of its context, and they for it. */
static int add_default_edges(struct sweep *s, struct stream_state *st)
{
	struct context_state *context = &s->contexts_at.data[st->context];
	int code = 0;

	if (!st->is_default) {
		if (st->default_seen != context->default_tasks)
			code = sweep_edge(s, context->default_tail, EDGE_null_stream);
		st->default_seen = context->default_tasks;
		return code;
	}
	for (size_t i = 0; i < context->dirty.count && code >= 0; i++) {
		struct stream_state *other = &s->states.data[context->dirty.data[i]];

		other->is_dirty = false;
		code = sweep_edge(s, other->tail, EDGE_null_stream);
	}
	context->dirty.count = 0;
	return code;
}

int sweep_set_tail(struct sweep *s, uint32_t lane, uint32_t task)
{
	struct stream_state *st = &s->states.data[lane];
	struct context_state *context = &s->contexts_at.data[st->context];

	st->tail = task;
	st->order = EDGE_stream;
	if (st->is_default) {
		context->default_tail = task;
		context->default_tasks++;
	} else if (st->blocks && !st->is_dirty) {
		st->is_dirty = true;
		if (vec_push(&context->dirty, lane) < 0)
			return -ENOMEM;
	}
	if (st->is_active || s->active.count >= ACTIVE_MAX)
		return 0;
	st->is_active = true;
	return vec_push(&s->active, lane);
}

/*
 * Two threads that launch into one stream do so in the order of their calls inside of the driver,
 * of which only the beginning is known. Where the GPU contradicts it, the two have no edge.
 */
static uint32_t previous_of(struct sweep *s, const struct task *task, uint32_t tail)
{
	const struct task *before = tail == TASK_NONE ? NULL : &s->c->tasks.data[tail];

	if (!before || task->kind == TASK_JOIN || task->end_ns > before->start_ns)
		return tail;
	s->c->reordered++;
	return before->previous;
}

int64_t sweep_append(struct sweep *s, struct task task)
{
	struct stream_state *st = &s->states.data[task.lane];
	int64_t index;
	int code;

	task.order = st->order;
	task.previous = previous_of(s, &task, st->tail);
	index = sweep_add(s, task);
	if (index < 0)
		return index;
	for (size_t i = 0; i < st->pending.count; i++)
		if (sweep_edge(s, st->pending.data[i], EDGE_event) < 0)
			return -ENOMEM;
	st->pending.count = 0;
	code = st->blocks ? add_default_edges(s, st) : 0;
	if (code >= 0)
		code = sweep_set_tail(s, task.lane, (uint32_t)index);
	return code < 0 ? code : index;
}

static uint64_t end_of_edges(const struct causes *c, uint32_t index)
{
	const struct task *join = &c->tasks.data[index];
	uint64_t end_ns = join->previous == TASK_NONE ? 0 : c->tasks.data[join->previous].end_ns;

	for (size_t i = join->edges; i < c->edges.count; i++)
		end_ns = MAX(end_ns, c->tasks.data[c->edges.data[i].from].end_ns);
	return end_ns;
}

int sweep_settle(struct sweep *s, uint32_t lane)
{
	const struct stream_state *st = &s->states.data[lane];
	const struct context_state *context = &s->contexts_at.data[st->context];
	bool waits_for_default =
		st->blocks && !st->is_default && st->default_seen != context->default_tasks;
	struct task *join;
	int64_t index;

	if (!st->pending.count && !waits_for_default && !(st->is_default && context->dirty.count))
		return 0;
	index = sweep_append(s, (struct task){ .row = TRACE_NO_ROW,
					       .lane = lane,
					       .launch = TASK_NONE,
					       .kind = TASK_JOIN });
	if (index < 0)
		return (int)index;
	join = &s->c->tasks.data[index];
	join->start_ns = join->end_ns = end_of_edges(s->c, (uint32_t)index);
	return 0;
}

int sweep_record_event(struct sweep *s, uint32_t lane, uint64_t event)
{
	uint32_t capture = s->states.data[lane].capture, tail;
	int code = 0;

	if (capture)
		return map_put(&s->events, event, EVENT_CAPTURED + capture);
	code = sweep_settle(s, lane);
	if (code < 0)
		return code;
	tail = s->states.data[lane].tail;
	return map_put(&s->events, event, tail == TASK_NONE ? 0 : tail + UINT64_C(1));
}

static int join_capture(struct sweep *s, uint32_t lane, uint32_t capture)
{
	struct stream_state *st = &s->states.data[lane];
	bool is_known = st->capture != 0;

	st->capture = capture;
	return is_known ? 0 : vec_push(&s->capturing, lane);
}

int sweep_wait_event(struct sweep *s, uint32_t lane, uint64_t event)
{
	struct stream_state *st = &s->states.data[lane];
	uint64_t value;

	if (!map_get(&s->events, event, &value)) {
		s->c->unknown.events++;
		s->c->unknown.stream_waits++;
		return 0;
	}
	if (value >= EVENT_CAPTURED)
		return join_capture(s, lane, (uint32_t)(value - EVENT_CAPTURED));
	if (!value || st->capture)
		return 0;
	for (size_t i = 0; i < st->pending.count; i++)
		if (st->pending.data[i] == value - 1)
			return 0;
	if (st->pending.count >= PENDING_MAX && sweep_settle(s, lane) < 0)
		return -ENOMEM;
	st = &s->states.data[lane];
	return vec_push(&st->pending, (uint32_t)(value - 1));
}

int sweep_begin_capture(struct sweep *s, uint32_t lane)
{
	return join_capture(s, lane, ++s->captures);
}

void sweep_end_capture(struct sweep *s, uint32_t lane)
{
	uint32_t capture = s->states.data[lane].capture;
	size_t kept = 0;

	for (size_t i = 0; i < s->capturing.count; i++) {
		uint32_t other = s->capturing.data[i];

		if (s->states.data[other].capture == capture)
			s->states.data[other].capture = 0;
		else
			s->capturing.data[kept++] = other;
	}
	s->capturing.count = kept;
}

void sweep_end_process(struct sweep *s)
{
	map_clear(&s->threads);
	map_clear(&s->streams);
	map_clear(&s->contexts);
	map_clear(&s->attributes);
	map_clear(&s->channels);
	map_clear(&s->events);
	map_clear(&s->polls);
	s->active.count = s->capturing.count = 0;
}

void sweep_release(struct sweep *s)
{
	for (size_t i = 0; i < s->states.count; i++)
		vec_release(&s->states.data[i].pending);
	for (size_t i = 0; i < s->contexts_at.count; i++)
		vec_release(&s->contexts_at.data[i].dirty);
	map_release(&s->threads);
	map_release(&s->streams);
	map_release(&s->contexts);
	map_release(&s->attributes);
	map_release(&s->channels);
	map_release(&s->events);
	map_release(&s->polls);
	vec_release(&s->states);
	vec_release(&s->contexts_at);
	vec_release(&s->active);
	vec_release(&s->capturing);
}
