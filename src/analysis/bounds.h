/*
 * bounds.h: what bounded the time from the first to the last GPU work of a process, on all of its
 * GPUs and streams: its critical path (causes/cause_path.h), each nanosecond of which has one of
 * these bounds.
 *
 * What a synchronization costs is not the time for which a thread waits in it, as the GPU works
 * then, but what the thread cannot do meanwhile: of the host's time from the return to the next
 * work of the path, as much as it had waited is the synchronization's, and so is the return itself.
 *
 * Host time is unknown while events were lost, if losses are large, and where work began whose call
 * was not recorded: there the thread may have made calls.
 *
 * An operation that waits for others only because its stream shares a hardware queue with theirs
 * (false dependency), or because of the rules of the default stream, could have begun when all else
 * that it waited for was over: the path from then to its start is serialized.
 */
#ifndef PITOT_ANALYSIS_BOUNDS_H
#define PITOT_ANALYSIS_BOUNDS_H

#include "causes/cause_path.h"

struct report;

/* Names are those in JSON. Shorter means that a piece of host time lasts less than 100 us. */
enum bound {
	BOUND_GPU, /* kernels, memory sets, graphs */
	BOUND_COPY, /* copies, and calls that copy */
	BOUND_LATENCY, /* of work that was launched and had nothing more to wait for */
	BOUND_FALSE_DEPENDENCY,
	BOUND_DEFAULT_STREAM,
	BOUND_HOST_FUNCTION, /* in a stream */
	BOUND_WAIT, /* collectives that wait for other ranks */
	BOUND_COLLECTIVE, /* collectives of which it is unknown how long they wait */
	BOUND_SYNC,
	BOUND_LAUNCH, /* other calls and host time, shorter than BOUND_HOST_NS */
	BOUND_CALL, /* longer calls that launch */
	BOUND_NODES, /* calls that launch graphs: what Pitot needs to record the nodes */
	BOUND_MEMORY, /* calls that allocate and free */
	BOUND_OFF_CPU, /* host time in which the thread was off the CPU */
	BOUND_HOST, /* other host time and calls, of at least BOUND_HOST_NS */
	BOUND_UNKNOWN,
	BOUNDS,
};

#define BOUND_HOST_NS UINT64_C(100000) /* frameworks launch more often than that */

struct bound_sum {
	uint64_t ns, count; /* of pieces of the path */
	enum bound bound;
};

/* A part of the time in which nothing counts. */
struct bound_pause {
	uint64_t start_ns, end_ns;
};

struct bounds {
	uint32_t process;
	struct bound_sum sums[BOUNDS]; /* [bound] */
	uint64_t span_ns; /* sum of `sums` */
	uint64_t measuring_ns; /* of the path, in which Pitot measured: in none of the sums */
	uint64_t latency_ns[EDGE_KINDS]; /* BOUND_LATENCY by the edge */
};

/* Finds the bounds of a process from start_ns to end_ns. 0 or -ENOMEM. */
int bounds_find(const struct report *r, uint32_t process, uint64_t start_ns, uint64_t end_ns,
		const struct bound_pause *pauses, size_t pause_count, struct bounds *out) MUST_USE;

#endif
