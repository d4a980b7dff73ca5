/*
 * idle.c: one sweep over all work finds the gaps of each GPU. For a gap, the calls of the thread
 * that ended it are followed backwards from the call that launched, through `previous`, until the
 * gap's beginning. Gaps of one GPU do not overlap, so each call is visited at most once per GPU.
 */
#include "analysis/idle.h"

#include <errno.h>

#include "analysis/calls.h"
#include "analysis/report.h"

static const uint64_t size_limits_ns[IDLE_SIZES] = { 1000,     10000,     100000,    1000000,
						     10000000, 100000000, UINT64_MAX };
#define SHORT_SIZES 3 /* the first three are below 100 us: the pace at which frameworks launch */

struct idle_sweep {
	const struct trace *trace;
	const struct calls *calls;
	/*
	 * For each call the one before it of the same thread that is inside no other, TRACE_NO_ROW
	 * at the first. Where that has not ended yet, it is around this one (--api all records
	 * calls inside calls).
	 */
	uint32_t *previous;
	uint64_t *busy_until_ns; /* per GPU; 0: no work yet */
	struct idle *out;
};

static const enum idle_cause cause_of_kind[] = {
	[api_kind_other] = IDLE_CALL,          [api_kind_launch] = IDLE_LAUNCH,
	[api_kind_graph_launch] = IDLE_LAUNCH, [api_kind_memcpy] = IDLE_COPY,
	[api_kind_memset] = IDLE_COPY,         [api_kind_synchronize] = IDLE_SYNC,
	[api_kind_allocate] = IDLE_MEMORY,     [api_kind_release] = IDLE_MEMORY,
	[api_kind_event] = IDLE_CALL,
};

static enum idle_cause cause_of(const struct idle_sweep *s, uint32_t call)
{
	unsigned kind = calls_kind(s->calls, call);

	return kind < ARRAY_SIZE(cause_of_kind) ? cause_of_kind[kind] : IDLE_CALL;
}

/* Fills previous[]. Rows are ordered by process and start. */
static int link_calls(struct idle_sweep *s)
{
	/* thread -> its last call that is inside no other, in this process */
	struct map last = MAP_INIT;
	uint32_t process = UINT32_MAX, thread = 0;
	uint64_t *slot = NULL;

	for (struct row_walk w = all_rows(s->trace, TABLE_api_call); row_walk_next(&w);) {
		if (w.process != process) {
			process = w.process;
			map_clear(&last);
			slot = NULL;
		}
		if (!slot || s->calls->threads[w.row] != thread) {
			thread = s->calls->threads[w.row];
			slot = map_at(&last, thread, TRACE_NO_ROW);
		}
		if (!slot)
			break;
		s->previous[w.row] = (uint32_t)*slot;
		if (*slot == TRACE_NO_ROW || s->calls->end_ns[*slot] <= s->calls->start_ns[w.row])
			*slot = w.row;
	}
	map_release(&last);
	return s->calls->rows && !slot ? -ENOMEM : 0;
}

static unsigned size_class(uint64_t ns)
{
	unsigned size = 0;

	while (ns >= size_limits_ns[size] && size < IDLE_SIZES - 1)
		size++;
	return size;
}

/* A gap that is being explained: its time by cause, and the call that its beginning fell into. */
struct gap {
	uint64_t start_ns, end_ns;
	uint64_t cause_ns[IDLE_CAUSES];
	enum idle_cause began_in; /* IDLE_HOST when in none */
	bool waited; /* the work was launched long enough ago to be more than launch latency */
};

/* What the thread did from the gap's start to `until`, where its call `call` began. */
static void explain_thread(const struct idle_sweep *s, struct gap *gap, uint32_t call,
			   uint64_t until)
{
	for (call = s->previous[call]; call != TRACE_NO_ROW && until > gap->start_ns;
	     call = s->previous[call]) {
		uint64_t start = s->calls->start_ns[call], end = MIN(s->calls->end_ns[call], until);
		enum idle_cause cause = cause_of(s, call);

		if (end <= gap->start_ns)
			break;
		if (start >= end)
			continue; /* after the gap, when the clocks disagree */
		gap->cause_ns[IDLE_HOST] += until - end;
		if (start < gap->start_ns) {
			gap->began_in = cause;
			start = gap->start_ns;
		}
		gap->cause_ns[cause] += end - start;
		until = start;
	}
	if (until > gap->start_ns)
		gap->cause_ns[IDLE_HOST] += until - gap->start_ns;
}

