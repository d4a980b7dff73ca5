#include "analysis/what_if.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/collective_waits.h"
#include "analysis/groups.h"
#include "analysis/rank_times.h"
#include "analysis/verdict.h"
#include "trace/columns.h"

#define RUNS_PERCENT 5u /* by which two runs of one program differ on one machine */
#define OVERLAP_PERCENT 10u /* by which work may be longer because other work ran beside it */
#define MEDIAN_DEVIATIONS 0.98 /* of the rank of a median: 1.96 / 2, for 95 % */

struct change {
	const struct what_if *what_if;
	const struct what_if_rule *rules;
	size_t count;
	uint64_t call_ns, synchronize_ns; /* less for each launching or waiting call */
	uint64_t node_gap_ns; /* less for each node of a graph after the first one */
	const struct what_if_candidate *halved; /* or NULL */
};

/* No change but that nothing was recorded. */
static struct change corrected(const struct what_if *w)
{
	return (struct change){ .what_if = w,
				.call_ns = w->call_ns,
				.synchronize_ns = w->synchronize_ns,
				.node_gap_ns = w->node_gap_ns };
}

/* Whether ranks are simulated together: if their waiting is changed, it is the recorded one. */
static bool is_together(const struct change *x)
{
	bool together = x->what_if->ranks.ranges.count;

	for (size_t i = 0; i < x->count; i++)
		together &= x->rules[i].target != WHAT_IF_wait;
	return together;
}

static const struct task *task_at(const struct what_if *w, uint32_t index)
{
	return &w->report->causes.tasks.data[index];
}

static bool is_launching(const struct task *task)
{
	return task->kind == TASK_CALL && task->flags & TASK_LAUNCH_CALL;
}

uint64_t what_if_host_ns(const struct what_if *w, uint32_t index)
{
	const struct task *call = task_at(w, index);
	uint32_t since = w->turns[index] != TASK_NONE ? w->turns[index] : call->previous;

	return since == TASK_NONE || task_at(w, since)->end_ns > call->start_ns
		       ? 0
		       : call->start_ns - task_at(w, since)->end_ns;
}

/* --- simulations --- */

struct path_place what_if_place(const struct report *r, enum cost_of what, const struct task *task)
{
	if (what == COST_WORK && task_is_work(task))
		return path_place_of_work(r, task);
	if (what == COST_CALL && !(task->flags & TASK_UNKNOWN_WAIT)) /* else its own is unknown */
		return path_place_of_call(r, task);
	if (what == COST_HOST)
		return path_place_of_host(r, task);
	return (struct path_place){ PATH_UNKNOWN, 0, 0 };
}

static bool is_of(const struct what_if_candidate *c, struct path_place p)
{
	return c->is_class ? c->place.class == p.class
			   : path_place_id(c->place) == path_place_id(p);
}

/* What a collective waits for other ranks instead of `ns`. */
static uint64_t waits(void *user, uint32_t task, uint64_t ns)
{
	const struct change *x = user;

	for (size_t i = 0; i < x->count && ns; i++)
		ns = what_if_rank_wait(x->what_if, &x->rules[i], task, ns);
	return ns;
}

static bool is_graph_launch(const struct what_if *w, uint32_t index)
{
	return what_if_call_kind(w, task_at(w, index)) == api_kind_graph_launch;
}

/*
 * What recording adds to a launching call that took `ns`: to that of a graph so much for each of
 * its recorded nodes; as uncertain, in proportion, as that of other calls. Recorded launches of
 * graphs are up to twice as slow for seconds at a time, so half of what remains beyond the time of
 * such a launch without recording is taken for recording, too.
 */
static uint64_t added_to_call_ns(const struct change *x, uint32_t index, uint64_t ns)
{
	const struct what_if *w = x->what_if;
	uint32_t nodes = index < w->from_task ? 0 : w->nodes[index - w->from_task];
	uint64_t added_ns, bare_ns;

	if (!w->graph_added_ns || !w->call_ns || !nodes)
		return x->call_ns;
	added_ns = w->graph_added_ns + (nodes - 1) * w->node_added_ns;
	if (w->graph_launch_ns == CALIBRATION_UNKNOWN || w->graph_node_ns == CALIBRATION_UNKNOWN)
		bare_ns = WHAT_IF_GRAPH_NS;
	else
		bare_ns = w->graph_launch_ns + (nodes - 1) * w->graph_node_ns;
	if (ns > added_ns + bare_ns)
		added_ns += (ns - added_ns - bare_ns) / 2;
	return (uint64_t)((double)added_ns * (double)x->call_ns / (double)w->call_ns);
}

