/*
 * launch_order.h: what a run launched, in which order: one sequence for each thread (kernels), each
 * stream (copies and memory sets, too), and the allocations. Two runs of one program have equal
 * sequences if it is deterministic. Ids, addresses and times are left out: streams and threads are
 * known by the order in which they were first used, kernels by name and shape, and nodes of a graph
 * are in the order of their creation.
 */
#ifndef PITOT_COMPARE_LAUNCH_ORDER_H
#define PITOT_COMPARE_LAUNCH_ORDER_H

#include "analysis/report.h"
#include "analysis/steps.h"

struct launch_step {
	uint64_t what; /* equal for equal work */
	uint64_t waits; /* equal if it waits for equal work of other streams */
	uint32_t task; /* of the graph of causes; of an allocation its row */
};

struct launch_sequence {
	uint32_t id; /* of the thread or stream */
	VEC(struct launch_step) steps;
};

struct launch_order {
	struct report report;
	const struct step_loop *loop; /* NULL: no steps */
	uint32_t process; /* the one with the most GPU work */
	VEC(struct launch_sequence) threads, streams;
	struct launch_sequence allocations;
	bool has_allocations; /* they were recorded */
	uint64_t masked; /* kernels whose names have parts that differ between runs */
};

/* The trace must outlive the order. 0 or a negative code; release in any case. */
int launch_order_init(struct launch_order *o, struct trace *t, struct error *e) MUST_USE;
void launch_order_release(struct launch_order *o);

/* Appends what a step of a thread or stream is: "k 4x1x1 128x1x1", "copy HtoD 4096 bytes". */
void launch_step_text(const struct launch_order *o, const struct launch_step *s,
		      struct strbuf *out);
/* The row of the call that launched it, or TRACE_NO_ROW; of a node of a graph its launch. */
uint32_t launch_step_call(const struct launch_order *o, const struct launch_step *s);
/* The number of the program's step in which it was launched; 0: none. */
uint32_t launch_step_number(const struct launch_order *o, const struct launch_step *s);

#endif
