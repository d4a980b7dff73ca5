/*
 * causes.h: what each piece of work of a recording waited for: a graph of tasks and edges.
 *
 * A task is an outermost CUDA call, a run of queries with which a thread polls, a piece of GPU
 * work, or a join: a point of a stream at which several tasks must have ended. Tasks are in host
 * order: a call, then the work that it launched. An edge leads from an earlier task to a later one,
 * so that the order of tasks is topological, with one exception: work whose own call waits for it
 * (TASK_BLOCKS).
 *
 * Edges that nearly every task has are members of the task: `previous`, its thread's or stream's
 * task before, and `launch`, its call. Others are in `edges`. Work starts after all its edges; a
 * call starts after its `previous`, and `edges` of a call end before it returns.
 *
 * What the recording does not show has no edge: calls about unknown streams or events, work without
 * times, what happens inside host functions. The numbers of these are in struct causes_unknown.
 * An edge whose cause ended after its effect began, by more than the clock's uncertainty, is a
 * contradiction. Contradictions are counted, and such an edge never explains a start.
 */
#ifndef PITOT_CAUSES_CAUSES_H
#define PITOT_CAUSES_CAUSES_H

#include "base/error.h"
#include "base/search.h"
#include "base/vec.h"
#include "trace/trace.h"

#define TASK_NONE UINT32_MAX
#define TASKS_MAX (UINT32_MAX - 1)

/* Kinds below GPU_WORK_KINDS are enum gpu_work. */
enum task_kind { TASK_CALL = GPU_WORK_KINDS, TASK_JOIN };

/* Names, with underscores, are those in JSON. */
#define EDGE_KINDS_LIST(X)                                                                         \
	X(none, "")                                                                                \
	X(program, "the call before on the thread")                                                \
	X(launch, "launch latency")                                                                \
	X(stream, "work before on the stream")                                                     \
	X(event, "wait for an event")                                                              \
	X(null_stream, "default stream")                                                           \
	X(graph, "graph dependency")                                                               \
	X(graph_order, "graph node before (assumed)")                                              \
	X(host_function, "host function")                                                          \
	X(stream_memory, "memory operation of the stream")                                         \
	X(false_dependency, "false dependency")                                                    \
	X(sync_stream, "return of a stream synchronization")                                       \
	X(sync_event, "return of an event synchronization")                                        \
	X(sync_context, "return of a device synchronization")                                      \
	X(query, "query that found it done")                                                       \
	X(copy, "return of a blocking copy")                                                       \
	X(wait, "return of a call that waited (assumed)")                                          \
	X(queue_full, "launch queue full")                                                         \
	X(collective, "collective")

enum edge_kind {
#define EDGE(name, text) EDGE_##name,
	EDGE_KINDS_LIST(EDGE)
#undef EDGE
		EDGE_KINDS
};

extern const char *const edge_kind_names[EDGE_KINDS], *const edge_kind_texts[EDGE_KINDS];

enum {
	TASK_BLOCKS = 1, /* work: its call returns after it */
	TASK_LAUNCH_CALL = 2, /* a call that launches work */
	TASK_SYNC_CALL = 4, /* a call that waits for work */
	TASK_UNKNOWN_WAIT = 8, /* a synchronizing call of which it is unknown for what it waits */
	/* a call before which work began whose call is missing: what the thread did is unknown */
	TASK_UNKNOWN_HOST = 16,
	/* a call of CAUSES_LAUNCH_NS or more that launches a kernel or graph */
	TASK_LONG_LAUNCH = 32,
};

struct task {
	uint64_t start_ns, end_ns;
	uint8_t kind; /* enum task_kind or enum gpu_work */
	uint8_t order; /* enum edge_kind of the edge from `previous` */
	uint16_t flags;
	uint32_t row; /* of api_call, or of the table of the work; joins: none */
	uint32_t lane;
	uint32_t previous; /* or TASK_NONE */
	uint32_t launch; /* or TASK_NONE: of calls and joins, and where the call is unknown */
	uint32_t edges; /* the first of its own; they end where those of the next task begin */
};
_Static_assert(sizeof(struct task) == 40, "there are many");

struct task_edge {
	uint32_t from;
	uint8_t kind; /* enum edge_kind */
};