/* The call that is around this one, or itself. */
static uint32_t outermost(const struct idle_sweep *s, uint32_t call)
{
	uint32_t before = s->previous[call];

	return before != TRACE_NO_ROW && s->calls->end_ns[before] > s->calls->start_ns[call]
		       ? before
		       : call;
}

static void explain(const struct idle_sweep *s, struct gap *gap, uint32_t call)
{
	uint64_t called, returned;

	if (call == TRACE_NO_ROW) {
		gap->cause_ns[IDLE_UNKNOWN] = gap->end_ns - gap->start_ns;
		return;
	}
	call = outermost(s, call);
	called = MIN(MAX(s->calls->start_ns[call], gap->start_ns), gap->end_ns);
	returned = MIN(MAX(s->calls->end_ns[call], called), gap->end_ns);
	gap->cause_ns[IDLE_QUEUED] = gap->end_ns - returned;
	gap->waited = s->calls->end_ns[call] < gap->start_ns &&
		      gap->end_ns - s->calls->end_ns[call] > IDLE_LAUNCH_LATENCY_NS;
	gap->cause_ns[cause_of(s, call)] += returned - called;
	explain_thread(s, gap, call, called);
}

static void weigh(const struct gap *gap, uint64_t part_ns[IDLE_PARTS])
{
	uint64_t length = gap->end_ns - gap->start_ns, rest = length;

	if (gap->cause_ns[IDLE_UNKNOWN]) {
		part_ns[IDLE_PART_UNKNOWN] = length;
	} else if (gap->began_in == IDLE_SYNC && length < IDLE_WAIT_LIMIT_NS) {
		part_ns[IDLE_PART_SYNC] = length;
	} else if (gap->began_in == IDLE_COPY && length < IDLE_WAIT_LIMIT_NS) {
		part_ns[IDLE_PART_COPY] = length;
	} else if (gap->waited) {
		part_ns[IDLE_PART_LATENCY] = length;
	} else if (size_class(length) < SHORT_SIZES) {
		part_ns[IDLE_PART_LAUNCH] = length;
	} else {
		rest -= part_ns[IDLE_PART_SYNC] = gap->cause_ns[IDLE_SYNC];
		rest -= part_ns[IDLE_PART_COPY] = gap->cause_ns[IDLE_COPY];
		rest -= part_ns[IDLE_PART_LAUNCH] = gap->cause_ns[IDLE_LAUNCH];
		part_ns[IDLE_PART_HOST] = rest;
	}
}

static void keep_longest(struct gpu_idle *g, const struct idle_gap *gap)
{
	size_t i = IDLE_LONGEST;

	if (gap->length_ns <= g->longest[IDLE_LONGEST - 1].length_ns)
		return;
	while (--i && g->longest[i - 1].length_ns < gap->length_ns)
		g->longest[i] = g->longest[i - 1];
	g->longest[i] = *gap;
}

static void book_gap(const struct idle_sweep *s, const struct gpu_operation *op, uint64_t start_ns)
{
	struct gpu_idle *g = &s->out->gpus[op->gpu];
	struct gap gap = { .start_ns = start_ns, .end_ns = op->start_ns, .began_in = IDLE_HOST };
	struct idle_gap kept = { .start_ns = start_ns, .length_ns = op->start_ns - start_ns };
	unsigned size = size_class(kept.length_ns);

	explain(s, &gap, calls_launch(s->calls, op->work, op->row));
	weigh(&gap, kept.part_ns);
	for (int cause = 0; cause < IDLE_CAUSES; cause++)
		g->cause_ns[cause] += gap.cause_ns[cause];
	for (int part = 0; part < IDLE_PARTS; part++)
		g->part_ns[part] += kept.part_ns[part];
	g->after_sync += gap.began_in == IDLE_SYNC;
	g->after_copy += gap.began_in == IDLE_COPY;
	g->total_ns += kept.length_ns;
	g->gaps[size].count++;
	g->gaps[size].total_ns += kept.length_ns;
	keep_longest(g, &kept);
}

