/*
 * range_times.c: first adds up the work launched directly in each range; then, from the last range
 * to the first, adds each range's work to the range around it.
 */
#include "analysis/range_times.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"

/* Work launched in a range; after sum_outwards, including the ranges inside. */
struct inside {
	uint64_t ns, work;
};

struct tally {
	const struct report *report;
	const struct nvtx_ranges *ranges;
	struct inside *inside; /* by range */
	struct range_times *out;
	GROUPS(struct range_group) groups; /* key: message */
	VEC(struct durations) durations; /* parallel to groups */
};

static void add_work(struct tally *x)
{
	struct work_walk w = work_walk(&x->report->calls, &x->report->selection);

	while (work_walk_next(&w)) {
		uint32_t range =
			w.call == TRACE_NO_ROW ? NVTX_NO_RANGE : x->ranges->of_call[w.call];

		x->out->gpu_ns += w.ns;
		if (range == NVTX_NO_RANGE) {
			x->out->outside_ns += w.ns;
			continue;
		}
		x->inside[range].ns += w.ns;
		x->inside[range].work++;
	}
}

/* Inner ranges come after the ranges around them. */
static void sum_outwards(struct tally *x)
{
	for (size_t i = x->ranges->count; i-- > 0;) {
		uint32_t outer = x->ranges->items[i].outer;

		if (outer == NVTX_NO_RANGE)
			continue;
		x->inside[outer].ns += x->inside[i].ns;
		x->inside[outer].work += x->inside[i].work;
	}
}

/* Whether a range is inside a range of equal text, which already includes its work. */
static bool is_nested(const struct tally *x, const struct nvtx_range *range)
{
	uint32_t outer = range->outer;

	for (unsigned depth = 0; outer != NVTX_NO_RANGE && depth < SCOPE_DEPTH_MAX; depth++) {
		if (x->ranges->items[outer].message == range->message)
			return true;
		outer = x->ranges->items[outer].outer;
	}
	return false;
}

/* Of a range that begins before the window, only the work inside the window counts. */
static int add_range(struct tally *x, size_t i)
{
	const struct nvtx_range *range = &x->ranges->items[i];
	bool begins = selection_has_time(&x->report->selection, true, range->start_ns);
	struct range_group *g;
	size_t group;

	if (!x->report->selection.processes[range->process] || (!begins && !x->inside[i].work))
		return 0;
	if (nvtx_scope(x->ranges->items, (uint32_t)i) != i) /* counted with the carried scope */
		return 0;
	g = groups_at(&x->groups, range->message, .message = range->message);
	if (!g)
		return -ENOMEM;
	group = (size_t)(g - x->groups.items.data);
	if (group == x->durations.count && vec_push(&x->durations, (struct durations){ 0 }) < 0)
		return -ENOMEM;
	g->launches |= range->pushed;
	if (!is_nested(x, range)) {
		g->gpu_ns += x->inside[i].ns;
		g->work += x->inside[i].work;
	}
	if (!begins || range->carried)
		return 0;
	x->out->ranges++;
	g->count++;
	g->open += range->open;
	return range->open
		       ? 0
		       : durations_add(&x->durations.data[group], range->end_ns - range->start_ns);
}

ORDER(compare, struct range_group, DOWN(gpu_ns) ?: DOWN(time.total_ns) ?: UP(message))

static int tally(struct tally *x)
{
	int code = 0;

	x->inside = calloc(x->ranges->count + 1, sizeof(*x->inside));
	if (!x->inside)
		return -ENOMEM;
	add_work(x);
	sum_outwards(x);
	for (size_t i = 0; i < x->ranges->count && code >= 0; i++)
		code = add_range(x, i);
	for (size_t i = 0; i < x->durations.count; i++) {
		x->groups.items.data[i].time = durations_stats(&x->durations.data[i]);
		durations_release(&x->durations.data[i]);
	}
	return code;
}

static int run(struct report *r, void *result)
{
	struct range_times *out = result;
	struct nvtx_ranges own = { 0 };
	struct tally x = { .report = r, .ranges = &r->ranges, .out = out };
	int code = 0;

	if (!trace_rows(r->trace, TABLE_nvtx))
		return 0;
	if (!r->ranges.of_call) {
		x.ranges = &own;
		code = nvtx_ranges_pair(&own, r->trace, SCOPES_ALL, true);
	}
	if (code >= 0)
		code = tally(&x);
	groups_take(&x.groups, compare, &out->items, &out->count);
	free(x.inside);
	vec_release(&x.durations);
	nvtx_ranges_release(&own);
	return code;
}

const struct analysis analysis_range_times = {
	.size = sizeof(struct range_times),
	.needs = { { TABLE_nvtx, 0 }, { TABLE_nvtx_domain, 0 } },
	.run = run,
	.owned = { OWNS(struct range_times, items) },
};
