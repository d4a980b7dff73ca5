/*
 * what_if_candidates.c: what is worth working on: owners of costs in any of the processes that are
 * simulated, and what is about several ranks.
 */
#include "analysis/what_if.h"

#include <errno.h>

#include "analysis/groups.h"

#define CANDIDATES_MAX 24u
#define SLOW_RANKS_MAX 8u

static const struct task *task_at(const struct what_if *w, uint32_t index)
{
	return &w->report->causes.tasks.data[index];
}

ORDER(most_expensive_first, struct what_if_candidate,
      DOWN(cost_ns) ?: UP(place.class) ?: UP(place.key))
ORDER(largest_gain_first, struct what_if_candidate,
      DOWN(gain_ns) ?: DOWN(cost_ns) ?: UP(place.class) ?: UP(place.key))

typedef GROUPS(struct what_if_candidate) candidate_groups;

struct costs {
	candidate_groups groups; /* of one process */
	struct what_if_candidate classes[PATH_CLASSES];
	uint32_t process;
};

static int add_cost(const struct what_if *w, enum cost_of what, uint32_t index, uint64_t ns,
		    struct costs *out)
{
	struct path_place p = what_if_place(w->report, what, task_at(w, index));
	struct what_if_candidate new = { .place = p,
					 .target = WHAT_IF_TARGET_COUNT,
					 .process = out->process },
				 *c, *class = &out->classes[p.class];

	if (p.class == PATH_UNKNOWN)
		return 0;
	c = groups_at(&out->groups, path_place_id(p), .place = p, .target = new.target,
		      .process = new.process);
	if (!c)
		return -ENOMEM;
	c->cost_ns += ns;
	new.place = (struct path_place){ .class = p.class };
	new.is_class = true;
	new.cost_ns = class->cost_ns + ns;
	*class = new;
	return 0;
}