/* The nodes of a graph begin when nearly all of that has passed: with the call, if it is long. */
static uint64_t added_to_latency_ns(const struct change *x, uint32_t index, uint64_t ns)
{
	uint32_t launch = task_at(x->what_if, index)->launch;
	const struct task *call;

	if (launch == TASK_NONE || !is_graph_launch(x->what_if, launch))
		return 0;
	call = task_at(x->what_if, launch);
	return call->flags & TASK_LONG_LAUNCH
		       ? 0
		       : added_to_call_ns(x, launch, MIN(ns, call->end_ns - call->start_ns));
}

/* What it adds to the work of a node that follows another one of its launch. */
static uint64_t added_to_work_ns(const struct change *x, uint32_t index)
{
	const struct what_if *w = x->what_if;
	uint32_t launch = task_at(w, index)->launch;

	return x->node_gap_ns && launch != TASK_NONE && index > launch + 1 &&
			       is_graph_launch(w, launch)
		       ? x->node_gap_ns
		       : 0;
}

static uint64_t cost(void *user, enum cost_of what, uint32_t index, enum edge_kind edge,
		     uint64_t ns)
{
	const struct change *x = user;
	const struct what_if *w = x->what_if;
	uint64_t wait_ns = what == COST_WORK ? MIN(what_if_rank_wait_ns(w, index), ns) : 0;

	ns -= wait_ns;
	if (what == COST_CALL && is_launching(task_at(w, index)))
		ns -= MIN(ns, added_to_call_ns(x, index, ns));
	else if (what == COST_CALL && task_at(w, index)->flags & TASK_SYNC_CALL)
		ns -= MIN(ns, x->synchronize_ns);
	else if (what == COST_WORK)
		ns -= MIN(ns, added_to_work_ns(x, index));
	else if (what == COST_LATENCY && edge == EDGE_launch)
		ns -= MIN(ns, added_to_latency_ns(x, index, ns));
	for (size_t i = 0; i < x->count; i++)
		ns = what_if_cost(w, &x->rules[i], what, index, ns);
	if (x->halved && is_of(x->halved, what_if_place(w->report, what, task_at(w, index))))
		ns /= 2;
	return is_together(x) && what_if_ranks_has(&w->ranks, index)
		       ? ns
		       : ns + waits(user, index, wait_ns);
}

static bool returns_at_once(void *user, uint32_t call)
{
	const struct change *x = user;

	for (size_t i = 0; i < x->count; i++)
		if (what_if_returns(x->what_if, &x->rules[i], call))
			return true;
	return false;
}

/* A time that passed of a duration, if that is another one. */
static int64_t scale(uint64_t ns, uint64_t whole, int64_t simulated)
{
	return (int64_t)whole == simulated || !whole
		       ? (int64_t)ns
		       : (int64_t)((double)ns * (double)simulated / (double)whole);
}

/* The simulated time of a moment of the host: it stays where it was between two calls. */
static int64_t host_time(const struct what_if *w, uint64_t ns)
{
	size_t after =
		sorted_prefix(w->calls.count, i, task_at(w, w->calls.data[i])->start_ns <= ns);
	uint32_t at = after ? w->calls.data[after - 1] : TASK_NONE;
	const struct task *call = after ? task_at(w, at) : NULL, *next;
	const struct simulated *t, *n;
	uint64_t whole;

	if (!call)
		return (int64_t)ns;
	t = &w->times[at - w->first_task];
	if (ns < call->end_ns)
		return t->start_ns + scale(ns - call->start_ns, call->end_ns - call->start_ns,
					   t->end_ns - t->start_ns);
	if (after == w->calls.count)
		return t->end_ns + (int64_t)(ns - call->end_ns);
	next = task_at(w, w->calls.data[after]);
	n = &w->times[w->calls.data[after] - w->first_task];
	whole = next->start_ns - MIN(call->end_ns, next->start_ns);
	return t->end_ns + scale(ns - call->end_ns, whole, MAX(n->start_ns - t->end_ns, 0));
}

