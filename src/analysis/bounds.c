#include "analysis/bounds.h"

#include <stdlib.h>

#include "analysis/collective_waits.h"
#include "analysis/cost.h"
#include "analysis/cpu_moments.h"
#include "analysis/graphs.h"
#include "analysis/rank_times.h"
#include "analysis/report.h"
#include "base/search.h"
#include "trace/columns.h"

struct interval {
	uint64_t start_ns, end_ns;
	uint32_t thread; /* or 0 */
};

typedef VEC(struct interval) interval_vec;

/* The time in which the path is held by one edge. */
struct hold {
	uint64_t from_ns; /* the held task could have begun then */
	enum bound bound;
};

struct bounding {
	const struct report *r;
	const struct bound_pause *pauses;
	size_t pause_count;
	/* of the process, by thread and start; none of a thread overlap */
	interval_vec off_cpu;
	interval_vec lost; /* times of large losses, and of each piece of work without a call */
	struct hold *holds; /* of each piece of the path */
	struct map waits; /* of collectives, by kernel */
	struct map nodes; /* number of them, by the call that launches them */
	uint64_t waited_ns; /* of the last synchronization, not yet made up by the host */
	struct bounds *out;
};

/* --- times --- */

/* What of [start_ns, end_ns) counts: neither pauses nor measuring. */
static uint64_t counted_ns(struct bounding *b, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t ns = end_ns - start_ns, measuring_ns;

	measuring_ns = measuring_within(&b->r->measuring, b->out->process, start_ns, end_ns);
	for (size_t i = 0; i < b->pause_count; i++) {
		uint64_t from = MAX(start_ns, b->pauses[i].start_ns),
			 to = MIN(end_ns, b->pauses[i].end_ns);

		if (from >= to)
			continue;
		ns -= to - from;
		measuring_ns -= measuring_within(&b->r->measuring, b->out->process, from, to);
	}
	b->out->measuring_ns += measuring_ns;
	return ns - measuring_ns;
}

static void add(struct bounding *b, enum bound bound, uint64_t ns)
{
	if (!ns)
		return;
	b->out->sums[bound].ns += ns;
	b->out->sums[bound].count++;
	b->out->span_ns += ns;
}

/* Adds host time, of which a synchronization has as much as it had waited. */
static void add_host(struct bounding *b, enum bound bound, uint64_t ns)
{
	uint64_t made_up_ns = MIN(ns, b->waited_ns);

	b->waited_ns -= made_up_ns;
	add(b, BOUND_SYNC, made_up_ns);
	add(b, bound, ns - made_up_ns);
}

/* --- intervals --- */

ORDER(by_thread, struct interval, UP(thread) ?: UP(start_ns))

/* Sorts them, and cuts off what overlaps with the one before. */
static void sort_intervals(interval_vec *v)
{
	struct interval *before = NULL;

	vec_sort(v, by_thread);
	for (size_t i = 0; i < v->count; i++) {
		struct interval *at = &v->data[i];

		if (before && before->thread == at->thread)
			at->start_ns = MAX(at->start_ns, before->end_ns);
		at->end_ns = MAX(at->end_ns, at->start_ns);
		before = at;
	}
}

/* The first that ends after start_ns. */
static size_t first_interval(const interval_vec *v, uint32_t thread, uint64_t start_ns)
{
	return sorted_prefix(v->count, i,
			     v->data[i].thread < thread || (v->data[i].thread == thread &&
							    v->data[i].end_ns <= start_ns));
}

static int collect_off_cpu(struct bounding *b)
{
	const struct trace *t = b->r->trace;

	for (struct row_walk w = all_rows(t, TABLE_off_cpu); row_walk_next(&w);) {
		struct cpu_moment m = cpu_moment_of(t, TABLE_off_cpu, w.process, w.row);
		struct interval off = { m.start_ns, m.end_ns, m.thread };

		if (trace_process(t, w.process)->subject == b->out->process &&
		    vec_push(&b->off_cpu, off) < 0)
			return -ENOMEM;
	}
	sort_intervals(&b->off_cpu);
	return 0;
}

