/*
 * hotspots.c: each kernel's duration goes to those of its group. The commonest configuration comes
 * from counts by configuration.
 */
#include "analysis/hotspots.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"

#define NO_GROUP UINT32_MAX

struct grouping {
	struct report *report;
	const struct kernel_columns *columns;
	struct event_columns event;
	uint64_t config_rows;
	GROUPS(struct hotspot) groups; /* process << 32 | key */
	VEC(struct durations) durations; /* of the groups */
	uint64_t *config_counts;
	uint32_t *group_of_config; /* a cache, and for the commonest configuration */
};

static int grouping_init(struct grouping *g)
{
	g->config_counts = calloc(g->config_rows + 1, sizeof(*g->config_counts));
	g->group_of_config = malloc((g->config_rows + 1) * sizeof(*g->group_of_config));
	if (!g->config_counts || !g->group_of_config)
		return -ENOMEM;
	for (uint64_t i = 0; i <= g->config_rows; i++)
		g->group_of_config[i] = NO_GROUP;
	return 0;
}

static void grouping_release(struct grouping *g)
{
	groups_release(&g->groups);
	for (size_t i = 0; i < g->durations.count; i++)
		durations_release(&g->durations.data[i]);
	vec_release(&g->durations);
	free(g->config_counts);
	free(g->group_of_config);
}

/* The line that launched (or captured) a kernel; CALLER_NONE is HOTSPOT_NO_KEY. */
static uint32_t caller_of(const struct grouping *g, uint64_t row)
{
	const struct callers *c = &g->report->callers;
	uint32_t call = calls_launch(&g->report->calls, GPU_WORK_kernel, row);

	if (c->of_kernel && c->of_kernel[row] != CALLER_NONE)
		return c->of_kernel[row];
	return callers_of_call(c, call);
}

/* What a kernel is grouped by; *process is set where the key is only unique within one. */
static uint32_t key_of(const struct grouping *g, const struct row_walk *w, uint32_t *process)
{
	const struct report *r = g->report;
	uint32_t call = calls_launch(&r->calls, GPU_WORK_kernel, w->row), range;
	uint32_t config = g->columns->config[w->row];

	*process = 0;
	switch (r->options.by) {
	case HOTSPOT_KERNEL:
		return config < g->config_rows ? kernel_config_columns(r->trace)->name[config]
					       : HOTSPOT_NO_KEY;
	case HOTSPOT_CONFIG:
		return config;
	case HOTSPOT_STREAM:
		*process = w->process;
		return g->columns->stream[w->row];
	case HOTSPOT_DEVICE:
		return (uint32_t)gpus_find(&r->gpus, w->process, g->columns->device[w->row]);
	case HOTSPOT_THREAD:
		*process = w->process;
		return call == TRACE_NO_ROW ? HOTSPOT_NO_KEY : r->calls.threads[call];
	case HOTSPOT_NVTX:
		range = call == TRACE_NO_ROW ? NVTX_NO_RANGE : r->ranges.of_call[call];
		return range == NVTX_NO_RANGE ? HOTSPOT_NO_KEY : r->ranges.items[range].message;
	case HOTSPOT_CALLER:
		return caller_of(g, w->row);
	case HOTSPOT_KINDS:
		break;
	}
	return HOTSPOT_NO_KEY;
}

static int find_group(struct grouping *g, const struct row_walk *w, uint32_t *group)
{
	uint32_t process, key = key_of(g, w, &process);
	struct hotspot *h = groups_at(&g->groups, (uint64_t)process << 32 | key, .key = key,
				      .process = process, .config = TRACE_NO_ROW);

	if (!h)
		return -ENOMEM;
	*group = (uint32_t)(h - g->groups.items.data);
	if (*group < g->durations.count)
		return 0;
	h->device = (uint32_t)gpus_find(&g->report->gpus, w->process, g->columns->device[w->row]);
	return vec_push(&g->durations, (struct durations){ 0 });
}

static bool is_wanted(const struct grouping *g, uint64_t row)
{
	const struct selection *s = &g->report->selection;

	return selection_has_time(s, event_is_timed(&g->event, row), g->event.start_ns[row]) &&
	       selection_has_place(s, g->columns->device[row], g->columns->stream[row]) &&
	       selection_has_config(s, g->columns->config[row]) &&
	       selection_has_call(s, calls_launch(&g->report->calls, GPU_WORK_kernel, row));
}

/* The group of a row, NO_GROUP where it is not wanted. */
static int group_of(struct grouping *g, const struct row_walk *w, uint32_t *group)
{
	enum hotspot_by by = g->report->options.by;
	uint64_t config = MIN(g->columns->config[w->row], g->config_rows);
	uint32_t unknown = NO_GROUP, *known = &unknown;

	*group = NO_GROUP;
	if (!is_wanted(g, w->row))
		return 0;
	if (by == HOTSPOT_KERNEL || by == HOTSPOT_CONFIG)
		known = &g->group_of_config[config];
	if (*known == NO_GROUP && find_group(g, w, known) < 0)
		return -ENOMEM;
	*group = *known;
	return 0;
}

