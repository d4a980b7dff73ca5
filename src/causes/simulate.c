#include "causes/simulate.h"

#include <stdlib.h>
#include <string.h>

struct replay {
	const struct simulation *s;
	const struct causes *c;
	struct simulated *times; /* of the tasks from s->first on */
};

static struct simulated time_of(const struct replay *r, uint32_t task)
{
	const struct task *recorded = &r->c->tasks.data[task];

	return task >= r->s->first ? r->times[task - r->s->first]
				   : (struct simulated){ (int64_t)recorded->start_ns,
							 (int64_t)recorded->end_ns };
}

static int64_t cost(const struct replay *r, enum cost_of what, uint32_t task, enum edge_kind edge,
		    int64_t recorded_ns)
{
	return recorded_ns <= 0
		       ? recorded_ns
		       : (int64_t)r->s->cost(r->s->user, what, task, edge, (uint64_t)recorded_ns);
}

/* A long launch hands its work over when the same part of its time has passed as recorded. */
static int64_t ready_in_launch(const struct replay *r, uint32_t task, uint32_t launch,
			       int64_t distance_ns)
{
	const struct task *call = &r->c->tasks.data[launch];
	struct simulated t = time_of(r, launch);
	int64_t whole_ns = (int64_t)(call->end_ns - call->start_ns),
		within_ns = MIN(distance_ns, whole_ns);

	return t.start_ns + (int64_t)((__int128)within_ns * (t.end_ns - t.start_ns) / whole_ns) +
	       cost(r, COST_LATENCY, task, EDGE_launch, distance_ns - within_ns);
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
	if (!is_bound)
		distance_ns = MIN(distance_ns, (int64_t)causes_usual_ns(r->c, edge));
	if (edge.kind == EDGE_launch && from->flags & TASK_LONG_LAUNCH)
		return ready_in_launch(r, task, edge.from, distance_ns);
	return cost(r, COST_LATENCY, task, edge.kind, distance_ns) +
	       (edge.at_start ? time_of(r, edge.from).start_ns : time_of(r, edge.from).end_ns);
}

/* The same for an edge that the recording has not. Joins are no work that has to begin. */
static int64_t ready_after(const struct replay *r, uint32_t task, uint32_t from)
{
	const struct task *to = &r->c->tasks.data[task];
	enum edge_kind kind = to->kind == TASK_CALL ? EDGE_sync_stream : EDGE_stream;

	if (from == TASK_NONE)
		return INT64_MIN;
	return time_of(r, from).end_ns +
	       (to->kind == TASK_JOIN ? 0 : (int64_t)r->c->typical_ns[kind]);
}

