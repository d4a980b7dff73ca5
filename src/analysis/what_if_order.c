/*
 * what_if_order.c: work in another order: copies on streams of their own, streams as one, or the
 * work of a scope on another stream.
 *
 * `matches` of such a rule is by task: work that leaves its stream, or, if streams become one, all
 * work; and with 'overlap copies' calls that do not wait for their copy any more. Work that leaves
 * follows what left before it, and work that stays what stays. Nothing slows down work that then
 * runs side by side, so that the result is the best that it can be.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/what_if.h"
#include "base/map.h"
#include "trace/columns.h"

static const struct task *task_at(const struct what_if *w, uint32_t index)
{
	return &w->report->causes.tasks.data[index];
}

bool what_if_has_order(const struct what_if_rule *rule)
{
	return rule->target == WHAT_IF_overlap || rule->target == WHAT_IF_streams ||
	       rule->target == WHAT_IF_fuse || rule->target == WHAT_IF_graph;
}

/* --- what leaves --- */

static uint8_t direction_of(const struct what_if *w, uint32_t task)
{
	return memcpy_columns(w->report->trace)->kind[task_at(w, task)->row];
}

/* Not those of graphs, whose nodes have an order of their own. */
static bool is_copy(const struct what_if *w, uint32_t index)
{
	const struct task *task = task_at(w, index);
	uint8_t kind = task->kind == GPU_WORK_memcpy ? direction_of(w, index) : copy_kind_unknown;

	return (kind == copy_kind_HtoD || kind == copy_kind_DtoH) && task->launch != TASK_NONE &&
	       what_if_call_kind(w, task_at(w, task->launch)) != api_kind_graph_launch;
}

static bool leaves(const struct what_if *w, const struct what_if_rule *rule, const uint8_t *paths,
		   uint32_t index)
{
	const struct task *task = task_at(w, index);
	uint32_t scope;

	if (rule->target == WHAT_IF_overlap)
		return is_copy(w, index);
	if (rule->change == CHANGE_MERGE)
		return true;
	if (task->kind == TASK_JOIN && task->launch == TASK_NONE)
		return task->previous != TASK_NONE && task->previous >= w->from_task &&
		       rule->matches[task->previous - w->from_task];
	return task->launch != TASK_NONE &&
	       what_if_in_scope(w, task_at(w, task->launch), paths, &scope);
}

int what_if_match_order(const struct what_if *w, struct what_if_rule *rule)
{
	_cleanup_free_ uint8_t *paths = NULL;
	bool has_scope = rule->target == WHAT_IF_streams && rule->change == CHANGE_SPLIT;

	rule->matches = calloc(w->until_task - w->from_task + UINT64_C(1), 1);
	if (has_scope)
		paths = scope_paths_match(&w->report->ranges, w->report->trace, rule->glob);
	if (!rule->matches || (has_scope && !paths))
		return -ENOMEM;
	for (uint32_t i = w->from_task; i < w->until_task; i++) {
		if (task_at(w, i)->kind == TASK_CALL)
			continue;
		rule->matches[i - w->from_task] = leaves(w, rule, paths, i);
		if (rule->target == WHAT_IF_overlap && is_copy(w, i) &&
		    direction_of(w, i) == copy_kind_HtoD && task_at(w, i)->launch >= w->from_task)
			rule->matches[task_at(w, i)->launch - w->from_task] = true;
	}
	return 0;
}

/* --- two orders of a stream --- */

struct order {
	const struct what_if *w;
	const struct what_if_rule *rule;
	struct task_order *to;
	uint32_t *other; /* by task: the last before it on its stream that is of the other order */
	uint32_t engines[copy_kind_DtoH + 1]; /* 'overlap copies': the last copy by direction */
};

static bool has_left(const struct order *o, uint32_t task)
{
	return task != TASK_NONE && task >= o->w->from_task &&
	       o->rule->matches[task - o->w->from_task];
}

static uint32_t other_of(const struct order *o, uint32_t task)
{
	return task != TASK_NONE && task >= o->w->from_task ? o->other[task - o->w->from_task]
							    : TASK_NONE;
}

/* What a call that waits for a stream waits for there of the other order. */
static uint32_t other_of_call(const struct order *o, uint32_t call)
{
	const struct task *task = task_at(o->w, call);
	const struct task_edge *edge = &o->w->report->causes.edges.data[task->edges];

	if (task[1].edges == task->edges || edge->kind == EDGE_queue_full)
		return TASK_NONE;
	return other_of(o, edge->from);
}

