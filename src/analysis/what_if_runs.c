/*
 * what_if_runs.c: launches that become one: of a CUDA graph, or of a fused kernel.
 *
 * `matches` of such a rule is by task. The calls of a run but for the first one are not made, and
 * what the host needed before them is not needed.
 */
#include <stdlib.h>
#include <string.h>

#include "analysis/what_if.h"
#include "trace/columns.h"

enum { NOT_IN_RUN, FIRST_OF_RUN, IN_RUN };

/*
 * Nodes of a graph follow each other sooner than work that was launched alone: on an H200 after 0.1
 * to 0.4 us instead of 1 us, of kernels whose durations are those that CUPTI records.
 */
#define NODES_SOONER 4u

/* Longer kernels gain nothing. */
#define FUSED_NS_MAX UINT64_C(20000)

static const struct task *task_at(const struct what_if *w, uint32_t index)
{
	return &w->report->causes.tasks.data[index];
}

/* --- graphs --- */

/* The steps of a call's process. */
static const struct step_loop *loop_of(const struct what_if *w, const struct task *call)
{
	const struct steps *s = w->report->steps;
	uint32_t process = w->report->causes.lanes.data[call->lane].process;

	for (size_t i = 0; i < s->loop_count; i++)
		if (s->loops[i].process == process && s->loops[i].count)
			return &s->loops[i];
	return NULL;
}

bool what_if_in_scope(const struct what_if *w, const struct task *call, const uint8_t *paths,
		      uint32_t *scope)
{
	const struct report *r = w->report;
	const struct step_loop *loop;
	const struct step *step;

	if (paths) {
		*scope = r->ranges.of_call[call->row];
		return scope_path_selected(paths, nvtx_path(&r->ranges, *scope)) &&
		       *scope != NVTX_NO_RANGE;
	}
	loop = loop_of(w, call);
	step = loop ? steps_at(r->steps, loop, call->start_ns) : NULL;
	*scope = step ? step->number : 0;
	return step != NULL;
}

static bool can_be_captured(const struct what_if *w, const struct task *call)
{
	switch (what_if_call_kind(w, call)) {
	case api_kind_launch:
	case api_kind_memcpy:
	case api_kind_memset:
	case api_kind_event:
	case api_kind_host_function:
		return !(call->flags & TASK_SYNC_CALL);
	default:
		return false;
	}
}

/*
 * Launches of a scope become a graph, from one call that cannot be captured to the next; of loops
 * that are passed again (a step) each pass is a launch of the graph.
 */
static void capture(const struct what_if *w, struct what_if_rule *rule, const uint8_t *paths)
{
	uint32_t within = UINT32_MAX, lane = UINT32_MAX;

	for (uint32_t i = w->from_task; i < w->until_task; i++) {
		const struct task *task = task_at(w, i);
		uint32_t scope;

		if (task->kind != TASK_CALL)
			continue;
		if (!what_if_in_scope(w, task, paths, &scope) || !can_be_captured(w, task)) {
			if (task->flags & (TASK_SYNC_CALL | TASK_LAUNCH_CALL))
				within = UINT32_MAX;
			continue;
		}
		rule->matches[i - w->from_task] =
			scope == within && lane == task->lane ? IN_RUN : FIRST_OF_RUN;
		within = scope;
		lane = task->lane;
	}
}

static int compare_u64(const void *a, const void *b)
{
	return ORDER_OF(*(const uint64_t *)a, *(const uint64_t *)b);
}

/* The median cost of the recording's graph launches; 0: it has none. */
static int find_recorded_cost(const struct what_if *w, uint64_t *ns)
{
	VEC(uint64_t) costs = VEC_INIT;

	for (uint32_t i = w->first_task; i < w->end_task; i++) {
		const struct task *task = task_at(w, i);

		if (task->kind == TASK_CALL &&
		    what_if_call_kind(w, task) == api_kind_graph_launch &&
		    vec_push(&costs, task->end_ns - task->start_ns) < 0) {
			vec_release(&costs);
			return -ENOMEM;
		}
	}
	vec_sort(&costs, compare_u64);
	*ns = costs.count ? MAX(costs.data[costs.count / 2], 1) : 0;
	vec_release(&costs);
	return 0;
}