static struct task_order order_of(const struct replay *r, uint32_t task)
{
	return r->s->order ? r->s->order[task - r->s->first]
			   : (struct task_order){ .previous = r->c->tasks.data[task].previous,
						  .also = TASK_NONE,
						  .latency_ns = TASK_USUAL_NS };
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

/* A thread whose turn it was not waited for that, and then needed its own time. */
static int64_t start_of_call(const struct replay *r, uint32_t i)
{
	const struct task *task = &r->c->tasks.data[i];
	uint32_t turn = r->s->turns ? r->s->turns[i] : TASK_NONE,
		 since = turn != TASK_NONE ? turn : task->previous;
	int64_t by, ns;

	if (since == TASK_NONE)
		return (int64_t)task->start_ns;
	by = (int64_t)(task->start_ns - r->c->tasks.data[since].end_ns);
	ns = time_of(r, since).end_ns + cost(r, COST_HOST, i, EDGE_program, by);
	return task->previous == TASK_NONE ? ns : MAX(ns, time_of(r, task->previous).end_ns);
}

static bool waits(const struct replay *r, uint32_t call)
{
	return !r->s->returns_at_once || !r->s->returns_at_once(r->s->user, call);
}

static void replay_call(struct replay *r, uint32_t i)
{
	const struct task *task = &r->c->tasks.data[i];
	struct arrival waited = causes_return(r->c, i);
	struct simulated *t = &r->times[i - r->s->first];
	int64_t own_ns = (int64_t)(task->end_ns - task->start_ns), by;

	t->start_ns = start_of_call(r, i);
	if (waited.from != TASK_NONE)
		own_ns = MIN(own_ns, (int64_t)(task->end_ns - waited.ns));
	t->end_ns = t->start_ns + cost(r, COST_CALL, i, EDGE_none, own_ns);
	if (!waits(r, i))
		return;
	by = ready_by_edges(r, i, &waited, task->end_ns);
	t->end_ns = MAX(t->end_ns, by);
	by = ready_after(r, i, order_of(r, i).also);
	t->end_ns = MAX(t->end_ns, by);
}

static void replay_work(struct replay *r, uint32_t i)
{
	const struct task *task = &r->c->tasks.data[i];
	struct arrival best = causes_start(r->c, i), returned;
	struct task_order order = order_of(r, i);
	struct simulated *t = &r->times[i - r->s->first], *call;
	int64_t by = ready_by_edges(r, i, &best, task->start_ns), ns = by;

	if (task->launch != TASK_NONE) {
		by = ready(r, i, &best,
			   (struct arrival){
				   .from = task->launch, .kind = EDGE_launch, .at_start = true },
			   task->start_ns);
		ns = MAX(ns, by);
	}
	if (order.latency_ns != TASK_USUAL_NS && order.previous != TASK_NONE)
		by = time_of(r, order.previous).end_ns + order.latency_ns;
	else if (order.previous != task->previous)
		by = ready_after(r, i, order.previous);
	else if (task->previous != TASK_NONE)
		by = ready(r, i, &best,
			   (struct arrival){ .from = task->previous, .kind = task->order },
			   task->start_ns);
	ns = MAX(ns, by);
	by = ready_after(r, i, order.also);
	ns = MAX(ns, by);
	t->start_ns = best.from == TASK_NONE ? MAX(ns, (int64_t)task->start_ns) : ns;
	if (order.joined)
		t->start_ns = time_of(r, order.previous).end_ns;
	t->end_ns = t->start_ns +
		    cost(r, COST_WORK, i, EDGE_none, (int64_t)(task->end_ns - task->start_ns));
	if (!(task->flags & TASK_BLOCKS) || task->launch < r->s->first || !waits(r, task->launch))
		return;
	returned = causes_return(r->c, task->launch);
	by = ready(r, task->launch, &returned, (struct arrival){ .from = i, .kind = EDGE_copy },
		   r->c->tasks.data[task->launch].end_ns);
	call = &r->times[task->launch - r->s->first];
	call->end_ns = MAX(call->end_ns, by);
}

void simulate_task(const struct simulation *s, struct simulated *times, uint32_t task)
{
	struct replay r = { s, s->causes, times };

	if (s->causes->tasks.data[task].kind == TASK_CALL)
		replay_call(&r, task);
	else
		replay_work(&r, task);
}

void simulate_tasks(const struct simulation *s, struct simulated *times)
{
	for (uint32_t i = s->first; i < s->end; i++)
		simulate_task(s, times, i);
}

uint64_t simulate(struct simulation s, uint64_t start_ns, uint64_t end_ns)
{
	uint32_t count = (uint32_t)causes_task_count(s.causes);
	_cleanup_free_ struct simulated *times = calloc(count + UINT64_C(1), sizeof(*times));
	int64_t last_ns = (int64_t)start_ns;

	if (!times)
		return UINT64_MAX;
	s.first = 0;
	s.end = count;
	simulate_tasks(&s, times);
	for (uint32_t i = 0; i < count; i++)
		if (s.causes->tasks.data[i].start_ns >= start_ns &&
		    s.causes->tasks.data[i].end_ns <= end_ns)
			last_ns = MAX(last_ns, times[i].end_ns);
	return (uint64_t)last_ns;
}

/* --- turns --- */

#define TURN_CALLS 8u /* at least, on average, if threads take turns */
#define BESIDE_SHARE 50u /* of the calls, at most, that begin during another thread's */

struct turns {
	uint64_t calls, turns, beside;
};

/* Whether the threads of one process, with these tasks, take turns. */
static bool take_turns(const struct turns *t)
{
	return t->calls >= t->turns * TURN_CALLS && t->beside <= t->calls / BESIDE_SHARE;
}

static struct turns find_turns(const struct causes *c, uint32_t first, uint32_t end, uint32_t *of)
{
	struct turns t = { 0 };
	uint32_t last = TASK_NONE, begun = first; /* the turn's last and first call */

	for (uint32_t i = first; i < end; i++) {
		const struct task *task = &c->tasks.data[i], *before;

		if (task->kind != TASK_CALL)
			continue;
		before = last == TASK_NONE ? NULL : &c->tasks.data[last];
		t.calls++;
		if (before && before->lane != task->lane) {
			t.turns++;
			t.beside += before->end_ns > task->start_ns;
			if (before->end_ns <= task->start_ns &&
			    (task->previous == TASK_NONE ||
			     c->tasks.data[task->previous].end_ns <= c->tasks.data[begun].start_ns))
				of[i] = last;
			begun = i;
		}
		last = i;
	}
	return t;
}

uint32_t *causes_turns(const struct causes *c, uint8_t *beside)
{
	uint32_t count = (uint32_t)causes_task_count(c), *of = malloc((count + 1) * sizeof(*of));

	if (!of)
		return NULL;
	memset(of, 0xff, (count + UINT64_C(1)) * sizeof(*of));
	for (uint32_t first = 0, end = 0; first < count; first = end) {
		uint32_t process = c->lanes.data[c->tasks.data[first].lane].process;
		struct turns t;

		while (end < count && c->lanes.data[c->tasks.data[end].lane].process == process)
			end++;
		t = find_turns(c, first, end, of);
		if (take_turns(&t))
			continue;
		beside[process] = 1;
		memset(of + first, 0xff, (end - first) * sizeof(*of));
	}
	return of;
}