static void order_task(struct order *o, uint32_t i)
{
	const struct task *task = task_at(o->w, i);
	struct task_order *to = &o->to[i - o->w->from_task];
	bool left = has_left(o, i), crosses = left != has_left(o, task->previous);
	uint32_t *engine;

	o->other[i - o->w->from_task] = crosses ? task->previous : other_of(o, task->previous);
	to->previous = crosses ? other_of(o, task->previous) : task->previous;
	if (o->rule->target != WHAT_IF_overlap)
		return;
	if (!left) { /* it needs what was copied for it */
		to->also = crosses && direction_of(o->w, task->previous) == copy_kind_HtoD
				   ? task->previous
				   : TASK_NONE;
		return;
	}
	engine = &o->engines[direction_of(o->w, i)];
	if (direction_of(o->w, i) == copy_kind_DtoH) /* it copies what that has made */
		to->also = o->other[i - o->w->from_task];
	to->previous = *engine;
	*engine = i;
}

static int split(struct order *o)
{
	const struct task_lane *lanes = o->w->report->causes.lanes.data;
	uint32_t process = UINT32_MAX;

	o->other = malloc((o->w->until_task - o->w->from_task + UINT64_C(1)) * sizeof(*o->other));
	if (!o->other)
		return -ENOMEM;
	for (uint32_t i = o->w->from_task; i < o->w->until_task; i++) {
		if (lanes[task_at(o->w, i)->lane].process != process)
			memset(o->engines, 0xff, sizeof(o->engines));
		process = lanes[task_at(o->w, i)->lane].process;
		o->other[i - o->w->from_task] = TASK_NONE;
		if (task_at(o->w, i)->kind == TASK_CALL)
			o->to[i - o->w->from_task].also = other_of_call(o, i);
		else
			order_task(o, i);
	}
	free(o->other);
	return 0;
}

/* --- one order of all streams --- */

/* The last task of a context, and what the launch of a graph that it is part of follows. */
struct tail {
	uint32_t last, before;
};

static void merge_task(const struct what_if *w, uint32_t i, struct tail *tail,
		       struct task_order *to)
{
	const struct task *task = task_at(w, i);
	bool of_launch = task->launch != TASK_NONE && tail->last != TASK_NONE &&
			 task_at(w, tail->last)->launch == task->launch,
	     inside = of_launch && task->previous != TASK_NONE &&
		      task_at(w, task->previous)->launch == task->launch;

	if (!of_launch)
		tail->before = tail->last;
	if (!inside && tail->before != TASK_NONE)
		to->previous = tail->before;
	tail->last = i;
}

static int merge(const struct what_if *w, struct task_order *to)
{
	const struct task_lane *lanes = w->report->causes.lanes.data;
	struct map contexts = MAP_INIT;
	VEC(struct tail) tails = VEC_INIT;
	int code = 0;

	for (uint32_t i = w->from_task; i < w->until_task && code >= 0; i++) {
		const struct task *task = task_at(w, i);
		const struct task_edge *edge = &w->report->causes.edges.data[task->edges];
		bool is_call = task->kind == TASK_CALL;
		const struct task_lane *lane;
		uint64_t *at;

		if (is_call && (task[1].edges == task->edges || edge->kind == EDGE_queue_full))
			continue;
		lane = &lanes[is_call ? task_at(w, edge->from)->lane : task->lane];
		at = map_at(&contexts, (uint64_t)lane->process << 32 | lane->context, UINT64_MAX);
		if (at && *at == UINT64_MAX) {
			*at = tails.count;
			code = vec_push(&tails, ((struct tail){ TASK_NONE, TASK_NONE }));
		}
		if (!at || code < 0)
			code = -ENOMEM;
		else if (is_call)
			to[i - w->from_task].also = tails.data[*at].last;
		else
			merge_task(w, i, &tails.data[*at], &to[i - w->from_task]);
	}
	map_release(&contexts);
	vec_release(&tails);
	return code;
}

static int find_order(const struct what_if *w, const struct what_if_rule *rule,
		      struct task_order *order)
{
	struct order o = { .w = w, .rule = rule, .to = order };

	for (uint32_t i = w->from_task; i < w->until_task; i++)
		order[i - w->from_task] = (struct task_order){ .previous = task_at(w, i)->previous,
							       .also = TASK_NONE,
							       .latency_ns = TASK_USUAL_NS };
	if (rule->target == WHAT_IF_fuse || rule->target == WHAT_IF_graph) {
		what_if_join_runs(w, rule, order);
		return 0;
	}
	return rule->change == CHANGE_MERGE ? merge(w, order) : split(&o);
}

int what_if_set_order(struct what_if *w, const struct what_if_rule *rules, size_t count)
{
	size_t tasks = w->until_task - w->from_task + UINT64_C(1);

	free(w->order);
	w->order = NULL;
	for (size_t i = 0; i < count; i++) {
		if (!what_if_has_order(&rules[i]))
			continue;
		w->order = calloc(tasks, sizeof(*w->order));
		return w->order ? find_order(w, &rules[i], w->order) : -ENOMEM;
	}
	return 0;
}
