#include "analysis/what_if_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/search.h"
#include "ranks/collective_wait.h"

#define NONE UINT32_MAX

/* --- what is simulated --- */

/* A time of a host's clock by the first host's. */
static uint64_t common_ns(const struct collectives *c, uint32_t host, uint64_t ns)
{
	const struct job_host *h = &c->hosts[host];

	return host_clock_convert(&h->clock, ns - (uint64_t)h->ahead_ns);
}

static uint32_t process_of(const struct what_if_ranks *r, uint32_t task)
{
	return r->causes->lanes.data[r->causes->tasks.data[task].lane].process;
}

static uint64_t begin_of(const struct what_if_ranks *r, uint32_t index)
{
	const struct task *task = &r->causes->tasks.data[index];

	return task->launch != TASK_NONE ? r->causes->tasks.data[task->launch].start_ns
					 : task->start_ns;
}

static int add_range(struct what_if_ranks *r, struct task_range range, uint32_t rank)
{
	range.rank = rank;
	if (range.first >= range.end)
		return 0;
	r->first = MIN(r->first, range.first);
	r->end = MAX(r->end, range.end);
	return vec_push(&r->ranges, range);
}

/* Adds the tasks of a rank's process in the window. */
static int add_rank(struct what_if_ranks *r, const struct job_rank *rank, uint32_t from,
		    uint32_t end, uint64_t start_ns, uint64_t end_ns)
{
	struct task_range range = { .first = NONE };

	for (uint32_t i = from; i < end; i++) {
		uint64_t ns = common_ns(r->collectives, rank->host, begin_of(r, i));

		if (ns < start_ns || ns >= end_ns)
			continue;
		range.first = MIN(range.first, i);
		range.end = i + 1;
	}
	return add_range(r, range, rank->number);
}

static const struct job_rank *rank_with(const struct collectives *c, uint32_t process)
{
	for (size_t i = 0; i < c->rank_count; i++)
		if (c->ranks[i].process == process)
			return &c->ranks[i];
	return NULL;
}

/* Ranks of one process are not simulated: its calls are in one order. */
static bool shares_process(const struct collectives *c)
{
	for (size_t i = 0; i < c->rank_count; i++)
		if (rank_with(c, c->ranks[i].process) != &c->ranks[i])
			return true;
	return false;
}

/* The tasks of a process lie next to each other. */
static int find_ranges(struct what_if_ranks *r, struct task_range own, uint64_t start_ns,
		       uint64_t end_ns)
{
	const struct collectives *c = r->collectives;
	const struct job_rank *rank = rank_with(c, process_of(r, own.first));
	uint32_t count = (uint32_t)causes_task_count(r->causes), host, number;
	int rc = 0;

	if (!rank || shares_process(c))
		return 0;
	host = rank->host;
	number = rank->number;
	start_ns = common_ns(c, host, start_ns);
	end_ns = end_ns == UINT64_MAX ? end_ns : common_ns(c, host, end_ns);
	r->first = NONE;
	for (uint32_t from = 0, to = 0; from < count && rc >= 0; from = to) {
		while (to < count && process_of(r, to) == process_of(r, from))
			to++;
		rank = rank_with(c, process_of(r, from));
		if (own.first >= from && own.first < to)
			rc = add_range(r, own, number);
		else if (rank)
			rc = add_rank(r, rank, from, to, start_ns, end_ns);
	}
	return rc;
}

static int find_parts(struct what_if_ranks *r)
{
	const struct collectives *c = r->collectives;
	struct map parts = MAP_INIT; /* row of the kernel -> part */
	uint64_t part;
	int rc = 0;

	for (size_t i = 0; i < c->matches.items.count && rc >= 0; i++) {
		const struct collective_match *m = &c->matches.items.data[i];

		if (m->parts < 2 || !collective_is_whole(c->parts.data, m))
			continue;
		collective_find_needs(c->parts.data, m, &r->needs[m->first]);
		for (size_t p = m->first; p < m->first + m->parts && rc >= 0; p++) {
			r->match_of[p] = (uint32_t)i;
			rc = map_put(&parts, c->parts.data[p].kernel, p);
		}
	}
	for (size_t i = 0; i < r->ranges.count && rc >= 0; i++)
		for (uint32_t t = r->ranges.data[i].first; t < r->ranges.data[i].end; t++) {
			const struct task *task = &r->causes->tasks.data[t];

			if (task->kind != GPU_WORK_kernel || !map_get(&parts, task->row, &part))
				continue;
			r->part_of[t - r->first] = (uint32_t)part;
			r->task_of[part] = t;
		}
	map_release(&parts);
	return rc;
}