static int compare_u64(const void *a, const void *b)
{
	return ORDER_OF(*(const uint64_t *)a, *(const uint64_t *)b);
}

struct measured {
	uint64_t step_ns, bar_ns; /* median, and half of its 95 % interval by the ranks */
	uint64_t start_ns, end_ns;
};

/* The first of several steps begins while the GPU has work of the one before. */
static void find_median(uint64_t *ns, size_t count, struct measured *out)
{
	size_t first = count > 2, n = count - first, lowest, highest;
	double half = MEDIAN_DEVIATIONS * sqrt((double)n);

	qsort(ns + first, n, sizeof(*ns), compare_u64);
	lowest = (double)(n / 2) > half ? (size_t)((double)(n / 2) - half) : 0;
	highest = MIN((size_t)((double)n / 2 + half), n - 1);
	out->step_ns = ns[first + (n + 1) / 2 - 1];
	out->bar_ns = (ns[first + highest] - ns[first + lowest]) / 2;
}

/* Measures the steps as steps.c does, at simulated times. 0 or -ENOMEM. */
static int measure_steps(const struct what_if *w, struct measured *out)
{
	const struct step *steps = w->report->steps->items + w->first_step;
	_cleanup_free_ int64_t *ends = calloc(w->step_count + 1, sizeof(*ends));
	_cleanup_free_ uint64_t *ns = calloc(w->step_count + 1, sizeof(*ns));
	int64_t until = w->first_step > w->loop->first ? (int64_t)steps[-1].end_ns : 0, start;

	if (!ends || !ns)
		return -ENOMEM;
	for (uint32_t i = w->first_task; i < w->end_task; i++) {
		uint32_t step = w->step_of[i - w->first_task];

		if (step != UINT32_MAX)
			ends[step] = MAX(ends[step], w->times[i - w->first_task].end_ns);
	}
	for (size_t i = 0; i < w->step_count; i++) {
		start = MAX(host_time(w, steps[i].host_start_ns), until);
		if (!i)
			out->start_ns = (uint64_t)MAX(start, 0);
		until = MAX(MAX(host_time(w, steps[i].host_end_ns), ends[i]), start);
		ns[i] = (uint64_t)(until - start);
	}
	out->end_ns = (uint64_t)MAX(until, 0);
	find_median(ns, w->step_count, out);
	return 0;
}

static int measure(const struct what_if *w, struct measured *out)
{
	int64_t start = INT64_MAX, end = 0;

	*out = (struct measured){ 0 };
	if (w->loop)
		return measure_steps(w, out);
	for (uint32_t i = 0; i < w->end_task - w->first_task; i++) {
		start = MIN(start, w->times[i].start_ns);
		end = MAX(end, w->times[i].end_ns);
	}
	out->start_ns = (uint64_t)MAX(start, 0);
	out->end_ns = (uint64_t)MAX(end, start);
	out->step_ns = out->end_ns - out->start_ns;
	return 0;
}

/* Recorded times are those of a simulation in which no task is simulated. */
static void set_recorded(struct what_if *w)
{
	for (uint32_t i = w->from_task; i < w->until_task; i++)
		w->all_times[i - w->from_task] =
			(struct simulated){ (int64_t)task_at(w, i)->start_ns,
					    (int64_t)task_at(w, i)->end_ns };
}

static int run(struct what_if *w, const struct change *change, struct measured *out)
{
	struct simulation s = {
		.causes = &w->report->causes,
		.cost = cost,
		.returns_at_once = returns_at_once,
		.user = (void *)(uintptr_t)change,
		.order = w->order,
		.turns = w->turns,
		.first = w->from_task,
		.end = w->until_task,
	};

	set_recorded(w);
	if (is_together(change))
		what_if_ranks_simulate(&w->ranks, &s, w->all_times, waits);
	else
		simulate_tasks(&s, w->all_times);
	return measure(w, out);
}

