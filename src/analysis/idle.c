/*
 * idle.c: one sweep over all work finds the gaps of each GPU. For each gap, previous() follows the
 * calls of the thread that ended it backwards, from the launch to the beginning of the gap. Gaps of
 * one GPU do not overlap, so each call is visited at most once per GPU.
 */
#include "analysis/idle.h"

#include <errno.h>

#include "analysis/calls.h"
#include "analysis/report.h"

static const uint64_t size_limits_ns[IDLE_SIZES] = { 1000,     10000,     100000,    1000000,
						     10000000, 100000000, UINT64_MAX };
#define FAR UINT8_MAX

struct idle_sweep {
	const struct trace *trace;
	const struct calls *calls;
	const struct callers *callers;
	const struct measuring *measuring;
	/*
	 * By call: distance in rows to the thread's previous outermost call. 0: there is none; FAR:
	 * see `far`. If the previous call ends after this one starts, it encloses this one (--api
	 * all records nested calls).
	 */
	uint8_t *back;
	struct map far; /* call -> previous call */
	uint64_t *busy_until_ns; /* per GPU; 0: no work yet */
	struct idle *out;
};

static const enum idle_cause cause_of_kind[] = {
	[api_kind_other] = IDLE_CALL,          [api_kind_launch] = IDLE_LAUNCH,
	[api_kind_graph_launch] = IDLE_LAUNCH, [api_kind_memcpy] = IDLE_COPY,
	[api_kind_memset] = IDLE_COPY,         [api_kind_synchronize] = IDLE_SYNC,
	[api_kind_allocate] = IDLE_MEMORY,     [api_kind_release] = IDLE_MEMORY,
	[api_kind_event] = IDLE_CALL,          [api_kind_query] = IDLE_SYNC,
};

static enum idle_cause cause_of(const struct idle_sweep *s, uint32_t call)
{
	unsigned kind = calls_kind(s->calls, call);

	return kind < ARRAY_SIZE(cause_of_kind) ? cause_of_kind[kind] : IDLE_CALL;
}

/* The thread's previous outermost call, or TRACE_NO_ROW. */
static uint32_t previous(const struct idle_sweep *s, uint32_t call)
{
	uint64_t row = TRACE_NO_ROW;

	if (s->back[call] == FAR)
		map_get(&s->far, call, &row);
	else if (s->back[call])
		row = call - s->back[call];
	return (uint32_t)row;
}

static int set_previous(struct idle_sweep *s, uint32_t call, uint64_t before)
{
	if (before == TRACE_NO_ROW)
		return 0;
	s->back[call] = (uint8_t)MIN(call - before, FAR);
	return s->back[call] < FAR ? 0 : map_put(&s->far, call, before);
}

/* Fills back and far. Rows are ordered by process and start. */
static int link_calls(struct idle_sweep *s)
{
	/* thread of this process -> its last outermost call */
	_cleanup_(map_release) struct map last = MAP_INIT;
	uint32_t process = UINT32_MAX, thread = 0;
	uint64_t *slot = NULL;
	int rc = 0;

	for (struct row_walk w = all_rows(s->trace, TABLE_api_call);
	     rc >= 0 && row_walk_next(&w);) {
		if (w.process != process) {
			process = w.process;
			map_clear(&last);
			slot = NULL;
		}
		if (!slot || s->calls->threads[w.row] != thread) {
			thread = s->calls->threads[w.row];
			slot = map_at(&last, thread, TRACE_NO_ROW);
		}
		rc = slot ? set_previous(s, (uint32_t)w.row, *slot) : -ENOMEM;
		if (rc < 0)
			break;
		if (*slot == TRACE_NO_ROW || s->calls->end_ns[*slot] <= s->calls->start_ns[w.row])
			*slot = w.row;
	}
	return rc;
}

static unsigned size_class(uint64_t ns)
{
	unsigned size = 0;

	while (ns >= size_limits_ns[size] && size < IDLE_SIZES - 1)
		size++;
	return size;
}

/* A gap whose causes are being found. */
struct gap {
	uint64_t start_ns, end_ns;
	uint32_t process; /* that launched the work */
	enum idle_cause began_in; /* kind of the call in which the gap began; IDLE_HOST: none */
};

static void add_cause(const struct idle_sweep *s, const struct gap *gap, enum idle_cause cause,
		      uint64_t start_ns, uint64_t end_ns, uint64_t cause_ns[IDLE_CAUSES])
{
	uint64_t measured = measuring_within(s->measuring, gap->process, start_ns, end_ns);

	cause_ns[IDLE_MEASURING] += measured;
	cause_ns[cause] += end_ns - start_ns - measured;
}

/* More calls than this between a gap and its work's call are no clock error, but a wrong call. */
#define CALLS_AFTER_MAX 1000u