/* --- no straggler --- */

static uint32_t part_of_rank(const struct collectives *c, uint32_t match, uint32_t rank)
{
	const struct collective_match *m = &c->matches.items.data[match];

	for (size_t i = m->first; i < m->first + m->parts; i++)
		if (c->parts.data[i].rank == rank)
			return (uint32_t)i;
	return NONE;
}

const struct task_range *what_if_ranks_range(const struct what_if_ranks *r, uint32_t task)
{
	const struct task_range *ranges = r->ranges.data;
	size_t i = sorted_prefix(r->ranges.count, k, ranges[k].end <= task);

	return i < r->ranges.count && ranges[i].first <= task ? &ranges[i] : NULL;
}

/* What a rank does between two collectives are the tasks between them in host order. */
static void find_paces(struct what_if_ranks *r, const struct rank_times *t)
{
	for (size_t i = 0; i < t->paces.count; i++) {
		const struct rank_pace *p = &t->paces.data[i];
		uint32_t from = part_of_rank(r->collectives, p->previous, p->rank);
		uint32_t to = part_of_rank(r->collectives, p->match, p->rank);
		struct task_range *range;
		float factor = (float)((double)p->median_ns / (double)p->own_ns);

		from = from == NONE ? NONE : r->task_of[from];
		to = to == NONE ? NONE : r->task_of[to];
		if (from == NONE || to == NONE || to < from)
			continue;
		for (uint32_t k = from + 1; k < to; k++)
			r->pace[k - r->first] = MIN(r->pace[k - r->first], factor);
		range = (struct task_range *)(uintptr_t)what_if_ranks_range(r, to);
		range->slower++;
		range->slower_ns += p->own_ns - p->median_ns;
	}
}

static int allocate(struct what_if_ranks *r)
{
	size_t tasks = r->end - r->first, parts = r->collectives->parts.count;

	r->part_of = malloc((tasks + 1) * sizeof(*r->part_of));
	r->pace = malloc((tasks + 1) * sizeof(*r->pace));
	r->task_of = malloc((parts + 1) * sizeof(*r->task_of));
	r->match_of = calloc(parts + 1, sizeof(*r->match_of));
	r->needs = calloc(parts + 1, sizeof(*r->needs));
	r->begun = calloc(parts + 1, sizeof(*r->begun));
	r->missing = calloc(r->collectives->matches.items.count + 1, sizeof(*r->missing));
	if (!r->part_of || !r->pace || !r->task_of || !r->match_of || !r->needs || !r->begun ||
	    !r->missing)
		return -ENOMEM;
	memset(r->part_of, 0xff, tasks * sizeof(*r->part_of));
	memset(r->task_of, 0xff, parts * sizeof(*r->task_of));
	for (size_t i = 0; i < tasks; i++)
		r->pace[i] = 1;
	return 0;
}

int what_if_ranks_init(struct what_if_ranks *r, const struct causes *causes,
		       const struct collectives *c, const struct rank_times *t,
		       struct task_range own, uint64_t start_ns, uint64_t end_ns)
{
	int rc;

	*r = (struct what_if_ranks){ .causes = causes, .collectives = c };
	if (!t->waits_known || !c->whole || own.first >= own.end)
		return 0;
	rc = find_ranges(r, own, start_ns, end_ns);
	if (rc >= 0 && r->ranges.count < 2) {
		r->ranges.count = 0;
		return 0;
	}
	if (rc >= 0)
		rc = allocate(r);
	if (rc >= 0)
		rc = find_parts(r);
	if (rc >= 0)
		find_paces(r, t);
	return rc;
}

void what_if_ranks_release(struct what_if_ranks *r)
{
	vec_release(&r->ranges);
	free(r->part_of);
	free(r->pace);
	free(r->task_of);
	free(r->match_of);
	free(r->needs);
	free(r->begun);
	free(r->missing);
}

/* --- simulation --- */

static const struct task *task_of_part(const struct what_if_ranks *r, uint32_t part)
{
	return &r->causes->tasks.data[r->task_of[part]];
}

/* When a part begins, by the first host's clock: as simulated, or recorded if it is not. */
static int64_t begin_ns(const struct what_if_ranks *r, const struct simulated *times, uint32_t part)
{
	int64_t recorded_ns = (int64_t)r->collectives->parts.data[part].start_ns;

	if (r->task_of[part] == NONE)
		return recorded_ns;
	return recorded_ns + times[r->task_of[part] - r->first].start_ns -
	       (int64_t)task_of_part(r, part)->start_ns;
}