static int add_rows(struct grouping *g)
{
	uint32_t group;

	for (struct row_walk w = selection_rows(&g->report->selection, TABLE_kernel);
	     row_walk_next(&w);) {
		if (group_of(g, &w, &group) < 0)
			return -ENOMEM;
		if (group == NO_GROUP)
			continue;
		g->config_counts[MIN(g->columns->config[w.row], g->config_rows)]++;
		if (!event_is_timed(&g->event, w.row))
			g->groups.items.data[group].untimed++;
		else if (durations_add(&g->durations.data[group],
				       g->event.end_ns[w.row] - g->event.start_ns[w.row]) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void measure(struct grouping *g)
{
	for (size_t i = 0; i < g->groups.items.count; i++) {
		g->groups.items.data[i].time = durations_stats(&g->durations.data[i]);
		durations_release(&g->durations.data[i]);
	}
}

static void find_commonest(struct grouping *g)
{
	for (uint64_t config = 0; config < g->config_rows; config++) {
		struct hotspot *h;

		if (g->group_of_config[config] == NO_GROUP)
			continue;
		h = &g->groups.items.data[g->group_of_config[config]];
		if (g->config_counts[config] > h->config_count) {
			h->config_count = g->config_counts[config];
			h->config = (uint32_t)config;
		}
	}
}

/* What one line launched of a group, while groups get their callers. */
struct group_caller {
	uint32_t group;
	struct caller_share share;
};

/* Into its place among the largest of its group. */
static void keep_caller(struct hotspot *h, const struct caller_share *share)
{
	uint32_t i = MIN(h->caller_count, HOTSPOT_CALLERS_MAX);

	h->caller_count++;
	if (i == HOTSPOT_CALLERS_MAX && share->total_ns <= h->callers[--i].total_ns)
		return;
	for (; i && h->callers[i - 1].total_ns < share->total_ns; i--)
		h->callers[i] = h->callers[i - 1];
	h->callers[i] = *share;
}

/* Adds up by group and line what the wanted groups (one byte each) have. */
static int find_callers(struct grouping *g, const uint8_t *wanted)
{
	GROUPS(struct group_caller) callers = GROUPS_INIT; /* group << 32 | caller */
	int r = 0;

	for (struct row_walk w = selection_rows(&g->report->selection, TABLE_kernel);
	     r >= 0 && row_walk_next(&w);) {
		uint32_t caller = caller_of(g, w.row), group;
		struct group_caller *c;

		r = group_of(g, &w, &group);
		if (r < 0 || group == NO_GROUP || !wanted[group])
			continue;
		c = groups_at(&callers, (uint64_t)group << 32 | caller, .group = group,
			      .share.caller = caller);
		if (!c) {
			r = -ENOMEM;
			break;
		}
		c->share.count++;
		if (event_is_timed(&g->event, w.row))
			c->share.total_ns += g->event.end_ns[w.row] - g->event.start_ns[w.row];
	}
	for (size_t i = 0; i < callers.items.count; i++)
		keep_caller(&g->groups.items.data[callers.items.data[i].group],
			    &callers.items.data[i].share);
	groups_release(&callers);
	return r;
}

static int longest_first(const void *a, const void *b)
{
	return order_down(*(const uint64_t *)a, *(const uint64_t *)b);
}

/* The groups with most time get their callers. */
static int add_callers(struct grouping *g)
{
	size_t count = g->groups.items.count,
	       top = (size_t)MIN(g->report->options.callers_of, count);
	_cleanup_free_ uint64_t *times = malloc((count + 1) * sizeof(*times));
	_cleanup_free_ uint8_t *wanted = malloc(count + 1);

	if (!times || !wanted)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		times[i] = g->groups.items.data[i].time.total_ns;
	qsort(times, count, sizeof(*times), longest_first);
	for (size_t i = 0; i < count; i++)
		wanted[i] = top && g->groups.items.data[i].time.total_ns >= times[top - 1];
	return find_callers(g, wanted);
}

static int compare(const void *a, const void *b)
{
	const struct hotspot *x = a, *y = b;

	return order_down(x->time.total_ns, y->time.total_ns) ?: order_up(x->process, y->process)
		       ?: order_up(x->key, y->key);
}

static int run(struct report *r, void *result)
{
	struct hotspots *out = result;
	struct grouping g = { .report = r,
			      .columns = kernel_columns(r->trace),
			      .event = events_of(r->trace, TABLE_kernel),
			      .config_rows = trace_rows(r->trace, TABLE_kernel_config) };
	int code = grouping_init(&g);

	out->by = r->options.by;
	if (code >= 0)
		code = add_rows(&g);
	if (code >= 0)
		measure(&g);
	if (code >= 0 && r->options.callers_of && r->callers.any)
		code = add_callers(&g);
	if (code >= 0) {
		find_commonest(&g);
		groups_take(&g.groups, compare, &out->items, &out->count);
		g.groups.items.data = NULL;
		for (size_t i = 0; i < out->count; i++) {
			out->kernels += out->items[i].time.count + out->items[i].untimed;
			out->untimed += out->items[i].untimed;
			out->total_ns += out->items[i].time.total_ns;
		}
	}
	grouping_release(&g);
	return code;
}

const struct analysis analysis_hotspots = {
	.size = sizeof(struct hotspots),
	.needs = { { TABLE_kernel_config, 0 }, { TABLE_kernel, COLUMN_BITS(kernel, config) } },
	.run = run,
	OWNS(struct hotspots, items),
};