/* A thread or a stream. */
struct task_lane {
	uint32_t process;
	uint32_t id; /* thread id or stream id */
	uint32_t context, device; /* of a stream */
	bool is_thread;
};

/* What has no edges because the recording does not show it. */
struct causes_unknown {
	uint64_t untimed; /* work without times: no task */
	uint64_t unlaunched; /* work whose call was not recorded */
	uint64_t streams; /* calls about a stream that is unknown */
	uint64_t stream_waits; /* of these and the next: calls that make a stream wait */
	uint64_t events; /* waits for events that were not recorded before */
	uint64_t assumed; /* waiting calls whose target was deduced from times */
	uint64_t
		blocking; /* streams of which it is unknown whether they wait for the default one */
	uint64_t unordered_graphs; /* launches of graphs without known dependencies */
};

struct causes {
	const struct trace *trace;
	VEC(struct task) tasks; /* and one more, for the end of the last one's edges */
	VEC(struct task_edge) edges;
	VEC(struct task_lane) lanes;
	uint64_t counts[EDGE_KINDS], contradictions[EDGE_KINDS];
	uint64_t contradiction_ns; /* the largest */
	uint64_t reordered; /* work that began before the work launched before it on its stream */
	uint64_t captured; /* calls of streams that were being captured */
	/* latency: 5th percentile where the edge bound the start, and the launch cannot have */
	uint64_t typical_ns[EDGE_KINDS];
	struct causes_unknown unknown;
};

/* Times of calls and of the GPU differ by up to this. */
#define CAUSES_CLOCK_NS UINT64_C(2000)
/* Launches take less, unless something is wrong or they have much to do. */
#define CAUSES_LAUNCH_NS UINT64_C(20000)
/* A call returns within this after what it waited for. */
#define CAUSES_RETURN_NS UINT64_C(20000)
/* A thread that queries again within this after a query, without another call, only polls. */
#define CAUSES_POLL_NS UINT64_C(100000)

/* Loads the columns that causes_build needs. 0 or a negative code. */
int causes_load(struct trace *t, struct error *e) MUST_USE;
/* Builds the graph of all processes. 0 or a negative code; *c is released in either case. */
int causes_build(struct causes *c, const struct trace *t) MUST_USE;
void causes_release(struct causes *c);

static inline size_t causes_task_count(const struct causes *c)
{
	return c->tasks.count ? c->tasks.count - 1 : 0;
}

static inline bool task_is_work(const struct task *task)
{
	return task->kind < GPU_WORK_KINDS;
}

/* Why a task could not start, or a call could not return, earlier. */
struct arrival {
	uint32_t from; /* TASK_NONE: nothing is known */
	uint64_t ns; /* when that was over: at most the start, or the return */
	uint8_t kind; /* enum edge_kind */
	bool at_start; /* the beginning of `from` is meant: of its launching call */
};

/* Counts edges and contradictions, and measures latencies. 0 or -ENOMEM; causes_build calls it. */
int causes_measure(struct causes *c) MUST_USE;

/*
 * How long an arrival usually takes to have its effect. A long launch is long because of what it
 * does before it hands its work over: after three quarters of its time, at the earliest. A graph's
 * first node began when 0.88 of the call had passed, with 96 recorded nodes on an H200 (calls of
 * 120 to 160 us).
 */
static inline uint64_t causes_usual_ns(const struct causes *c, struct arrival a)
{
	const struct task *from = &c->tasks.data[a.from];
	uint64_t usual_ns = c->typical_ns[a.kind], call_ns;

	if (a.kind != EDGE_launch || !(from->flags & TASK_LONG_LAUNCH))
		return usual_ns;
	call_ns = from->end_ns - from->start_ns;
	return MAX(usual_ns, call_ns - call_ns / 4);
}

/* The last arrival before a task's start. */
struct arrival causes_start(const struct causes *c, uint32_t task);
/* The last one but for `edges` of a kind. */
struct arrival causes_start_except(const struct causes *c, uint32_t task, enum edge_kind except);
/* What the return of a call waited for: `from` is TASK_NONE if it did not wait. */
struct arrival causes_return(const struct causes *c, uint32_t task);

#endif