/* --- what bounds it --- */

/*
 * Exchanges what a task follows in the recording and in the simulation. Of the two that it follows
 * there, the path needs the one that ended last.
 */
static void swap_order(struct what_if *w, uint32_t index)
{
	struct task *task = &w->report->causes.tasks.data[index];
	struct task_order *order = w->order ? &w->order[index - w->from_task] : NULL;
	uint32_t recorded = task->previous;

	if (!order || task->kind == TASK_CALL)
		return;
	task->previous = order->previous;
	order->previous = recorded;
}

/* Exchanges the times of the tasks and the simulated ones. */
static void swap_times(struct what_if *w)
{
	for (uint32_t i = w->first_task; i < w->end_task; i++) {
		struct task *task = &w->report->causes.tasks.data[i];
		struct simulated *t = &w->times[i - w->first_task],
				 recorded = { (int64_t)task->start_ns, (int64_t)task->end_ns };

		task->start_ns = (uint64_t)MAX(t->start_ns, 0);
		task->end_ns = MAX((uint64_t)MAX(t->end_ns, 0), task->start_ns);
		*t = recorded;
		swap_order(w, i);
	}
}

/* Adds up the critical path by class. Meanwhile the graph ends with what is simulated. */
static int find_classes(struct what_if *w, const struct measured *m, struct what_if_times *out)
{
	_cleanup_free_ uint8_t *processes =
		calloc(trace_process_count(w->report->trace) + 1, sizeof(*processes));
	struct causes *c = &w->report->causes;
	size_t count = c->tasks.count;
	struct path path = { 0 };
	int code = -ENOMEM;

	out->step_ns = m->step_ns;
	out->span_ns = m->end_ns - m->start_ns;
	if (!processes)
		return code;
	processes[w->process] = 1;
	swap_times(w);
	c->tasks.count = w->end_task + UINT64_C(1);
	code = path_find(&path, c, processes, m->start_ns, m->end_ns);
	for (size_t i = 0; i < path.pieces.count && code >= 0; i++) {
		struct path_share shares[PATH_SHARES];
		unsigned n = path_shares(w->report, &path.pieces.data[i], shares);

		for (unsigned k = 0; k < n; k++)
			out->class_ns[shares[k].place.class] += shares[k].ns;
	}
	c->tasks.count = count;
	swap_times(w);
	path_release(&path);
	return code;
}

/* --- what is simulated --- */

static uint32_t process_of(const struct causes *c, uint32_t task)
{
	return c->lanes.data[c->tasks.data[task].lane].process;
}

static uint64_t start_of_task(const struct what_if *w, uint32_t index)
{
	const struct task *task = task_at(w, index);

	return task->launch != TASK_NONE ? task_at(w, task->launch)->start_ns : task->start_ns;
}

static int choose_loop(struct what_if *w, struct error *e)
{
	const struct steps *s = w->report->steps;
	uint64_t most = 0;
	const struct step_loop *best = NULL;

	for (size_t i = 0; i < s->loop_count; i++)
		if (!best || s->loops[i].work_ns > most) {
			best = &s->loops[i];
			most = best->work_ns;
		}
	if (!best)
		return error_set(e, E_UNSUPPORTED,
				 "there is no GPU work to simulate in this recording: "
				 "`pitot report` says why");
	w->process = best->process;
	if (!best->count)
		return 0;
	w->loop = best;
	w->step_count = MIN(best->count, WHAT_IF_STEPS_MAX);
	w->first_step = best->first + best->count - w->step_count;
	return 0;
}

/* The process's tasks of the steps, or of the window. */
static void choose_tasks(struct what_if *w)
{
	const struct causes *c = &w->report->causes;
	const struct step *steps = w->report->steps->items + w->first_step;
	uint64_t start_ns = w->loop ? steps[0].host_start_ns : w->report->start_ns,
		 end_ns = w->loop ? steps[w->step_count - 1].host_end_ns : w->report->end_ns;
	uint32_t count = (uint32_t)causes_task_count(c);
	bool begun = false;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t ns = start_of_task(w, i);

		if (process_of(c, i) != w->process || ns < start_ns || ns >= end_ns)
			continue;
		if (!begun)
			w->first_task = i;
		begun = true;
		w->end_task = i + 1;
	}
}