/* What was given comes before what was recorded, and that before what was measured elsewhere. */
static int find_graph_cost(const struct what_if *w, struct what_if_rule *rule, struct error *e)
{
	uint64_t recorded_ns;

	if (find_recorded_cost(w, &recorded_ns) < 0)
		return error_set(e, -ENOMEM, "out of memory");
	rule->latency_measured = !recorded_ns && w->node_latency_ns != CALIBRATION_UNKNOWN;
	rule->latency_ns = rule->latency_measured
				   ? w->node_latency_ns
				   : w->report->causes.typical_ns[EDGE_stream] / NODES_SOONER;
	if (rule->has_ns)
		return 0;
	if (!recorded_ns &&
	    (w->graph_launch_ns == CALIBRATION_UNKNOWN || w->graph_node_ns == CALIBRATION_UNKNOWN))
		return error_set(e, E_USAGE,
				 "'%s': nothing of what is simulated launches a graph, so its cost "
				 "is unknown: say it, as in '%s launch=10us', or measure it on the "
				 "recorded machine with `pitot calibrate`",
				 rule->text, rule->text);
	rule->graph_source = recorded_ns ? GRAPH_COST_recording : GRAPH_COST_calibration;
	rule->ns = (int64_t)(recorded_ns ?: w->graph_launch_ns);
	return 0;
}

/* As calibrated, each node adds to the launch: the mean of all graphs, so that the sum is right. */
static void add_node_costs(const struct what_if *w, struct what_if_rule *rule)
{
	uint64_t graphs = 0, nodes = 0;

	for (uint32_t i = w->from_task; i < w->until_task; i++) {
		uint8_t state = rule->matches[i - w->from_task];

		graphs += state == FIRST_OF_RUN;
		nodes += state != NOT_IN_RUN && task_at(w, i)->flags & TASK_LAUNCH_CALL;
	}
	if (nodes > graphs)
		rule->ns += (int64_t)((nodes - graphs) * w->graph_node_ns / graphs);
}

static int match_graph(const struct what_if *w, struct what_if_rule *rule, struct error *e)
{
	_cleanup_free_ uint8_t *paths = NULL;
	int code;

	if (!strcmp(rule->glob, "step") && !w->loop)
		return error_set(e, E_USAGE, "'%s': no steps were found: pitot report --steps",
				 rule->text);
	code = find_graph_cost(w, rule, e);
	if (code < 0)
		return code;
	if (strcmp(rule->glob, "step") != 0)
		paths = scope_paths_match(&w->report->ranges, w->report->trace, rule->glob);
	rule->matches = calloc(w->until_task - w->from_task + UINT64_C(1), 1);
	if (!rule->matches || (!paths && strcmp(rule->glob, "step") != 0))
		return error_set(e, -ENOMEM, "out of memory");
	capture(w, rule, paths);
	if (rule->graph_source == GRAPH_COST_calibration)
		add_node_costs(w, rule);
	return 0;
}

/* --- fused kernels --- */

/* The kernels of a stream that may still grow. */
struct run {
	uint32_t first, last; /* tasks */
	uint64_t count;
};

static bool can_be_fused(const struct what_if *w, const struct what_if_rule *rule, uint32_t index)
{
	const struct task *task = task_at(w, index);
	const struct kernel_columns *k = kernel_columns(w->report->trace);
	uint32_t config = task->kind == GPU_WORK_kernel ? k->config[task->row] : TRACE_NO_ROW;

	return config != TRACE_NO_ROW && task->end_ns - task->start_ns <= FUSED_NS_MAX &&
	       task->launch != TASK_NONE && task->launch >= w->from_task &&
	       what_if_call_kind(w, task_at(w, task->launch)) == api_kind_launch &&
	       task[1].edges == task->edges &&
	       (!*rule->glob ||
		kernel_name_matches(
			rule->glob,
			trace_string(w->report->trace,
				     kernel_config_columns(w->report->trace)->name[config])));
}