/*
 * Attributes the time from the gap's start to `until`, the start of `call`, to what the thread did.
 */
static void explain_thread(const struct idle_sweep *s, struct gap *gap, uint32_t call,
			   uint64_t until, uint64_t cause_ns[IDLE_CAUSES])
{
	unsigned after = 0;

	for (call = previous(s, call); call != TRACE_NO_ROW && until > gap->start_ns;
	     call = previous(s, call)) {
		uint64_t start = s->calls->start_ns[call], end = MIN(s->calls->end_ns[call], until);
		enum idle_cause cause = cause_of(s, call);

		if (end <= gap->start_ns)
			break;
		if (start >= end) {
			if (++after < CALLS_AFTER_MAX)
				continue; /* the call is after the gap, because of a clock error */
			add_cause(s, gap, IDLE_UNKNOWN, gap->start_ns, until, cause_ns);
			return;
		}
		add_cause(s, gap, IDLE_HOST, end, until, cause_ns);
		if (start < gap->start_ns) {
			gap->began_in = cause;
			start = gap->start_ns;
		}
		add_cause(s, gap, cause, start, end, cause_ns);
		until = start;
	}
	if (until > gap->start_ns)
		add_cause(s, gap, IDLE_HOST, gap->start_ns, until, cause_ns);
}

/* The call that encloses this one, or the call itself. */
static uint32_t outermost(const struct idle_sweep *s, uint32_t call)
{
	uint32_t before = previous(s, call);

	return before != TRACE_NO_ROW && s->calls->end_ns[before] > s->calls->start_ns[call]
		       ? before
		       : call;
}

/* Attributes the gap's time to its causes. */
static void explain(const struct idle_sweep *s, struct gap *gap, uint32_t call,
		    uint64_t cause_ns[IDLE_CAUSES])
{
	uint64_t called, returned;

	if (call == TRACE_NO_ROW) {
		add_cause(s, gap, IDLE_UNKNOWN, gap->start_ns, gap->end_ns, cause_ns);
		return;
	}
	call = outermost(s, call);
	called = MIN(MAX(s->calls->start_ns[call], gap->start_ns), gap->end_ns);
	returned = MIN(MAX(s->calls->end_ns[call], called), gap->end_ns);
	add_cause(s, gap, IDLE_QUEUED, returned, gap->end_ns, cause_ns);
	add_cause(s, gap, cause_of(s, call), called, returned, cause_ns);
	explain_thread(s, gap, call, called, cause_ns);
}

void work_gaps_add(struct work_gaps *g, const struct idle_gap *gap)
{
	size_t i = IDLE_LONGEST;

	if (gap->own_ns <= g->longest[IDLE_LONGEST - 1].own_ns)
		return;
	while (--i && g->longest[i - 1].own_ns < gap->own_ns)
		g->longest[i] = g->longest[i - 1];
	g->longest[i] = *gap;
}

struct idle_line *idle_line_at(struct idle_line_list *list, uint32_t caller, uint32_t callee)
{
	struct idle_line *line = list->lines.items.data;

	if (line && line[list->last].caller == caller && line[list->last].callee == callee)
		return &line[list->last];
	line = groups_at(&list->lines, (uint64_t)caller << 32 | callee, .caller = caller,
			 .callee = callee);
	if (line)
		list->last = (size_t)(line - list->lines.items.data);
	return line;
}

static int add_gap(const struct idle_sweep *s, const struct gpu_operation *op, uint64_t start_ns)
{
	struct gpu_idle *g = &s->out->gpus[op->gpu];
	struct gap gap = { .start_ns = start_ns,
			   .end_ns = op->start_ns,
			   .process = op->process,
			   .began_in = IDLE_HOST };
	uint64_t length = op->start_ns - start_ns, cause_ns[IDLE_CAUSES] = { 0 };
	uint32_t call = calls_launch(s->calls, op->work, op->row);
	uint32_t caller = callers_of_call(s->callers, op->process, call);
	struct idle_line *line = idle_line_at(&g->launched, caller, CALLER_NONE);
	struct idle_size *size = &g->gaps[size_class(length)];
	struct idle_gap longest = { .start_ns = start_ns, .length_ns = length, .caller = caller };

	if (!line)
		return -ENOMEM;
	size->count++;
	size->total_ns += length;
	g->total_ns += length;
	explain(s, &gap, calls_timed(s->calls, call), cause_ns);
	for (unsigned cause = 0; cause < IDLE_CAUSES; cause++) {
		g->cause_ns[cause] += cause_ns[cause];
		if (cause_ns[cause] > cause_ns[longest.cause])
			longest.cause = cause;
	}
	longest.own_ns = length - cause_ns[IDLE_MEASURING];
	line->count++;
	line->ns += longest.own_ns;
	g->after_sync += gap.began_in == IDLE_SYNC;
	g->after_copy += gap.began_in == IDLE_COPY;
	work_gaps_add(&g->between, &longest);
	return 0;
}