/* The last begin of what a part needs, by its own clock, as simulated or as recorded. */
static int64_t last_begin_ns(const struct what_if_ranks *r, const struct simulated *times,
			     uint32_t part, bool recorded)
{
	const struct collective_part *parts = r->collectives->parts.data;
	const struct collective_match *m = &r->collectives->matches.items.data[r->match_of[part]];
	size_t first = r->needs[part] == NEEDS_ALL ? m->first : r->needs[part];
	size_t end = r->needs[part] == NEEDS_ALL ? m->first + m->parts : first + 1;
	int64_t last_ns = INT64_MIN;

	for (size_t i = first; i < end; i++) {
		int64_t ns =
			recorded ? (int64_t)parts[i].start_ns : begin_ns(r, times, (uint32_t)i);

		last_ns = MAX(last_ns, ns);
	}
	return last_ns + (int64_t)(task_of_part(r, part)->start_ns - parts[part].start_ns);
}

static void begin_part(struct what_if_ranks *r, uint32_t part)
{
	if (r->begun[part])
		return;
	r->begun[part] = true;
	r->missing[r->match_of[part]]--;
}

static bool can_end(const struct what_if_ranks *r, uint32_t part)
{
	uint32_t need = r->needs[part];

	return need == NEEDS_ALL ? !r->missing[r->match_of[part]]
				 : r->begun[need] || r->task_of[need] == NONE;
}

/*
 * Adds its waiting to the end of a part. Where the clocks say that it ended before the last one
 * began, that difference is theirs.
 */
static void end_part(const struct what_if_ranks *r, const struct simulation *s,
		     struct simulated *times, uint32_t part,
		     uint64_t (*waits)(void *user, uint32_t task, uint64_t ns))
{
	const struct task *task = task_of_part(r, part);
	struct simulated *t = &times[r->task_of[part] - r->first];
	int64_t recorded_ns = last_begin_ns(r, times, part, true);
	int64_t excess_ns = MAX(recorded_ns - (int64_t)task->end_ns, 0);
	int64_t wait_ns = last_begin_ns(r, times, part, false) - excess_ns - t->start_ns;

	t->end_ns += (int64_t)waits(s->user, r->task_of[part], (uint64_t)MAX(wait_ns, 0));
}

/* Simulates a process until it needs a rank that has not come; force: not for its next part. */
static bool advance(struct what_if_ranks *r, struct task_range *range, const struct simulation *s,
		    struct simulated *times, bool force,
		    uint64_t (*waits)(void *user, uint32_t task, uint64_t ns))
{
	uint32_t from = range->next;

	for (; range->next < range->end; range->next++) {
		uint32_t part = r->part_of[range->next - r->first];

		if (part == NONE || !r->begun[part])
			simulate_task(s, times, range->next);
		if (part == NONE)
			continue;
		begin_part(r, part);
		if (!can_end(r, part) && !force)
			break;
		r->unresolved += !can_end(r, part);
		force = false;
		end_part(r, s, times, part, waits);
	}
	return range->next > from;
}

static void reset(struct what_if_ranks *r)
{
	const struct collectives *c = r->collectives;

	r->unresolved = 0;
	memset(r->begun, 0, c->parts.count);
	memset(r->missing, 0, c->matches.items.count * sizeof(*r->missing));
	for (size_t i = 0; i < c->parts.count; i++)
		r->missing[r->match_of[i]] += r->task_of[i] != NONE;
	for (size_t i = 0; i < r->ranges.count; i++)
		r->ranges.data[i].next = r->ranges.data[i].first;
}

void what_if_ranks_simulate(struct what_if_ranks *r, const struct simulation *s,
			    struct simulated *times,
			    uint64_t (*waits)(void *user, uint32_t task, uint64_t ns))
{
	bool moved, left;

	reset(r);
	do {
		struct task_range *stuck = NULL;

		moved = left = false;
		for (size_t i = 0; i < r->ranges.count; i++) {
			struct task_range *range = &r->ranges.data[i];

			moved |= advance(r, range, s, times, false, waits);
			if (range->next == range->end)
				continue;
			left = true;
			stuck = stuck ? stuck : range;
		}
		if (left && !moved)
			advance(r, stuck, s, times, true, waits);
	} while (left);
}