/* A host that made no calls for a while, or of which they are missing, cannot be told apart. */
static int collect_lost(struct bounding *b)
{
	const struct causes *c = &b->r->causes;
	const struct cost *cost = b->r->cost;
	const struct trace_loss *losses = NULL;
	size_t count = 0;

	if (lost_share_effect(&cost->all) == LOSS_UNSAFE &&
	    trace_losses(b->r->trace, &losses, &count, NULL) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		enum loss_items items = loss_items(losses[i].reason);
		struct interval lost = { losses[i].start_ns, losses[i].end_ns, 0 };

		if ((items == LOST_EVENTS || items == LOST_GPU_RECORDS) &&
		    vec_push(&b->lost, lost) < 0)
			return -ENOMEM;
	}
	for (uint32_t i = 0; c->unknown.unlaunched && i < causes_task_count(c); i++) {
		const struct task *task = &c->tasks.data[i];
		struct interval lost = { task->start_ns, task->start_ns + 1, 0 };

		if (task_is_work(task) && task->launch == TASK_NONE &&
		    c->lanes.data[task->lane].process == b->out->process &&
		    vec_push(&b->lost, lost) < 0)
			return -ENOMEM;
	}
	sort_intervals(&b->lost);
	return 0;
}

/* Of launches of graphs, if Pitot recorded the nodes by CUPTI. */
static int count_nodes(struct bounding *b)
{
	const struct causes *c = &b->r->causes;
	uint32_t process = b->out->process;

	if (!trace_process(b->r->trace, process)->inside || gpus_are_amd(&b->r->gpus))
		return 0;
	for (uint32_t i = 0; i < causes_task_count(c); i++) {
		const struct task *task = &c->tasks.data[i];
		uint64_t *nodes;

		if (task->launch == TASK_NONE || task->kind == GPU_WORK_graph_launch ||
		    c->lanes.data[task->lane].process != process ||
		    calls_kind(&b->r->calls, c->tasks.data[task->launch].row) !=
			    api_kind_graph_launch)
			continue;
		nodes = map_at(&b->nodes, task->launch, 0);
		if (!nodes)
			return -ENOMEM;
		++*nodes;
	}
	return 0;
}

/* How much of the time the thread was off the CPU. */
static uint64_t off_cpu_ns(struct bounding *b, uint32_t thread, uint64_t start_ns, uint64_t end_ns)
{
	uint64_t ns = 0;

	for (size_t i = first_interval(&b->off_cpu, thread, start_ns);
	     i < b->off_cpu.count && b->off_cpu.data[i].thread == thread &&
	     b->off_cpu.data[i].start_ns < end_ns;
	     i++)
		ns += counted_ns(b, MAX(start_ns, b->off_cpu.data[i].start_ns),
				 MIN(end_ns, b->off_cpu.data[i].end_ns));
	return ns;
}

static bool has_lost(const struct bounding *b, uint64_t start_ns, uint64_t end_ns)
{
	size_t i = first_interval(&b->lost, 0, start_ns);

	return i < b->lost.count && b->lost.data[i].start_ns < end_ns;
}

/* --- pieces --- */

static const struct task *task_of(const struct bounding *b, uint32_t task)
{
	return &b->r->causes.tasks.data[task];
}

/* Of the time of a call that did not wait for the GPU. */
static enum bound call_bound(const struct bounding *b, const struct task *call)
{
	bool is_short = call->end_ns - call->start_ns < BOUND_HOST_NS;

	switch (calls_kind(&b->r->calls, call->row)) {
	case api_kind_memcpy:
		return BOUND_COPY;
	case api_kind_allocate:
	case api_kind_release:
		return BOUND_MEMORY;
	case api_kind_launch:
	case api_kind_graph_launch:
		return is_short ? BOUND_LAUNCH : BOUND_CALL;
	case api_kind_synchronize:
		return BOUND_SYNC;
	default:
		return is_short ? BOUND_LAUNCH : BOUND_HOST;
	}
}

/*
 * How much of a launching call Pitot needs to record the nodes of its graph: twice the estimate at
 * most, as such calls take that for seconds at a time, and hardly anything without recording.
 */
static uint64_t recording_ns(const struct bounding *b, uint32_t index)
{
	const struct task *call = task_of(b, index);
	uint64_t nodes;

	return map_get(&b->nodes, index, &nodes)
		       ? MIN(2 * graphs_recording_ns(1, nodes), call->end_ns - call->start_ns)
		       : 0;
}

/* Adds a part of a call; Pitot's own time is not what a synchronization held up. */
static void add_call(struct bounding *b, uint32_t index, uint64_t start_ns, uint64_t end_ns)
{
	const struct task *call = task_of(b, index);
	uint64_t ns = counted_ns(b, start_ns, end_ns), whole_ns = call->end_ns - call->start_ns,
		 nodes_ns = recording_ns(b, index);

	if (nodes_ns)
		nodes_ns = (uint64_t)((double)ns * (double)nodes_ns / (double)whole_ns);
	add(b, BOUND_NODES, nodes_ns);
	add_host(b, call_bound(b, call), ns - MIN(nodes_ns, ns));
}

