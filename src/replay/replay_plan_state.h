/* replay_plan_state.h: the state in which a plan is made, shared by the files that make it. */
#ifndef PITOT_REPLAY_REPLAY_PLAN_STATE_H
#define PITOT_REPLAY_REPLAY_PLAN_STATE_H

#include "base/map.h"
#include "replay/replay_plan.h"
#include "trace/events.h"

#define STREAM_NONE UINT32_MAX

/* The call of which operations are being added. */
struct current_call {
	uint64_t start_ns, end_ns, own_ns;
	uint32_t thread;
	bool is_new; /* no operation of it has been added */
	bool is_queued; /* it waited for a place in the launch queue */
};

struct free_event {
	uint32_t event, device;
};

struct plan_maker {
	struct replay_plan *p;
	const struct causes *c;
	const struct replay_options *o;
	struct event_columns work[GPU_WORK_KINDS];
	uint32_t first, end; /* the process's tasks */
	uint32_t from, to; /* those between the first and the last that are replayed */
	uint8_t *selected; /* by task from `first` on */
	uint32_t *uses; /* by task from `first` on: waits for it by events that are to come */
	uint32_t *stream_of; /* by lane: item of plan.streams, or STREAM_NONE */
	uint32_t *turns;
	bool is_beside; /* threads make calls side by side */
	struct map events, shapes, threads, attributes, contexts;
	struct map graphs, nodes, seen;
	VEC(struct free_event) free_events;
	VEC(uint64_t) last_ns; /* by thread: end of its last call with an operation */
	VEC(uint32_t) numbers; /* of the nodes of one launch */
	struct current_call call;
};

static inline const struct task *task_at(const struct plan_maker *m, uint32_t index)
{
	return &m->c->tasks.data[index];
}

static inline const struct trace *trace_of(const struct plan_maker *m)
{
	return m->c->trace;
}

/* replay_select.c: which work is replayed. */

/* Sets process, first and end. */
int select_process(struct plan_maker *m, struct error *e) MUST_USE;
/* Sets selected, uses, from and to, and the start of the plan. */
int select_work(struct plan_maker *m, struct error *e) MUST_USE;
/* Whether a task is replayed; joins and calls are between the first and the last work that is. */
bool is_selected(const struct plan_maker *m, uint32_t task);
/* Whether the work began before --since, ended after it, and is of a selected stream. */
bool is_in_flight(const struct plan_maker *m, uint32_t task);
/* Whether the work is a node of a launched graph. */
bool is_node(const struct plan_maker *m, const struct task *task);
/* The end of the tasks of one operation: the nodes of a graph, or one piece of work. */
uint32_t group_end(const struct plan_maker *m, uint32_t task);
/* Whether a task waits by an event, by an edge of this kind. */
bool is_by_event(const struct task *task, enum edge_kind kind);

/* replay_nodes.c: the graph of which these tasks are the nodes of one launch, or -ENOMEM. */
int64_t graph_at(struct plan_maker *m, uint32_t first, uint32_t end);
/* replay_plan.c: describes a piece of work. 0 or -ENOMEM. */
int describe_work(struct plan_maker *m, const struct task *task, struct replay_work *out) MUST_USE;

#endif
