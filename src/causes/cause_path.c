#include "causes/cause_path.h"

#include <stdlib.h>
#include <string.h>

#define LOOK_BACK 256u /* tasks, for one that ended before work without arrivals */

struct walk {
	struct path *path;
	const struct causes *c;
	uint64_t start_ns, now_ns; /* the window's start; where the walk is */
	uint32_t task; /* TASK_NONE: the walk has ended */
	bool at_start; /* what ran before `task` is next, else `task` itself */
};

/* Adds the piece from `from_ns` to now. */
static int add(struct walk *w, uint64_t from_ns, enum piece_kind kind, enum edge_kind edge)
{
	struct path_piece piece = { .start_ns = MAX(from_ns, w->start_ns),
				    .end_ns = w->now_ns,
				    .task = w->task,
				    .kind = (uint8_t)kind,
				    .edge = (uint8_t)edge };

	if (piece.start_ns >= piece.end_ns)
		return 0;
	w->now_ns = piece.start_ns;
	return vec_push(&w->path->pieces, piece);
}

static void go_to(struct walk *w, uint32_t task, bool at_start)
{
	w->task = task;
	w->at_start = at_start;
}

/* The latest end of the tasks just before, in host order: there the walk goes on. */
static uint32_t last_ended(const struct walk *w)
{
	uint32_t process = w->c->lanes.data[w->c->tasks.data[w->task].lane].process,
		 best = TASK_NONE;

	for (uint32_t i = w->task, n = 0; i-- > 0 && n < LOOK_BACK; n++) {
		const struct task *task = &w->c->tasks.data[i];

		if (w->c->lanes.data[task->lane].process != process)
			break;
		if (task->end_ns <= w->now_ns &&
		    (best == TASK_NONE || task->end_ns > w->c->tasks.data[best].end_ns))
			best = i;
	}
	return best;
}

static int step_unknown(struct walk *w)
{
	uint32_t before = last_ended(w);
	int code = add(w, before == TASK_NONE ? 0 : w->c->tasks.data[before].end_ns, PIECE_UNKNOWN,
		       EDGE_none);

	go_to(w, before, false);
	return code;
}

/*
 * A call of another thread that launched or waited for work while this call's thread made none,
 * from since_ns on: this thread may have waited for it, as PyTorch's threads take turns. After its
 * end, only the host can have delayed this call.
 */
static uint32_t turn_before(const struct walk *w, uint64_t since_ns)
{
	const struct task *call = &w->c->tasks.data[w->task];
	uint32_t process = w->c->lanes.data[call->lane].process;

	for (uint32_t i = w->task; i-- > 0;) {
		const struct task *task = &w->c->tasks.data[i];

		if (task->kind != TASK_CALL)
			continue;
		if (w->c->lanes.data[task->lane].process != process || task->start_ns < since_ns)
			break;
		if (task->end_ns <= call->start_ns && task->lane != call->lane &&
		    (task->flags & TASK_LAUNCH_CALL || path_can_end(w->c, i)))
			return i;
	}
	return TASK_NONE;
}

static int step_to_cause(struct walk *w)
{
	struct arrival a = causes_start(w->c, w->task);
	bool is_call = w->c->tasks.data[w->task].kind == TASK_CALL;
	uint32_t turn =
		is_call ? turn_before(w, a.from == TASK_NONE ? w->start_ns : a.ns) : TASK_NONE;
	int code;

	if (a.from == TASK_NONE && !is_call)
		return step_unknown(w);
	if (turn != TASK_NONE) {
		code = add(w, w->c->tasks.data[turn].end_ns, PIECE_HOST, EDGE_none);
		go_to(w, turn, false);
		return code;
	}
	code = add(w, a.from == TASK_NONE ? 0 : a.ns, is_call ? PIECE_HOST : PIECE_LATENCY, a.kind);
	go_to(w, a.from, a.at_start);
	return code;
}

static int step_through(struct walk *w)
{
	const struct task *task = &w->c->tasks.data[w->task];
	struct arrival a = { .from = TASK_NONE };
	int code;

	if (task->kind == TASK_CALL)
		a = causes_return(w->c, w->task);
	if (a.from != TASK_NONE) {
		code = add(w, a.ns, PIECE_LATENCY, a.kind);
		go_to(w, a.from, a.at_start);
		return code;
	}
	w->at_start = true;
	return add(w, task->start_ns,
		   task->flags & TASK_UNKNOWN_WAIT ? PIECE_UNKNOWN
		   : task->kind == TASK_CALL       ? PIECE_CALL
						   : PIECE_WORK,
		   EDGE_none);
}

bool path_can_end(const struct causes *c, uint32_t task)
{
	return task_is_work(&c->tasks.data[task]) || causes_return(c, task).from != TASK_NONE;
}

/* Of the tasks in the window, the one that ended last, preferably one that can end a path. */
static uint32_t last_task(const struct causes *c, const uint8_t *processes, uint64_t start_ns,
			  uint64_t end_ns)
{
	uint32_t last = TASK_NONE, any = TASK_NONE;

	for (uint32_t i = 0; i < causes_task_count(c); i++) {
		const struct task *task = &c->tasks.data[i];

		if ((processes && !processes[c->lanes.data[task->lane].process]) ||
		    task->start_ns >= end_ns || task->end_ns <= start_ns)
			continue;
		if (any == TASK_NONE || task->end_ns >= c->tasks.data[any].end_ns)
			any = i;
		if ((last == TASK_NONE || task->end_ns >= c->tasks.data[last].end_ns) &&
		    path_can_end(c, i))
			last = i;
	}
	return last == TASK_NONE ? any : last;
}