static uint32_t step_of(const struct what_if *w, uint32_t index)
{
	uint32_t step;

	return what_if_in_scope(w, task_at(w, task_at(w, index)->launch), NULL, &step) ? step
										       : UINT32_MAX;
}

/* Whether the kernel follows the run's last one, on the stream and in its thread's calls. */
static bool continues(const struct what_if *w, const struct run *run, uint32_t index)
{
	const struct task *task = task_at(w, index);

	return run->count && task->previous == run->last &&
	       task_at(w, task->launch)->previous == task_at(w, run->last)->launch &&
	       step_of(w, index) == step_of(w, run->last);
}

static void mark(const struct what_if *w, struct what_if_rule *rule, uint32_t task, uint8_t state)
{
	rule->matches[task - w->from_task] = state;
	rule->matches[task_at(w, task)->launch - w->from_task] = state;
}

static int find_fused(const struct what_if *w, struct what_if_rule *rule)
{
	size_t lanes = w->report->causes.lanes.count;
	_cleanup_free_ struct run *runs = calloc(lanes + 1, sizeof(*runs));

	if (!runs)
		return -ENOMEM;
	for (uint32_t i = w->from_task; i < w->until_task; i++) {
		struct run *run = &runs[task_at(w, i)->lane];

		if (task_at(w, i)->kind == TASK_CALL)
			continue;
		if (!can_be_fused(w, rule, i)) {
			run->count = 0;
			continue;
		}
		if (run->count < rule->number && continues(w, run, i)) {
			mark(w, rule, run->first, FIRST_OF_RUN);
			mark(w, rule, i, IN_RUN);
			run->count++;
		} else {
			*run = (struct run){ .first = i, .count = 1 };
		}
		run->last = i;
	}
	return 0;
}

/* --- both --- */

int what_if_match_run(const struct what_if *w, struct what_if_rule *rule, struct error *e)
{
	if (rule->target == WHAT_IF_graph)
		return match_graph(w, rule, e);
	rule->matches = calloc(w->until_task - w->from_task + UINT64_C(1), 1);
	return rule->matches && find_fused(w, rule) == 0 ? 0 : -ENOMEM;
}

bool what_if_run_changes(const struct what_if *w, const struct what_if_rule *rule,
			 enum cost_of what, uint32_t index)
{
	uint8_t state = rule->matches[index - w->from_task];
	bool is_call = task_at(w, index)->kind == TASK_CALL;

	if (rule->target == WHAT_IF_graph)
		return what == COST_CALL && is_call && state != NOT_IN_RUN;
	return is_call ? (what == COST_CALL || what == COST_HOST) && state == IN_RUN
		       : what == COST_WORK && state != NOT_IN_RUN;
}

uint64_t what_if_run_cost(const struct what_if *w, const struct what_if_rule *rule,
			  enum cost_of what, uint32_t index, uint64_t ns)
{
	uint8_t state = rule->matches[index - w->from_task];

	if (what == COST_WORK)
		return rule->target == WHAT_IF_fuse && state != NOT_IN_RUN
			       ? (uint64_t)((double)ns * rule->factor)
			       : ns;
	if (state == IN_RUN && task_at(w, index)->kind == TASK_CALL && what != COST_LATENCY)
		return 0;
	return state == FIRST_OF_RUN && what == COST_CALL && rule->target == WHAT_IF_graph
		       ? (uint64_t)rule->ns
		       : ns;
}

void what_if_join_runs(const struct what_if *w, const struct what_if_rule *rule,
		       struct task_order *order)
{
	const struct causes *c = &w->report->causes;

	for (uint32_t i = w->from_task; i < w->until_task; i++) {
		const struct task *task = &c->tasks.data[i];
		struct task_order *to = &order[i - w->from_task];

		if (!task_is_work(task))
			continue;
		if (rule->target == WHAT_IF_fuse)
			to->joined = rule->matches[i - w->from_task] == IN_RUN;
		else if (task->launch != TASK_NONE && task->launch >= w->from_task &&
			 rule->matches[task->launch - w->from_task] == IN_RUN)
			to->latency_ns = (uint32_t)rule->latency_ns;
	}
}