static void add_edges(struct idle_sweep *s, uint64_t window_end_ns)
{
	for (size_t i = 0; i < s->out->count; i++) {
		struct gpu_idle *g = &s->out->gpus[i];

		if (!s->busy_until_ns[i] || s->busy_until_ns[i] >= window_end_ns)
			continue;
		g->cause_ns[IDLE_AFTER] += window_end_ns - s->busy_until_ns[i];
		g->total_ns += window_end_ns - s->busy_until_ns[i];
	}
}

static int sweep(struct idle_sweep *s, struct gpu_walk *walk, uint64_t window_start_ns)
{
	struct gpu_operation op;
	int rc = 0;

	while (rc >= 0 && gpu_walk_next(walk, &op)) {
		uint64_t *until = &s->busy_until_ns[op.gpu];

		pace_add(&s->out->gpus[op.gpu].between.pace, op.start_ns);
		if (!*until && op.start_ns > window_start_ns) {
			s->out->gpus[op.gpu].cause_ns[IDLE_BEFORE] += op.start_ns - window_start_ns;
			s->out->gpus[op.gpu].total_ns += op.start_ns - window_start_ns;
		} else if (*until && op.start_ns > *until) {
			rc = add_gap(s, &op, *until);
		}
		*until = MAX(*until, op.end_ns);
	}
	return rc;
}

int idle_gaps(const struct gpus *gpus, const struct selection *selection, const struct calls *calls,
	      size_t gpu, int (*visit)(void *user, const struct idle_visit *gap), void *user)
{
	struct gpu_operation op;
	struct gpu_walk walk;
	uint64_t until = 0;
	int rc = gpu_walk_init(&walk, gpus, selection);

	while (rc >= 0 && gpu_walk_next(&walk, &op)) {
		if (op.gpu != gpu)
			continue;
		if (until && op.start_ns > until) {
			struct idle_visit gap = { until, op.start_ns, op.process,
						  calls_launch(calls, op.work, op.row) };

			rc = visit(user, &gap);
		}
		until = MAX(until, op.end_ns);
	}
	gpu_walk_release(&walk);
	return rc < 0 ? rc : 0;
}

const char *idle_cause_name(unsigned cause)
{
	static const char *const names[IDLE_CAUSES] = {
		[IDLE_BEFORE] = "before_first", [IDLE_AFTER] = "after_last",
		[IDLE_HOST] = "host",           [IDLE_LAUNCH] = "launch",
		[IDLE_SYNC] = "synchronize",    [IDLE_COPY] = "copy",
		[IDLE_MEMORY] = "memory",       [IDLE_CALL] = "other_call",
		[IDLE_QUEUED] = "queued",       [IDLE_UNKNOWN] = "unknown",
		[IDLE_MEASURING] = "measuring",
	};

	return names[cause];
}

static int run(struct report *r, void *result)
{
	struct idle *out = result;
	struct idle_sweep s = { .trace = r->trace,
				.calls = &r->calls,
				.callers = &r->callers,
				.measuring = &r->measuring,
				.far = MAP_INIT,
				.out = out };
	struct gpu_walk walk;
	int code;

	*out = (struct idle){ .gpus = calloc(r->gpus.count + 1, sizeof(*out->gpus)),
			      .count = r->gpus.count };
	s.busy_until_ns = calloc(r->gpus.count + 1, sizeof(*s.busy_until_ns));
	s.back = calloc(r->calls.rows + 1, sizeof(*s.back));
	code = gpu_walk_init(&walk, &r->gpus, &r->selection);
	if (!out->gpus || !s.busy_until_ns || !s.back)
		code = -ENOMEM;
	for (size_t i = 0; code >= 0 && i < out->count; i++)
		for (size_t size = 0; size < IDLE_SIZES; size++)
			out->gpus[i].gaps[size].below_ns = size_limits_ns[size];
	if (code >= 0)
		code = link_calls(&s);
	if (code >= 0)
		code = sweep(&s, &walk, r->start_ns);
	if (code >= 0)
		add_edges(&s, r->end_ns);
	free(s.back);
	map_release(&s.far);
	free(s.busy_until_ns);
	gpu_walk_release(&walk);
	return code < 0 ? code : 0;
}

static void release(void *result)
{
	struct idle *idle = result;

	for (size_t i = 0; idle->gpus && i < idle->count; i++)
		groups_release(&idle->gpus[i].launched.lines);
	free(idle->gpus);
}

const struct analysis analysis_idle = {
	.size = sizeof(struct idle),
	.run = run,
	.release = release,
};