/* The tasks of other ranks at the same time. */
static int choose_ranks(struct what_if *w)
{
	const struct report *r = w->report;
	const struct step *steps = r->steps->items + w->first_step;
	int code = what_if_ranks_init(
		&w->ranks, &r->causes, r->collectives, r->rank_times,
		(struct task_range){ .first = w->first_task, .end = w->end_task },
		w->loop ? steps[0].host_start_ns : r->start_ns,
		w->loop ? steps[w->step_count - 1].host_end_ns : UINT64_MAX);
	bool alone = !w->ranks.ranges.count;

	w->from_task = alone ? w->first_task : w->ranks.first;
	w->until_task = alone ? w->end_task : w->ranks.end;
	return code;
}

static int count_nodes(struct what_if *w)
{
	w->nodes = calloc(w->until_task - w->from_task + UINT64_C(1), sizeof(*w->nodes));
	for (uint32_t i = w->from_task; i < w->until_task && w->nodes; i++) {
		const struct task *task = task_at(w, i);

		if (task->launch != TASK_NONE && task->launch >= w->from_task &&
		    task->kind != GPU_WORK_graph_launch && is_graph_launch(w, task->launch))
			w->nodes[task->launch - w->from_task]++;
	}
	return w->nodes ? 0 : -ENOMEM;
}

