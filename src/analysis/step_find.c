/* step_find.c: which moments of a process's host time are steps, and how one knows. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/report.h"
#include "analysis/steps.h"
#include "causes/launch_loop.h"
#include "trace/columns.h"

#define ROUNDING_NS 1000u /* of the times of other tools, by which ranges may overlap */
#define GRAPH_PERCENT 80u /* of the GPU work, to be in one graph whose launches are steps */

/* --- ranges --- */

/* "Training step 12" is "training_step", "ProfilerStep#7" "profilerstep". */
static void plain_name(const char *text, char name[STEP_NAME_MAX])
{
	size_t length = 0;

	while (*text == '[' && strchr(text, ']')) /* "[pl][profile]run_training_batch" */
		text = strchr(text, ']') + 1;
	for (; *text && !isdigit((unsigned char)*text) && !strchr("#:([=", *text) &&
	       length + 1 < STEP_NAME_MAX;
	     text++)
		name[length++] = strchr(" -/.", *text) ? '_' : (char)tolower((unsigned char)*text);
	while (length && name[length - 1] == '_')
		length--;
	name[length] = '\0';
}

bool step_name_read(const char *text, char name[STEP_NAME_MAX])
{
	static const char *const names[] = {
		"step",
		"iteration",
		"iter",
		"profilerstep",
		"train_step",
		"training_step",
		"trainstep",
		"train_iteration",
		"train_iter",
		"batch",
		"train_batch",
		"training_batch",
		"minibatch",
		"mini_batch",
		"decode_step",
		"run_training_batch",
		"training_iteration",
	};

	plain_name(text, name);
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

/* Ranges with equal names but for digits, on one thread, inside of equal ones. */
struct range_set {
	uint64_t start_ns, end_ns, total_ns;
	uint32_t count, thread;
	uint64_t place; /* equal for equal names, on whatever thread */
	bool is_pitot, is_step;
	bool is_inner; /* inside of another set of steps */
};

struct range_sets {
	const struct nvtx_range *items;
	size_t count;
	size_t base; /* index of items[0] in the report's ranges */
	uint32_t *set_of; /* by item */
	uint64_t *place_of;
	struct map index; /* place and thread -> set */
	VEC(struct range_set) sets;
};

static uint64_t hash_without_digits(const char *text)
{
	uint64_t hash = 0;

	for (; *text; text++)
		if (!isdigit((unsigned char)*text))
			hash = hash_u64(hash ^ (unsigned char)*text);
	return hash;
}

/* The range around, as an index of s->items; SIZE_MAX: none. */
static size_t outer_of(const struct range_sets *s, size_t i)
{
	uint32_t outer = s->items[i].outer;

	return outer == NVTX_NO_RANGE || outer < s->base ? SIZE_MAX : outer - s->base;
}

static int add_range(struct range_sets *s, const struct trace *t, size_t i)
{
	const struct nvtx_range *range = &s->items[i];
	const char *text = trace_string(t, range->message);
	char name[STEP_NAME_MAX];
	size_t outer = outer_of(s, i);
	uint64_t *set;

	s->place_of[i] =
		hash_u64((outer == SIZE_MAX ? 0 : s->place_of[outer]) + hash_without_digits(text));
	set = map_at(&s->index, hash_u64(s->place_of[i] ^ hash_u64(range->thread)), s->sets.count);
	if (!set)
		return -ENOMEM;
	s->set_of[i] = (uint32_t)*set;
	if (*set == s->sets.count &&
	    vec_push(&s->sets, ((struct range_set){ .start_ns = range->start_ns,
						    .thread = range->thread,
						    .place = s->place_of[i],
						    .is_pitot = range->pitot,
						    .is_step = step_name_read(text, name) })) < 0)
		return -ENOMEM;
	if (range->open || range->carried)
		return 0;
	s->sets.data[*set].count++;
	s->sets.data[*set].end_ns = range->end_ns;
	s->sets.data[*set].total_ns += range->end_ns - range->start_ns;
	return 0;
}

/* Marks the sets inside of others with steps; `around` has a byte for each range. */
static void find_inner(struct range_sets *s, uint8_t *around)
{
	enum { IN_SCOPES = 1, IN_RANGES = 2 };

	for (size_t i = 0; i < s->count; i++) {
		size_t outer = outer_of(s, i);
		struct range_set *set = &s->sets.data[s->set_of[i]];

		if (outer == SIZE_MAX)
			continue;
		around[i] = around[outer];
		if (s->sets.data[s->set_of[outer]].is_step &&
		    s->sets.data[s->set_of[outer]].count > 1)
			around[i] |=
				s->sets.data[s->set_of[outer]].is_pitot ? IN_SCOPES : IN_RANGES;
		set->is_inner |= around[i] & IN_SCOPES || (around[i] && !set->is_pitot);
	}
}

static bool is_better(const struct range_set *a, const struct range_set *b)
{
	if (!b || a->is_pitot != b->is_pitot)
		return !b || a->is_pitot;
	if ((a->count > 1) != (b->count > 1))
		return a->count > 1;
	return a->total_ns > b->total_ns;
}

static const struct range_set *best_set(const struct range_sets *s, bool *overlap)
{
	const struct range_set *best = NULL;

	for (size_t i = 0; i < s->sets.count; i++) {
		const struct range_set *set = &s->sets.data[i];

		if (set->is_step && !set->is_inner && set->count && is_better(set, best))
			best = set;
	}
	*overlap = false;
	for (size_t i = 0; best && i < s->sets.count; i++) {
		const struct range_set *set = &s->sets.data[i];

		*overlap |= set != best && set->place == best->place && set->count > 1 &&
			    set->start_ns < best->end_ns && best->start_ns < set->end_ns;
	}
	return best;
}

/* Whether something in the window is a step by its host times. */
static int add_step(const struct report *r, struct step_list *list, uint64_t start_ns,
		    uint64_t end_ns)
{
	if (start_ns < r->start_ns || end_ns > r->end_ns || end_ns <= start_ns)
		return 0;
	return vec_push(&list->items,
			((struct step){ .host_start_ns = start_ns, .host_end_ns = end_ns }));
}

static int take_ranges(const struct report *r, const struct range_sets *s, struct step_loop *loop,
		       struct step_list *list)
{
	bool overlap;
	const struct range_set *best = best_set(s, &overlap);
	uint64_t until_ns = 0;
	int code = 0;

	for (size_t i = 0; best && i < s->count && code >= 0; i++) {
		const struct nvtx_range *range = &s->items[i];

		if (&s->sets.data[s->set_of[i]] != best || range->open || range->carried)
			continue;
		overlap |= range->start_ns + ROUNDING_NS < until_ns;
		loop->name = loop->name ? loop->name : range->message;
		loop->source = best->is_pitot ? STEPS_SCOPES : STEPS_RANGES;
		code = add_step(r, list, MAX(range->start_ns, until_ns),
				MAX(range->end_ns, until_ns));
		until_ns = MAX(range->end_ns, until_ns);
	}
	if (!overlap)
		return code;
	loop->source = STEPS_NONE;
	loop->reason = STEP_REASON_overlap;
	list->items.count = loop->first;
	return code;
}

static int find_ranges(const struct report *r, uint32_t process, struct step_loop *loop,
		       struct step_list *list)
{
	const struct nvtx_range *all = r->ranges.items;
	size_t base = sorted_prefix(r->ranges.count, i, all[i].process < process),
	       end = sorted_prefix(r->ranges.count, i, all[i].process <= process);
	struct range_sets s = { .items = all + base, .count = end - base, .base = base };
	uint8_t *around;
	int code = 0;

	s.set_of = calloc(s.count + 1, sizeof(*s.set_of));
	s.place_of = calloc(s.count + 1, sizeof(*s.place_of));
	around = calloc(s.count + 1, 1);
	if (!s.set_of || !s.place_of || !around)
		code = -ENOMEM;
	for (size_t i = 0; i < s.count && code >= 0; i++)
		code = add_range(&s, r->trace, i);
	if (code >= 0) {
		find_inner(&s, around);
		code = take_ranges(r, &s, loop, list);
	}
	free(s.set_of);
	free(s.place_of);
	free(around);
	map_release(&s.index);
	vec_release(&s.sets);
	return code;
}

/* --- launches --- */

struct launches_of {
	const struct report *report;
	struct map kinds; /* what was launched -> number */
	VEC(struct launch_item) items;
	VEC(uint32_t) tasks; /* the first of each item */
	VEC(uint64_t) graph_ns; /* by number of what was launched: GPU time of graphs */
	uint64_t work_ns;
	uint32_t graph_call; /* the call of the newest item, a launch of a graph */
	bool has_waited;
};

static bool is_graph_launch(const struct report *r, uint32_t task)
{
	return task != TASK_NONE &&
	       calls_kind(&r->calls, r->causes.tasks.data[task].row) == api_kind_graph_launch;
}

static uint32_t graph_of(const struct report *r, const struct task *task)
{
	struct event_columns c = events_of(r->trace, schema_gpu_work[task->kind]->id);

	return c.graph && column_has(c.graph_valid, task->row) ? c.graph[task->row] : 0;
}

static bool crosses_to_host(const struct report *r, const struct task *task)
{
	enum copy_kind kind;

	if (task->kind != GPU_WORK_memcpy)
		return false;
	kind = (enum copy_kind)memcpy_columns(r->trace)->kind[task->row];
	return kind == copy_kind_HtoD || kind == copy_kind_DtoH;
}

static int add_launch(struct launches_of *l, uint32_t index)
{
	const struct causes *c = &l->report->causes;
	const struct task *task = &c->tasks.data[index];
	bool is_graph = is_graph_launch(l->report, task->launch);
	struct path_place place = path_place_of_work(l->report, task);
	uint64_t number, ns = task->end_ns - task->start_ns;
	struct launch_item item = {
		task->launch == TASK_NONE ? task->start_ns : c->tasks.data[task->launch].start_ns,
		0, is_graph || l->has_waited || crosses_to_host(l->report, task)
	};

	if (is_graph)
		place = (struct path_place){ PATH_CLASSES, graph_of(l->report, task), 0 };
	number = map_number(&l->kinds, path_place_id(place));
	if (!number)
		return -ENOMEM;
	item.what = (uint32_t)number;
	while (l->graph_ns.count <= number)
		if (vec_push(&l->graph_ns, 0) < 0)
			return -ENOMEM;
	l->work_ns += ns;
	l->graph_ns.data[number] += is_graph ? ns : 0;
	if (is_graph && l->graph_call == task->launch)
		return 0;
	l->graph_call = is_graph ? task->launch : TASK_NONE;
	l->has_waited = false;
	if (l->items.count)
		item.at_ns = MAX(item.at_ns, l->items.data[l->items.count - 1].at_ns);
	return vec_push(&l->items, item) < 0 ? -ENOMEM : vec_push(&l->tasks, index);
}

static int collect(struct launches_of *l, uint32_t first_task, uint32_t end_task)
{
	const struct task *tasks = l->report->causes.tasks.data;

	for (uint32_t i = first_task; i < end_task; i++) {
		if (tasks[i].kind == TASK_CALL && tasks[i].flags & TASK_SYNC_CALL)
			l->has_waited = true;
		if (task_is_work(&tasks[i]) && add_launch(l, i) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Where the host part of a step ends that ends before item `end`. */
static uint64_t end_of_items(const struct launches_of *l, uint32_t end)
{
	const struct task *tasks = l->report->causes.tasks.data, *last;

	if (end < l->items.count)
		return l->items.data[end].at_ns;
	last = &tasks[l->tasks.data[end - 1]];
	return last->launch == TASK_NONE ? last->end_ns : tasks[last->launch].end_ns;
}

static int take_loop(const struct launches_of *l, const struct launch_loop *loop,
		     struct step_loop *out, struct step_list *list)
{
	const struct report *r = l->report;
	uint32_t first = loop->passes.data[0].first;
	const struct task *task = &r->causes.tasks.data[l->tasks.data[first]];
	bool is_graph = is_graph_launch(r, task->launch);
	int code = 0;

	out->source =
		is_graph && loop->passes.data[0].end == first + 1 ? STEPS_GRAPHS : STEPS_LAUNCHES;
	if (task->kind == GPU_WORK_kernel && !is_graph)
		out->name = path_place_of_work(r, task).key;
	out->breaks = loop->breaks;
	for (size_t i = 0; i < loop->passes.count && code >= 0; i++)
		code = add_step(r, list, l->items.data[loop->passes.data[i].first].at_ns,
				end_of_items(l, loop->passes.data[i].end));
	return code;
}

/* Steps from launch to launch of a graph that has nearly all work. */
static int take_graph(const struct launches_of *l, struct step_loop *out, struct step_list *list)
{
	uint32_t what = 0, last = UINT32_MAX, count = 0;
	int code = 0;

	for (uint32_t k = 0; k < l->graph_ns.count; k++)
		if (l->graph_ns.data[k] * 100 > l->work_ns * GRAPH_PERCENT)
			what = k;
	for (uint32_t i = 0; what && i < l->items.count; i++)
		count += l->items.data[i].what == what;
	if (count < LOOP_PASSES_MIN)
		return 0;
	out->source = STEPS_GRAPHS;
	out->reason = STEP_REASON_found;
	for (uint32_t i = 0; i < l->items.count && code >= 0; i++) {
		if (l->items.data[i].what != what)
			continue;
		if (last != UINT32_MAX)
			code = add_step(l->report, list, l->items.data[last].at_ns,
					l->items.data[i].at_ns);
		last = i;
	}
	return code;
}

static const enum step_reason reasons[] = {
	[LOOP_FOUND] = STEP_REASON_found,         [LOOP_SHORT] = STEP_REASON_short,
	[LOOP_IRREGULAR] = STEP_REASON_irregular, [LOOP_UNMARKED] = STEP_REASON_unmarked,
	[LOOP_NESTED] = STEP_REASON_nested,
};

static int find_launches(const struct report *r, uint32_t first_task, uint32_t end_task,
			 struct step_loop *out, struct step_list *list)
{
	struct launches_of l = { .report = r, .graph_call = TASK_NONE };
	_cleanup_(launch_loop_release) struct launch_loop loop = { 0 };
	int code = collect(&l, first_task, end_task);

	if (code >= 0)
		code = launch_loop_find(&loop, l.items.data, (uint32_t)l.items.count);
	if (code >= 0) {
		out->reason = (uint8_t)reasons[loop.result];
		code = loop.result == LOOP_FOUND ? take_loop(&l, &loop, out, list)
						 : take_graph(&l, out, list);
	}
	map_release(&l.kinds);
	vec_release(&l.items);
	vec_release(&l.tasks);
	vec_release(&l.graph_ns);
	return code;
}

int step_find(const struct report *r, uint32_t process, uint32_t first_task, uint32_t end_task,
	      struct step_loop *loop, struct step_list *list)
{
	int code = find_ranges(r, process, loop, list);

	if (code < 0 || loop->source || loop->reason == STEP_REASON_overlap)
		return code;
	return find_launches(r, first_task, end_task, loop, list);
}
