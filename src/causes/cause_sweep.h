/*
 * cause_sweep.h: the state of a sweep over a process's calls in host order, shared by the files
 * that build the graph.
 */
#ifndef PITOT_CAUSES_CAUSE_SWEEP_H
#define PITOT_CAUSES_CAUSE_SWEEP_H

#include "base/map.h"
#include "causes/cause_queue.h"
#include "causes/causes.h"
#include "trace/events.h"

/* A stream at this point of the host order; states[lane]. */
struct stream_state {
	uint32_t tail; /* its last task */
	uint32_t context; /* item of `contexts` */
	uint32_t capture; /* number of the capture that it takes part in; 0: none */
	uint8_t order; /* enum edge_kind: how its next task follows `tail` */
	bool blocks; /* waits for the default stream, and that waits for it */
	bool is_default;
	bool is_dirty; /* in context.dirty */
	bool is_active; /* in `active` */
	uint64_t default_seen; /* of context.default_tasks; of a thread: of sweep.orphans */
	VEC(uint32_t) pending; /* tasks for which its next one waits, by events */
};

struct context_state {
	uint32_t default_tail;
	uint64_t default_tasks; /* number of tasks of the default stream so far */
	VEC(uint32_t) dirty; /* blocking streams with work since its last task */
};

enum stream_attribute {
	STREAM_UNKNOWN, /* whether it waits for the default stream: then it has no such edges */
	STREAM_BLOCKING,
	STREAM_NON_BLOCKING,
	STREAM_DEFAULT,
};

struct graph_edges;

struct sweep {
	struct causes *c;
	const struct trace *trace;
	uint32_t process;
	struct event_columns work[GPU_WORK_KINDS];
	struct map threads, streams, contexts; /* ids -> lane, lane, item */
	struct map attributes; /* context and stream -> enum stream_attribute */
	struct map channels; /* device and hardware channel -> its last task */
	struct map events; /* handle -> 1 + task; 0: nothing; CAPTURED + number */
	struct map polls; /* call that queries -> the last one of its run, or POLL_INSIDE */
	VEC(struct stream_state) states;
	VEC(struct context_state) contexts_at;
	VEC(uint32_t) active; /* lanes with work since the last synchronization saw them idle */
	VEC(uint32_t) capturing; /* lanes */
	uint32_t captures;
	uint64_t orphans; /* work without a recorded call so far */
	struct graph_edges *graphs;
	struct cause_queue *queue;
};

#define EVENT_CAPTURED (UINT64_C(1) << 40)
#define POLL_INSIDE UINT64_MAX /* it belongs to the run of an earlier query */

/* cause_streams.c. All return 0 or -ENOMEM unless they say otherwise. */

int sweep_set_attribute(struct sweep *s, uint32_t context, uint32_t stream,
			enum stream_attribute value) MUST_USE;
/* The lane of a stream or a thread, or -ENOMEM. */
int64_t sweep_stream(struct sweep *s, uint32_t context, uint32_t stream, uint32_t device) MUST_USE;
int64_t sweep_thread(struct sweep *s, uint32_t thread) MUST_USE;
/* Appends a task; returns its index, or a negative code. */
int64_t sweep_add(struct sweep *s, struct task task) MUST_USE;
int sweep_edge(struct sweep *s, uint32_t from, enum edge_kind kind) MUST_USE;
/* Appends work, or a join, to its stream: after all that the stream waits for. */
int64_t sweep_append(struct sweep *s, struct task task) MUST_USE;
/* Makes a join of all that the stream waits for, unless that is its last task already. */
int sweep_settle(struct sweep *s, uint32_t lane) MUST_USE;
int sweep_record_event(struct sweep *s, uint32_t lane, uint64_t event) MUST_USE;
int sweep_wait_event(struct sweep *s, uint32_t lane, uint64_t event) MUST_USE;
int sweep_begin_capture(struct sweep *s, uint32_t lane) MUST_USE;
void sweep_end_capture(struct sweep *s, uint32_t lane);
/* Marks a task as the last one of its stream. */
int sweep_set_tail(struct sweep *s, uint32_t lane, uint32_t task) MUST_USE;
void sweep_end_process(struct sweep *s);
void sweep_release(struct sweep *s);

/* cause_polls.c: runs of queries of the process's calls, from row `first` to `end`. */
int sweep_find_polls(struct sweep *s, uint64_t first, uint64_t end) MUST_USE;
/* Whether the query found its work done; also if its result is unknown. */
bool sweep_query_is_done(const struct trace *t, uint64_t call);

/* cause_graphs.c: the nodes of a launched graph, and the dependencies between them. */

struct launched_work {
	uint64_t start_ns;
	uint32_t row;
	uint32_t work; /* enum gpu_work */
};

/* Reads the dependencies of the process's graphs. */
int graph_edges_new(struct sweep *s) MUST_USE;
void graph_edges_free(struct graph_edges *g);
/* Appends the nodes of one launch, in the order of their starts; `call` is its task. */
int sweep_graph(struct sweep *s, const struct launched_work *nodes, size_t count,
		uint32_t call) MUST_USE;
/* Makes a task of timed work. 0 or -ENOMEM. */
int sweep_task_of(struct sweep *s, const struct launched_work *work, uint32_t call,
		  struct task *task) MUST_USE;

#endif