static void add_host_piece(struct bounding *b, const struct path_piece *piece)
{
	const struct task_lane *lane = &b->r->causes.lanes.data[task_of(b, piece->task)->lane];
	bool is_short = piece->end_ns - piece->start_ns < BOUND_HOST_NS;
	uint64_t measuring_ns = b->out->measuring_ns, off_ns, ns;

	if (has_lost(b, piece->start_ns, piece->end_ns)) {
		add(b, BOUND_UNKNOWN, counted_ns(b, piece->start_ns, piece->end_ns));
		return;
	}
	off_ns = off_cpu_ns(b, lane->id, piece->start_ns, piece->end_ns);
	b->out->measuring_ns = measuring_ns; /* it is counted below */
	ns = counted_ns(b, piece->start_ns, piece->end_ns);
	add_host(b, BOUND_OFF_CPU, off_ns);
	add_host(b, is_short ? BOUND_LAUNCH : BOUND_HOST, ns - MIN(off_ns, ns));
}

/* Work whose call is unknown may have waited for anything, and so may all with unknown waits. */
static bool is_late_for_unknown(const struct bounding *b, const struct task *work)
{
	return b->r->causes.unknown.stream_waits ||
	       (work->kind == GPU_WORK_kernel && work->launch == TASK_NONE);
}

static void add_latency(struct bounding *b, const struct path_piece *piece)
{
	const struct causes *c = &b->r->causes;
	const struct task *task = task_of(b, piece->task),
			  *call = piece->edge == EDGE_launch && task->launch != TASK_NONE
					  ? task_of(b, task->launch)
					  : NULL;
	uint64_t start_ns = piece->start_ns, returned_ns, ns, usual_ns;

	if (call) { /* the call itself comes first */
		returned_ns = MIN(MAX(call->end_ns, start_ns), piece->end_ns);
		add_call(b, task->launch, start_ns, returned_ns);
		start_ns = returned_ns;
	}
	ns = counted_ns(b, start_ns, piece->end_ns);
	usual_ns = MIN(ns, c->typical_ns[piece->edge]);
	if (is_late_for_unknown(b, task)) {
		add(b, BOUND_UNKNOWN, ns - usual_ns);
		ns = usual_ns;
	}
	if (call) {
		usual_ns = MIN(ns, usual_ns);
		add_host(b, BOUND_LAUNCH, usual_ns);
		ns -= usual_ns;
	}
	if (piece->edge != EDGE_host_function)
		b->out->latency_ns[piece->edge] += ns;
	add(b, piece->edge == EDGE_host_function ? BOUND_HOST_FUNCTION : BOUND_LATENCY, ns);
}

/* How much of it the GPUs of the process only waited for other ranks. */
static uint64_t rank_wait_ns(struct bounding *b, const struct path_piece *piece)
{
	const struct rank_times *t = b->r->rank_times;
	uint64_t ns = 0;

	for (size_t i = 0; i < t->count; i++) {
		const struct rank_piece *waits = t->items[i].waits.data;
		size_t low = sorted_prefix(t->items[i].waits.count, k,
					   waits[k].end_ns <= piece->start_ns);

		if (b->r->collectives->ranks[i].process != b->out->process)
			continue;
		for (; low < t->items[i].waits.count && waits[low].start_ns < piece->end_ns; low++)
			ns += MIN(waits[low].end_ns, piece->end_ns) -
			      MAX(waits[low].start_ns, piece->start_ns);
	}
	return MIN(ns, piece->end_ns - piece->start_ns);
}

/* Whether it is a collective that may wait, for ranks that were not recorded or compared. */
static bool may_wait(const struct bounding *b, const struct task *task)
{
	uint64_t ns;

	return task->kind == GPU_WORK_kernel && map_get(&b->waits, task->row, &ns) &&
	       ns == WAIT_UNKNOWN;
}

static void add_work(struct bounding *b, const struct path_piece *piece)
{
	/* Work is no pause, and what Pitot measures does not delay it. */
	uint64_t ns = piece->end_ns - piece->start_ns, wait_ns;

	b->waited_ns = 0;
	if (task_of(b, piece->task)->kind == GPU_WORK_memcpy) {
		add(b, BOUND_COPY, ns);
		return;
	}
	wait_ns = MIN(rank_wait_ns(b, piece), ns);
	add(b, BOUND_WAIT, wait_ns);
	add(b, may_wait(b, task_of(b, piece->task)) ? BOUND_COLLECTIVE : BOUND_GPU, ns - wait_ns);
}