static int index_tasks(struct what_if *w)
{
	uint32_t count = w->end_task - w->first_task;

	w->step_of = malloc((count + UINT64_C(1)) * sizeof(*w->step_of));
	w->all_times = calloc(w->until_task - w->from_task + UINT64_C(1), sizeof(*w->all_times));
	if (!w->step_of || !w->all_times)
		return -ENOMEM;
	w->times = w->all_times + (w->first_task - w->from_task);
	for (uint32_t i = w->first_task; i < w->end_task; i++) {
		const struct task *task = task_at(w, i);
		const struct step *step =
			w->loop && task_is_work(task)
				? steps_at(w->report->steps, w->loop, start_of_task(w, i))
				: NULL;
		size_t number = step ? (size_t)(step - w->report->steps->items) : SIZE_MAX;

		w->step_of[i - w->first_task] = step && number >= w->first_step
							? (uint32_t)(number - w->first_step)
							: UINT32_MAX;
		if (is_launching(task)) {
			w->launches++;
			w->graph_launches += is_graph_launch(w, i);
			w->launch_ns += task->end_ns - task->start_ns;
		}
		if (task->kind == TASK_CALL && vec_push(&w->calls, i) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int find_rank_waits(struct what_if *w)
{
	struct map waits = MAP_INIT;
	int code = collective_waits_list(w->report->collectives, w->report->rank_times->waits_known,
					 &waits);

	if (code >= 0 && waits.count)
		w->rank_waits =
			calloc(w->until_task - w->from_task + UINT64_C(1), sizeof(*w->rank_waits));
	if (waits.count && !w->rank_waits)
		code = -ENOMEM;
	for (uint32_t i = w->from_task; i < w->until_task && w->rank_waits; i++) {
		const struct task *task = task_at(w, i);
		bool own = i >= w->first_task && i < w->end_task;
		uint64_t ns;

		if (task->kind != GPU_WORK_kernel || !map_get(&waits, task->row, &ns))
			continue;
		w->unknown_waits += own && ns == WAIT_UNKNOWN;
		ns = ns == WAIT_UNKNOWN ? 0 : MIN(ns, task->end_ns - task->start_ns);
		w->rank_waits[i - w->from_task] = ns;
		w->rank_wait_ns += own ? ns : 0;
	}
	map_release(&waits);
	return code;
}

static int find_turns(struct what_if *w)
{
	_cleanup_free_ uint8_t *beside = calloc(trace_process_count(w->report->trace) + 1, 1);

	if (!beside)
		return -ENOMEM;
	w->turns = causes_turns(&w->report->causes, beside);
	w->beside = beside[w->process];
	return w->turns ? 0 : -ENOMEM;
}

static uint64_t distance(uint64_t a, uint64_t b)
{
	return MAX(a, b) - MIN(a, b);
}

ORDER(by_start, struct simulated, UP(start_ns))

/* Part of the GPU work during which other work ran, and of the time during which any ran. */
static int find_overlap(struct what_if *w)
{
	VEC(struct simulated) work = VEC_INIT;
	uint64_t sum = 0, beside = 0;
	int64_t first_ns, until = 0;

	for (uint32_t i = w->first_task; i < w->end_task; i++) {
		const struct task *task = task_at(w, i);

		if (task_is_work(task) &&
		    vec_push(&work, ((struct simulated){ (int64_t)task->start_ns,
							 (int64_t)task->end_ns })) < 0) {
			vec_release(&work);
			return -ENOMEM;
		}
	}
	vec_sort(&work, by_start);
	for (size_t i = 0; i < work.count; i++) {
		const struct simulated *t = &work.data[i];

		sum += (uint64_t)(t->end_ns - t->start_ns);
		if (until > t->start_ns)
			beside += (uint64_t)(MIN(until, t->end_ns) - t->start_ns);
		until = MAX(until, t->end_ns);
	}
	first_ns = work.count ? work.data[0].start_ns : 0;
	vec_release(&work);
	w->overlap_per_mille = sum ? beside * 1000 / sum : 0;
	w->contradicts_busy = sum && verdict_contradicts(w->recorded.class_ns, sum - beside,
							 (uint64_t)(until - first_ns));
	return 0;
}

static int measure_recorded(struct what_if *w)
{
	struct change same = { .what_if = w };
	struct measured m;

	set_recorded(w);
	if (measure(w, &m) < 0 || find_classes(w, &m, &w->recorded) < 0 || find_overlap(w) < 0 ||
	    run(w, &same, &m) < 0)
		return -ENOMEM;
	w->identity_ns = distance(m.step_ns, w->recorded.step_ns);
	same = corrected(w);
	if (run(w, &same, &m) < 0)
		return -ENOMEM;
	return find_classes(w, &m, &w->corrected);
}

int what_if_init(struct what_if *w, struct report *r, const uint64_t *call_ns,
		 const struct calibration *calibration, struct error *e)
{
	int code;

	*w = (struct what_if){ .report = r };
	code = choose_loop(w, e);
	if (code < 0)
		return code;
	code = what_if_choose_costs(w, call_ns, calibration, e);
	if (code < 0)
		return code;
	choose_tasks(w);
	code = choose_ranks(w);
	if (code >= 0)
		code = find_turns(w);
	if (code >= 0)
		code = count_nodes(w);
	if (code >= 0)
		code = index_tasks(w);
	if (code >= 0)
		code = find_rank_waits(w);
	if (code >= 0)
		code = measure_recorded(w);
	if (code < 0) {
		what_if_release(w);
		return error_set(e, code, "out of memory");
	}
	return 0;
}

void what_if_release(struct what_if *w)
{
	vec_release(&w->calls);
	free(w->step_of);
	free(w->all_times);
	free(w->order);
	what_if_ranks_release(&w->ranks);
	free(w->turns);
	free(w->nodes);
	free(w->rank_waits);
	free(w->candidates);
	free(w->slow_ranks);
}

/* --- predictions --- */

static bool is_of_gpu(const struct what_if_rule *rule)
{
	return rule->target == WHAT_IF_kernel || rule->target == WHAT_IF_copy ||
	       rule->target == WHAT_IF_memset || rule->target == WHAT_IF_gpu ||
	       rule->target == WHAT_IF_wait || rule->target == WHAT_IF_batch ||
	       rule->target == WHAT_IF_copies || rule->target == WHAT_IF_fuse;
}

/*
 * On a machine that was not measured, recording may add nothing to a launching call, or as much as
 * the call took in the recording, on average, more than is assumed: part of it falls between calls.
 * On one that was, it adds what was measured, or up to twice as much: programs have deeper stacks
 * and more code than the loop that was measured. To nodes of programs on the GPU it added 0.5 to
 * 1.8 times what it added to the kernels of one thread that were measured.
 */
static int find_call_bar(struct what_if *w, struct change *change, uint64_t predicted_ns)
{
	uint64_t mean_ns = w->launches ? w->launch_ns / w->launches : 0;
	uint64_t more_ns = MAX(mean_ns, WHAT_IF_CALL_BAR_NS), less_ns = w->call_ns;
	struct measured least, most;

	if (w->call_source == CALL_COST_option)
		return 0;
	if (w->call_source == CALL_COST_calibration) {
		more_ns = w->call_ns + w->call_spread_ns;
		less_ns = MIN(w->call_spread_ns, w->call_ns);
	}
	change->call_ns = w->call_ns + more_ns;
	change->synchronize_ns = 2 * w->synchronize_ns;
	change->node_gap_ns = w->node_gap_ns + w->node_gap_bar_ns;
	if (run(w, change, &least) < 0)
		return -ENOMEM;
	change->call_ns = w->call_ns - less_ns;
	change->synchronize_ns = w->synchronize_ns;
	change->node_gap_ns = w->node_gap_ns - MIN(w->node_gap_bar_ns, w->node_gap_ns);
	if (run(w, change, &most) < 0)
		return -ENOMEM;
	w->call_bar_ns =
		MAX(distance(most.step_ns, predicted_ns), distance(least.step_ns, predicted_ns));
	return 0;
}

int what_if_predict(struct what_if *w, struct what_if_rule *rules, size_t count)
{
	struct change change = corrected(w);
	double parts[6], sum = 0;
	struct measured m;
	bool of_gpu = false, of_graph = false;

	change.rules = rules;
	change.count = count;
	if (what_if_set_order(w, rules, count) < 0 || run(w, &change, &m) < 0 ||
	    find_classes(w, &m, &w->predicted) < 0 || find_call_bar(w, &change, m.step_ns) < 0)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		of_gpu |= is_of_gpu(&rules[i]);
		of_graph |= rules[i].target == WHAT_IF_graph;
	}
	w->steps_bar_ns = m.bar_ns;
	w->overlap_bar_ns =
		of_gpu ? m.step_ns / 1000 * w->overlap_per_mille * OVERLAP_PERCENT / 100 : 0;
	parts[0] = (double)w->steps_bar_ns;
	parts[1] = (double)w->call_bar_ns;
	parts[2] = (double)w->overlap_bar_ns;
	parts[3] = (double)w->identity_ns;
	w->runs_bar_ns = m.step_ns * RUNS_PERCENT / 100;
	parts[4] = (double)w->runs_bar_ns;
	/* Whether the nodes of the graph would follow each other at once or later is not known. */
	w->graph_bar_ns =
		of_graph ? w->predicted.class_ns[PATH_GAP] / MAX(w->loop ? w->step_count : 1, 1)
			 : 0;
	parts[5] = (double)w->graph_bar_ns;
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		sum += parts[i] * parts[i];
	w->bar_ns = (uint64_t)sqrt(sum);
	return 0;
}

int what_if_gain(struct what_if *w, struct what_if_candidate *c)
{
	struct what_if_rule rule = { .target = c->target, .change = CHANGE_SCALE, .factor = 0.5 };
	bool of_place = c->target == WHAT_IF_TARGET_COUNT;
	struct change change = corrected(w);
	struct measured m;
	int code;

	change.rules = &rule;
	change.count = !of_place;
	change.halved = of_place ? c : NULL;
	code = run(w, &change, &m);

	c->gain_ns = code < 0 ? 0 : (int64_t)(w->corrected.step_ns - m.step_ns);
	return code;
}

int what_if_rank_gain(struct what_if *w, struct what_if_rank *r)
{
	struct what_if_rule rule = { .target = WHAT_IF_straggler,
				     .has_rank = true,
				     .rank = r->rank };
	struct change change = { .what_if = w,
				 .rules = &rule,
				 .count = 1,
				 .call_ns = w->call_ns,
				 .synchronize_ns = w->synchronize_ns };
	struct measured m;
	int code = run(w, &change, &m);

	r->step_ns = code < 0 ? w->corrected.step_ns : m.step_ns;
	return code;
}