int path_walk(struct path *p, const struct causes *c, struct path_point *at, uint64_t start_ns,
	      bool (*leaves)(void *user, uint32_t task), void *user)
{
	struct walk w = { .path = p,
			  .c = c,
			  .start_ns = start_ns,
			  .now_ns = at->ns,
			  .task = at->task,
			  .at_start = at->at_start };
	int code = 0;

	for (size_t steps = 0; code >= 0 && w.task != TASK_NONE && w.now_ns > start_ns; steps++) {
		if (!w.at_start && leaves && leaves(user, w.task))
			break;
		if (steps > 2 * c->tasks.count) { /* a cycle within the clock's uncertainty */
			code = add(&w, 0, PIECE_UNKNOWN, EDGE_none);
			break;
		}
		code = w.at_start ? step_to_cause(&w) : step_through(&w);
	}
	*at = (struct path_point){ w.now_ns, w.task, w.at_start };
	return code;
}

int path_find(struct path *p, const struct causes *c, const uint8_t *processes, uint64_t start_ns,
	      uint64_t end_ns)
{
	uint32_t last = last_task(c, processes, start_ns, end_ns);
	struct walk w = { .path = p, .c = c, .start_ns = start_ns, .now_ns = end_ns };
	struct path_point at;
	int code;

	*p = (struct path){ VEC_INIT };
	w.task = TASK_NONE;
	code = add(&w, last == TASK_NONE ? 0 : c->tasks.data[last].end_ns, PIECE_UNKNOWN,
		   EDGE_none);
	at = (struct path_point){ w.now_ns, last, false };
	return code < 0 ? code : path_walk(p, c, &at, start_ns, NULL, NULL);
}

void path_release(struct path *p)
{
	vec_release(&p->pieces);
}

/* --- slack --- */

struct slack {
	const struct causes *c;
	uint32_t *end; /* of each task's end */
	uint32_t *start; /* of each call's start */
};

static void bound(uint32_t *slack, int64_t room_ns, uint32_t later)
{
	uint64_t ns = (uint64_t)MAX(room_ns, 0) + later;

	if (later != UINT32_MAX && ns < *slack)
		*slack = (uint32_t)ns;
}

/* A task begins or returns at effect_ns, and could do so `later` ns later. */
static void bound_cause(struct slack *s, uint32_t cause, enum edge_kind kind, uint64_t effect_ns,
			uint32_t later)
{
	bound(&s->end[cause],
	      (int64_t)(effect_ns - s->c->tasks.data[cause].end_ns - s->c->typical_ns[kind]),
	      later);
}

static void bound_causes(struct slack *s, uint32_t i)
{
	const struct task *task = &s->c->tasks.data[i];
	bool is_call = task->kind == TASK_CALL;
	struct arrival waited = causes_return(s->c, i);
	uint32_t start = s->end[i];

	if (is_call) { /* begins late for free while it would only wait less */
		if (waited.from != TASK_NONE && start != UINT32_MAX)
			start = (uint32_t)MIN(waited.ns - task->start_ns + start,
					      UINT32_MAX - UINT64_C(1));
		start = MIN(start, s->start[i]);
	}
	if (task->previous != TASK_NONE && is_call)
		bound(&s->end[task->previous], 0, start);
	else if (task->previous != TASK_NONE)
		bound_cause(s, task->previous, task->order, task->start_ns, start);
	for (size_t e = task->edges; e < task[1].edges; e++)
		if (s->c->edges.data[e].kind != EDGE_queue_full) /* it need only have begun */
			bound_cause(s, s->c->edges.data[e].from, s->c->edges.data[e].kind,
				    is_call ? task->end_ns : task->start_ns, s->end[i]);
	if (task->launch != TASK_NONE)
		bound(&s->start[task->launch],
		      (int64_t)(task->start_ns - s->c->tasks.data[task->launch].start_ns -
				causes_usual_ns(s->c, (struct arrival){ .from = task->launch,
									.kind = EDGE_launch })),
		      start);
}

uint32_t *causes_slack(const struct causes *c, uint64_t end_ns)
{
	size_t count = causes_task_count(c);
	_cleanup_free_ uint32_t *start = malloc((count + 1) * sizeof(*start));
	struct slack s = { c, malloc((count + 1) * sizeof(*s.end)), start };

	if (!start || !s.end) {
		free(s.end);
		return NULL;
	}
	memset(start, 0xff, (count + 1) * sizeof(*start));
	memset(s.end, 0xff, (count + 1) * sizeof(*s.end));
	for (uint32_t i = (uint32_t)count; i-- > 0;) {
		const struct task *task = &c->tasks.data[i];

		bound(&s.end[i], (int64_t)(end_ns - task->end_ns), 0);
		if (task->flags & TASK_BLOCKS)
			bound(&s.end[i],
			      (int64_t)(c->tasks.data[task->launch].end_ns - task->end_ns -
					c->typical_ns[EDGE_copy]),
			      s.end[task->launch]);
		bound_causes(&s, i);
	}
	return s.end;
}