static void add_piece(struct bounding *b, const struct path_piece *piece)
{
	const struct task *task = piece->task == TASK_NONE ? NULL : task_of(b, piece->task);

	switch (task ? (enum piece_kind)piece->kind : PIECE_UNKNOWN) {
	case PIECE_WORK:
		add_work(b, piece);
		return;
	case PIECE_CALL:
		add_call(b, piece->task, piece->start_ns, piece->end_ns);
		return;
	case PIECE_HOST:
		add_host_piece(b, piece);
		return;
	case PIECE_LATENCY:
		if (task->kind != TASK_CALL) {
			add_latency(b, piece);
			return;
		}
		if (piece->edge != EDGE_queue_full)
			b->waited_ns = piece->start_ns - MIN(task->start_ns, piece->start_ns);
		add(b, piece->edge == EDGE_queue_full ? BOUND_LAUNCH : BOUND_SYNC,
		    counted_ns(b, piece->start_ns, piece->end_ns));
		return;
	default:
		add(b, BOUND_UNKNOWN, counted_ns(b, piece->start_ns, piece->end_ns));
	}
}

/* --- serialized parts --- */

static enum bound serialized(enum edge_kind edge)
{
	return edge == EDGE_false_dependency ? BOUND_FALSE_DEPENDENCY
	       : edge == EDGE_null_stream    ? BOUND_DEFAULT_STREAM
					     : BOUNDS;
}

/* Finds what holds each piece, from the last to the first. */
static int find_holds(struct bounding *b, const struct path *path)
{
	struct hold hold = { UINT64_MAX, BOUNDS };

	b->holds = calloc(path->pieces.count + 1, sizeof(*b->holds));
	if (!b->holds)
		return -ENOMEM;
	for (size_t i = 0; i < path->pieces.count; i++) {
		const struct path_piece *piece = &path->pieces.data[i];
		struct arrival a;

		if (piece->end_ns <= hold.from_ns)
			hold = (struct hold){ UINT64_MAX, BOUNDS };
		if (piece->kind == PIECE_LATENCY && serialized(piece->edge) < BOUNDS &&
		    piece->task != TASK_NONE) {
			a = causes_start_except(&b->r->causes, piece->task, piece->edge);
			if (a.from != TASK_NONE && a.ns < MIN(hold.from_ns, piece->start_ns))
				hold = (struct hold){ a.ns, serialized(piece->edge) };
		}
		b->holds[i] = hold;
	}
	return 0;
}

static void add_held_piece(struct bounding *b, const struct path_piece *piece, struct hold hold)
{
	struct path_piece free_piece = *piece;

	if (hold.from_ns >= piece->end_ns) {
		add_piece(b, piece);
		return;
	}
	free_piece.end_ns = MAX(hold.from_ns, piece->start_ns);
	if (free_piece.end_ns > free_piece.start_ns)
		add_piece(b, &free_piece);
	b->waited_ns = 0;
	add(b, hold.bound, counted_ns(b, free_piece.end_ns, piece->end_ns));
}

int bounds_find(const struct report *r, uint32_t process, uint64_t start_ns, uint64_t end_ns,
		const struct bound_pause *pauses, size_t pause_count, struct bounds *out)
{
	struct bounding b = {
		.nodes = MAP_INIT, .r = r, .pauses = pauses, .pause_count = pause_count, .out = out
	};
	_cleanup_free_ uint8_t *processes = calloc(trace_process_count(r->trace) + 1, 1);
	_cleanup_(path_release) struct path path = { VEC_INIT };
	int rc = -ENOMEM;

	*out = (struct bounds){ .process = process };
	for (unsigned i = 0; i < BOUNDS; i++)
		out->sums[i].bound = i;
	if (processes) {
		processes[process] = 1;
		rc = path_find(&path, &r->causes, processes, start_ns, end_ns);
	}
	if (rc >= 0)
		rc = find_holds(&b, &path);
	if (rc >= 0)
		rc = collective_waits_list(r->collectives, r->rank_times->waits_known, &b.waits);
	if (rc >= 0)
		rc = collect_off_cpu(&b);
	if (rc >= 0)
		rc = collect_lost(&b);
	if (rc >= 0)
		rc = count_nodes(&b);
	for (size_t i = path.pieces.count; i-- > 0 && rc >= 0;)
		add_held_piece(&b, &path.pieces.data[i], b.holds[i]);
	map_release(&b.waits);
	map_release(&b.nodes);
	vec_release(&b.off_cpu);
	vec_release(&b.lost);
	free(b.holds);
	return rc < 0 ? rc : 0;
}
