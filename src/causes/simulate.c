#include "causes/simulate.h"

#include <stdlib.h>

struct times {
	int64_t start_ns, end_ns; /* signed: a cause may end after its effect, within the clock */
};

struct replay {
	const struct simulation *s;
	const struct causes *c;
	struct times *times;
};

static int64_t cost(const struct replay *r, enum cost_of what, uint32_t task, enum edge_kind edge,
		    int64_t recorded_ns)
{
	return recorded_ns <= 0
		       ? recorded_ns
		       : (int64_t)r->s->cost(r->s->user, what, task, edge, (uint64_t)recorded_ns);
}

/*
 * When `task` may begin or return by one edge, which recorded at cause_ns and takes effect at
 * effect_ns; `best` is what bound it. INT64_MIN: the edge contradicts the times.
 */
static int64_t ready(const struct replay *r, uint32_t task, const struct arrival *best,
		     struct arrival edge, uint64_t effect_ns)
{
	const struct task *from = &r->c->tasks.data[edge.from];
	int64_t cause_ns = (int64_t)(edge.at_start ? from->start_ns : from->end_ns),
		distance_ns = (int64_t)effect_ns - cause_ns;
	bool is_bound = best->from == edge.from && best->kind == edge.kind;

	if (distance_ns < -(int64_t)CAUSES_CLOCK_NS)
		return INT64_MIN;
	if (is_bound)
		distance_ns = cost(r, COST_LATENCY, task, edge.kind, distance_ns);
	else
		distance_ns = MIN(distance_ns, (int64_t)r->c->typical_ns[edge.kind]);
	return distance_ns +
	       (edge.at_start ? r->times[edge.from].start_ns : r->times[edge.from].end_ns);
}

static int64_t ready_by_edges(const struct replay *r, uint32_t i, const struct arrival *best,
			      uint64_t effect_ns)
{
	const struct task *task = &r->c->tasks.data[i];
	int64_t ns = INT64_MIN;

	for (size_t e = task->edges; e < task[1].edges; e++) {
		const struct task_edge *edge = &r->c->edges.data[e];
		struct arrival a = { .from = edge->from,
				     .kind = edge->kind,
				     .at_start = edge->kind == EDGE_queue_full };
		int64_t by = ready(r, i, best, a, effect_ns);

		ns = MAX(ns, by);
	}
	return ns;
}

static void replay_call(struct replay *r, uint32_t i)
{
	const struct task *task = &r->c->tasks.data[i];
	struct arrival waited = causes_return(r->c, i);
	struct times *t = &r->times[i];
	int64_t own_ns = (int64_t)(task->end_ns - task->start_ns), by;

	t->start_ns = (int64_t)task->start_ns;
	if (task->previous != TASK_NONE) {
		by = (int64_t)(task->start_ns - r->c->tasks.data[task->previous].end_ns);
		t->start_ns =
			r->times[task->previous].end_ns + cost(r, COST_HOST, i, EDGE_program, by);
	}
	if (waited.from != TASK_NONE)
		own_ns = MIN(own_ns, (int64_t)(task->end_ns - waited.ns));
	t->end_ns = t->start_ns + cost(r, COST_CALL, i, EDGE_none, own_ns);
	by = ready_by_edges(r, i, &waited, task->end_ns);
	t->end_ns = MAX(t->end_ns, by);
}

static void replay_work(struct replay *r, uint32_t i)
{
	const struct task *task = &r->c->tasks.data[i];
	struct arrival best = causes_start(r->c, i), returned;
	struct times *t = &r->times[i];
	int64_t by = ready_by_edges(r, i, &best, task->start_ns), ns = by;

	if (task->launch != TASK_NONE) {
		by = ready(r, i, &best,
			   (struct arrival){
				   .from = task->launch, .kind = EDGE_launch, .at_start = true },
			   task->start_ns);
		ns = MAX(ns, by);
	}
	if (task->previous != TASK_NONE) {
		by = ready(r, i, &best,
			   (struct arrival){ .from = task->previous, .kind = task->order },
			   task->start_ns);
		ns = MAX(ns, by);
	}
	t->start_ns = best.from == TASK_NONE ? MAX(ns, (int64_t)task->start_ns) : ns;
	t->end_ns = t->start_ns +
		    cost(r, COST_WORK, i, EDGE_none, (int64_t)(task->end_ns - task->start_ns));
	if (!(task->flags & TASK_BLOCKS))
		return;
	returned = causes_return(r->c, task->launch);
	by = ready(r, task->launch, &returned, (struct arrival){ .from = i, .kind = EDGE_copy },
		   r->c->tasks.data[task->launch].end_ns);
	r->times[task->launch].end_ns = MAX(r->times[task->launch].end_ns, by);
}

uint64_t simulate(const struct simulation *s, uint64_t start_ns, uint64_t end_ns)
{
	size_t count = causes_task_count(s->causes);
	_cleanup_free_ struct times *times = calloc(count + 1, sizeof(*times));
	struct replay r = { s, s->causes, times };
	int64_t last_ns = (int64_t)start_ns;

	if (!times)
		return UINT64_MAX;
	for (uint32_t i = 0; i < count; i++)
		if (s->causes->tasks.data[i].kind == TASK_CALL)
			replay_call(&r, i);
		else
			replay_work(&r, i);
	for (uint32_t i = 0; i < count; i++)
		if (s->causes->tasks.data[i].start_ns >= start_ns &&
		    s->causes->tasks.data[i].end_ns <= end_ns)
			last_ns = MAX(last_ns, times[i].end_ns);
	return (uint64_t)last_ns;
}