static void book_edges(struct idle_sweep *s, uint64_t window_end_ns)
{
	for (size_t i = 0; i < s->out->count; i++) {
		struct gpu_idle *g = &s->out->gpus[i];

		if (!s->busy_until_ns[i] || s->busy_until_ns[i] >= window_end_ns)
			continue;
		g->cause_ns[IDLE_AFTER] += window_end_ns - s->busy_until_ns[i];
		g->total_ns += window_end_ns - s->busy_until_ns[i];
	}
}

static void sweep(struct idle_sweep *s, struct gpu_walk *walk, uint64_t window_start_ns)
{
	struct gpu_operation op;

	while (gpu_walk_next(walk, &op)) {
		uint64_t *until = &s->busy_until_ns[op.gpu];

		pace_add(&s->out->gpus[op.gpu].pace, op.start_ns);
		if (!*until && op.start_ns > window_start_ns) {
			s->out->gpus[op.gpu].cause_ns[IDLE_BEFORE] += op.start_ns - window_start_ns;
			s->out->gpus[op.gpu].total_ns += op.start_ns - window_start_ns;
		} else if (*until && op.start_ns > *until) {
			book_gap(s, &op, *until);
		}
		*until = MAX(*until, op.end_ns);
	}
}

int idle_analyze(const struct gpus *gpus, const struct selection *selection,
		 const struct calls *calls, uint64_t window_start_ns, uint64_t window_end_ns,
		 struct idle *out)
{
	struct idle_sweep s = { .trace = selection->trace, .calls = calls, .out = out };
	struct gpu_walk walk;
	int r;

	*out = (struct idle){ .gpus = calloc(gpus->count + 1, sizeof(*out->gpus)),
			      .count = gpus->count };
	s.busy_until_ns = calloc(gpus->count + 1, sizeof(*s.busy_until_ns));
	s.previous = malloc((calls->rows + 1) * sizeof(*s.previous));
	r = gpu_walk_init(&walk, gpus, selection);
	if (!out->gpus || !s.busy_until_ns || !s.previous)
		r = -ENOMEM;
	for (size_t i = 0; r >= 0 && i < out->count; i++)
		for (size_t size = 0; size < IDLE_SIZES; size++)
			out->gpus[i].gaps[size].below_ns = size_limits_ns[size];
	if (r >= 0)
		r = link_calls(&s);
	if (r >= 0) {
		sweep(&s, &walk, window_start_ns);
		book_edges(&s, window_end_ns);
	}
	free(s.previous);
	free(s.busy_until_ns);
	gpu_walk_release(&walk);
	return r < 0 ? r : 0;
}

int idle_gaps(const struct gpus *gpus, const struct selection *selection, const struct calls *calls,
	      size_t gpu, int (*visit)(void *user, const struct idle_visit *gap), void *user)
{
	struct gpu_operation op;
	struct gpu_walk walk;
	uint64_t until = 0;
	int r = gpu_walk_init(&walk, gpus, selection);

	while (r >= 0 && gpu_walk_next(&walk, &op)) {
		if (op.gpu != gpu)
			continue;
		if (until && op.start_ns > until) {
			struct idle_visit gap = { until, op.start_ns, op.process,
						  calls_launch(calls, op.work, op.row) };

			r = visit(user, &gap);
		}
		until = MAX(until, op.end_ns);
	}
	gpu_walk_release(&walk);
	return r < 0 ? r : 0;
}

const char *idle_cause_name(unsigned cause)
{
	static const char *const names[IDLE_CAUSES] = {
		[IDLE_BEFORE] = "before_first", [IDLE_AFTER] = "after_last",
		[IDLE_HOST] = "host",           [IDLE_LAUNCH] = "launch",
		[IDLE_SYNC] = "synchronize",    [IDLE_COPY] = "copy",
		[IDLE_MEMORY] = "memory",       [IDLE_CALL] = "other_call",
		[IDLE_QUEUED] = "queued",       [IDLE_UNKNOWN] = "unknown",
	};

	return names[cause];
}

static int run(struct report *r, void *out)
{
	return idle_analyze(&r->gpus, &r->selection, &r->calls, r->start_ns, r->end_ns, out);
}

const struct analysis analysis_idle = {
	.size = sizeof(struct idle),
	.run = run,
	OWNS(struct idle, gpus),
};
