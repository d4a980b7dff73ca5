/*
 * replay_plan.h: what `pitot replay` does: the operations of one process of a recording, in the
 * order in which its calls began, from the graph of causes (causes/causes.h).
 *
 * Kernels become stand-ins; copies and memory sets keep their sizes. A stream that waited for an
 * event waits for an event that is recorded behind the same work, so that calls about events whose
 * times nobody waited for need not be repeated. The default stream stays the default stream, whose
 * waiting emerges. Calls that waited for the GPU wait again; what else a call took, and the time
 * between calls, is time of the host.
 *
 * Nothing is left out silently: work that cannot be replayed is counted in `skipped`, what is
 * replayed by something else in `substituted`.
 */
#ifndef PITOT_REPLAY_REPLAY_PLAN_H
#define PITOT_REPLAY_REPLAY_PLAN_H

#include "causes/causes.h"

/* X(name, text): names are those in JSON. */
#define REPLAY_KINDS(X)                                                                            \
	X(kernel, "kernels")                                                                       \
	X(memcpy, "copies")                                                                        \
	X(memset, "memory sets")                                                                   \
	X(graph, "graph launches")                                                                 \
	X(host_function, "host functions")                                                         \
	X(event_record, "events recorded")                                                         \
	X(event_wait, "waits of streams for events")                                               \
	X(stream_synchronize, "stream synchronizations")                                           \
	X(event_synchronize, "event synchronizations")                                             \
	X(device_synchronize, "device synchronizations")

#define REPLAY_SKIPS(X)                                                                            \
	X(untimed, "work whose times were not recorded")                                           \
	X(processes, "work of other processes (--process)")                                        \
	X(window, "work outside of --since and --until")                                           \
	X(numbers, "work outside of --ops")                                                        \
	X(streams, "work of other streams (--stream)")                                             \
	X(waits, "waits for work that is not replayed")                                            \
	X(stream_memory, "waits for memory operations of streams")

#define REPLAY_SUBSTITUTIONS(X)                                                                    \
	X(unlaunched, "work without a recorded call, launched when it began")                      \
	X(in_flight, "work in flight at --since, as kernels of what remained")                     \
	X(whole_graphs, "graphs without nodes, as one kernel")                                     \
	X(ordered_graphs, "launches of graphs without dependencies, one node after the other")     \
	X(assumed_waits, "calls of which it is assumed what they waited for")                      \
	X(copy_kinds, "copies of arrays or of unknown kind, as copies of plain memory")            \
	X(sizes, "copies and memory sets of unknown size, as kernels")                             \
	X(long_kernels, "kernels longer than 10 s, cut")                                           \
	X(devices, "work of GPUs that this machine does not have, on others")                      \
	X(peers, "copies between GPUs, inside of one")                                             \
	X(priorities, "streams whose priority this GPU does not have")                             \
	X(large_copies, "copies and memory sets cut to what --memory allows")                      \
	X(shapes, "kernels with more blocks, threads or shared memory than this GPU takes")        \
	X(floor, "kernels shorter than the shortest stand-in")

#define REPLAY_NAME(name, text) REPLAY_##name,
#define SKIP_NAME(name, text) SKIP_##name,
#define SUBSTITUTION_NAME(name, text) SUBSTITUTION_##name,
enum replay_kind { REPLAY_KINDS(REPLAY_NAME) REPLAY_KIND_COUNT };
enum replay_skip { REPLAY_SKIPS(SKIP_NAME) SKIP_COUNT };
enum replay_substitution { REPLAY_SUBSTITUTIONS(SUBSTITUTION_NAME) SUBSTITUTION_COUNT };

#define REPLAY_KERNEL_NS_MAX (UINT64_C(10) * 1000 * 1000 * 1000)
#define REPLAY_STREAMS_MAX 64u /* of --stream */
#define REPLAY_DEVICES_MAX 64u

enum {
	OP_FIRST = 1, /* of its call: it keeps the pace */
	OP_WAITS = 2, /* the host waits until it is over */
	OP_QUEUED = 4, /* its call waits for a place in the launch queue */
	OP_PAGEABLE = 8, /* a copy from or to pageable memory */
};

struct replay_work {
	uint64_t duration_ns; /* recorded; of a host function its delay */
	uint64_t bytes;
	uint32_t item; /* kernel: of plan.shapes; graph: of plan.graphs; events: number; device */
	uint8_t kind; /* enum replay_kind */
	uint8_t copy_kind; /* enum copy_kind */
	uint8_t flags;
	uint8_t value; /* of a memory set */
};

struct replay_op {
	struct replay_work work;
	uint64_t call_ns; /* recorded start of the call */
	uint64_t gap_ns; /* OP_FIRST: of the host before the call */
	uint64_t own_ns; /* OP_FIRST: what the call took, except waiting */
	uint32_t stream; /* item of plan.streams */
	uint32_t thread; /* of plan.threads */
};

struct replay_stream {
	uint32_t id, context, device; /* as recorded */
	int32_t priority;
	bool is_default, is_blocking;
	uint64_t operations, kernels; /* work, with nodes of graphs; and kernels alone */
	uint64_t kernel_ns; /* sum of their recorded durations */
};

/* Grid, block and shared memory of kernels. */
struct replay_shape {
	uint32_t grid[3], block[3];
	uint32_t shared_bytes;
};

struct replay_node {
	struct replay_work work; /* its duration is the sum, then the mean of all launches */
	uint64_t id; /* graph node id */
	uint32_t first_edge; /* its edges end where those of the next node begin */
};

/* A graph with all that has the same nodes. Nodes come after those on which they depend. */
struct replay_graph {
	uint64_t launches;
	uint32_t first_node, node_count; /* of plan.nodes */
	uint32_t stream; /* on which it is launched */
	bool is_ordered; /* its dependencies are not known */
};

struct replay_options {
	int64_t process; /* pid; -1: the one with the most GPU work */
	uint64_t since_ns, until_ns; /* CLOCK_MONOTONIC; 0 and UINT64_MAX: all */
	uint64_t first_op, last_op; /* numbers from 1, in the order of launches; 0: all */
	uint32_t streams[REPLAY_STREAMS_MAX]; /* ids */
	size_t stream_count; /* 0: all */
};

struct replay_plan {
	VEC(struct replay_op) ops;
	VEC(struct replay_stream) streams;
	VEC(struct replay_shape) shapes;
	VEC(struct replay_graph) graphs;
	VEC(struct replay_node) nodes; /* and one more, for the end of the last one's edges */
	VEC(uint32_t) edges; /* numbers of nodes in their graph */
	uint32_t threads, events, devices; /* numbers; devices: the highest ordinal and 1 */
	uint32_t process;
	uint64_t start_ns, end_ns; /* from the first call to the last return or end of work */
	uint64_t
		simulated_ns; /* what the simulator makes of the same time; 0: a part is replayed */
	uint64_t work; /* operations of the GPU in the process, of which --ops selects */
	uint64_t latency_ns, graph_latency_ns; /* usual, from work to work; 0: unknown */
	uint64_t counts[REPLAY_KIND_COUNT], skipped[SKIP_COUNT], substituted[SUBSTITUTION_COUNT];
};

/* Loads the columns that replay_plan_make needs besides those of causes_load. */
int replay_plan_load(struct trace *t, struct error *e) MUST_USE;
/* E_USAGE: no such process; E_UNSUPPORTED: nothing to replay. Release in any case. */
int replay_plan_make(struct replay_plan *p, const struct causes *c, const struct replay_options *o,
		     struct error *e) MUST_USE;
void replay_plan_release(struct replay_plan *p);

#endif