static int add_costs(const struct what_if *w, struct task_range range, struct costs *out)
{
	for (uint32_t i = range.first; i < range.end; i++) {
		const struct task *task = task_at(w, i);
		uint64_t ns = task->end_ns - task->start_ns;
		struct arrival waited;

		if (task_is_work(task) &&
		    add_cost(w, COST_WORK, i, ns - what_if_rank_wait_ns(w, i), out) < 0)
			return -ENOMEM;
		if (task->kind != TASK_CALL)
			continue;
		waited = causes_return(&w->report->causes, i);
		if (waited.from != TASK_NONE)
			ns = MIN(ns, task->end_ns - waited.ns);
		if (add_cost(w, COST_CALL, i, ns, out) < 0 ||
		    add_cost(w, COST_HOST, i, what_if_host_ns(w, i), out) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Whether the class has more than one owner: else the two are the same. */
static bool has_several(const candidate_groups *groups, enum path_class class)
{
	size_t count = 0;

	for (size_t i = 0; i < groups->items.count; i++)
		count += groups->items.data[i].place.class == class;
	return count > 1;
}

/* Of several processes the one with most cost counts: they run side by side. */
static int take_most(const struct costs *costs, struct costs *most)
{
	for (size_t i = 0; i < costs->groups.items.count; i++) {
		const struct what_if_candidate *c = &costs->groups.items.data[i];
		struct what_if_candidate *m =
			groups_at(&most->groups, path_place_id(c->place), .place = c->place);

		if (!m)
			return -ENOMEM;
		if (c->cost_ns > m->cost_ns)
			*m = *c;
	}
	for (unsigned class = 0; class < PATH_CLASSES; class ++)
		if (costs->classes[class].cost_ns > most->classes[class].cost_ns)
			most->classes[class] = costs->classes[class];
	return 0;
}

/* Finds what the owners of all processes that are simulated cost. */
static int find_costs(const struct what_if *w, struct costs *most)
{
	struct task_range own = { .first = w->first_task, .end = w->end_task };
	size_t count = MAX(w->ranks.ranges.count, 1);
	int code = 0;

	for (size_t i = 0; i < count && code >= 0; i++) {
		struct task_range range = w->ranks.ranges.count ? w->ranks.ranges.data[i] : own;
		struct costs costs = { .groups = GROUPS_INIT };

		costs.process =
			range.first < range.end
				? w->report->causes.lanes.data[task_at(w, range.first)->lane]
					  .process
				: w->process;
		code = add_costs(w, range, &costs);
		if (code >= 0)
			code = take_most(&costs, most);
		groups_release(&costs.groups);
	}
	return code;
}

/* What the transfers of the process cost. */
static uint64_t transfers_ns(const struct what_if *w)
{
	uint64_t sum = 0;

	for (uint32_t i = w->first_task; i < w->end_task; i++)
		if (what_if_ranks_has(&w->ranks, i))
			sum += task_at(w, i)->end_ns - task_at(w, i)->start_ns -
			       what_if_rank_wait_ns(w, i);
	return sum;
}

static uint64_t slower_ns(const struct what_if *w)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < w->ranks.ranges.count; i++)
		sum += w->ranks.ranges.data[i].slower_ns;
	return sum;
}

/* Adds what is about several ranks. */
static int add_of_ranks(const struct what_if *w, candidate_groups *groups)
{
	const struct what_if_candidate of_ranks[] = {
		{ .target = WHAT_IF_wait, .process = w->process, .cost_ns = w->rank_wait_ns },
		{ .target = WHAT_IF_comm, .process = w->process, .cost_ns = transfers_ns(w) },
		{ .target = WHAT_IF_straggler, .process = w->process, .cost_ns = slower_ns(w) },
	};

	for (size_t i = 0; i < ARRAY_SIZE(of_ranks); i++)
		if (of_ranks[i].cost_ns && vec_push(&groups->items, of_ranks[i]) < 0)
			return -ENOMEM;
	return 0;
}

ORDER(shortest_step_first, struct what_if_rank, UP(step_ns) ?: DOWN(slower_ns) ?: UP(rank))
ORDER(slowest_first, struct what_if_rank, DOWN(slower_ns) ?: UP(rank))

/* Finds what it brings if one rank after another is as fast as the median. */
static int find_slow_ranks(struct what_if *w)
{
	const struct task_range *ranges = w->ranks.ranges.data;
	VEC(struct what_if_rank) ranks = { 0 };
	int code = 0;

	for (size_t i = 0; i < w->ranks.ranges.count && code >= 0; i++) {
		struct what_if_rank r = { .rank = ranges[i].rank,
					  .slower = ranges[i].slower,
					  .slower_ns = ranges[i].slower_ns };

		r.process = w->report->causes.lanes.data[task_at(w, ranges[i].first)->lane].process;
		if (r.slower)
			code = vec_push(&ranks, r);
	}
	vec_sort(&ranks, slowest_first);
	ranks.count = MIN(ranks.count, SLOW_RANKS_MAX);
	for (size_t i = 0; i < ranks.count && code >= 0; i++)
		code = what_if_rank_gain(w, &ranks.data[i]);
	vec_sort(&ranks, shortest_step_first);
	w->slow_ranks = ranks.data;
	w->slow_rank_count = ranks.count;
	return code;
}

int what_if_candidates(struct what_if *w)
{
	struct costs most = { .groups = GROUPS_INIT };
	candidate_groups *groups = &most.groups;
	int code = find_costs(w, &most);

	vec_sort(&groups->items, most_expensive_first);
	if (groups->items.count > CANDIDATES_MAX) {
		w->omitted = groups->items.count - CANDIDATES_MAX;
		w->omitted_ns = groups->items.data[CANDIDATES_MAX].cost_ns;
	}
	for (unsigned class = 0; class < PATH_CLASSES; class ++)
		if (code < 0 || !has_several(groups, class))
			most.classes[class].cost_ns = 0;
	groups->items.count = MIN(groups->items.count, CANDIDATES_MAX);
	for (unsigned class = 0; class < PATH_CLASSES && code >= 0; class ++)
		if (most.classes[class].cost_ns)
			code = vec_push(&groups->items, most.classes[class]);
	if (code >= 0)
		code = add_of_ranks(w, groups);
	for (size_t i = 0; i < groups->items.count && code >= 0; i++)
		code = what_if_gain(w, &groups->items.data[i]);
	if (code >= 0)
		code = find_slow_ranks(w);
	groups_take(groups, largest_gain_first, &w->candidates, &w->candidate_count);
	return code;
}
