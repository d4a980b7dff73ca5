/*
 * hotspots.c: collects the durations of each group's kernels. The most frequent configuration is
 * found by counting kernels by configuration.
 */
#include "analysis/hotspots.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"

const char *const hotspot_by_names[] = { "kernel", "config", "stream", "device", "thread",
					 "scope",  "caller", "nvtx",   NULL };

#define NO_GROUP UINT32_MAX
#define CAPTURED (UINT64_C(1) << 63)
#define CAPTURED_ROW (TRACE_NO_ROW - 1)

struct grouping {
	struct report *report;
	const struct kernel_columns *columns;
	struct event_columns event;
	uint64_t config_rows;
	GROUPS(struct hotspot) groups; /* process << 32 | key */
	VEC(struct durations) durations; /* of the groups */
	/* key: group << 32 | row of stack, or CAPTURED | group << 32 | line */
	GROUPS(struct launched) launched;
	uint64_t *config_counts;
	uint32_t *group_of_config; /* a cache; also needed for the most frequent configuration */
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
	groups_release(&g->launched);
	for (size_t i = 0; i < g->durations.count; i++)
		durations_release(&g->durations.data[i]);
	vec_release(&g->durations);
	free(g->config_counts);
	free(g->group_of_config);
}

/* The line that captured a kernel, or CALLER_NONE. */
static uint32_t captured_by(const struct grouping *g, uint64_t row)
{
	const uint32_t *of_kernel = g->report->callers.of_kernel;

	return of_kernel ? of_kernel[row] : CALLER_NONE;
}

/* The line that launched (or captured) a kernel; CALLER_NONE is HOTSPOT_NO_KEY. */
static uint32_t caller_of(const struct grouping *g, const struct row_walk *w)
{
	uint32_t caller = captured_by(g, w->row);

	return caller != CALLER_NONE
		       ? caller
		       : callers_of_call(&g->report->callers, w->process,
					 calls_launch(&g->report->calls, GPU_WORK_kernel, w->row));
}

/* Group key of a kernel; sets *process if the key is only unique within a process. */
static uint32_t key_of(const struct grouping *g, const struct row_walk *w, uint32_t *process)
{
	const struct report *r = g->report;
	uint32_t call = calls_launch(&r->calls, GPU_WORK_kernel, w->row), path;
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
	case HOTSPOT_SCOPE:
		path = nvtx_path_of_call(&r->ranges, call);
		return path == SCOPE_NONE ? HOTSPOT_NO_KEY : r->ranges.paths[path].message;
	case HOTSPOT_CALLER:
		return caller_of(g, w);
	case HOTSPOT_KINDS:
		break;
	}
	return HOTSPOT_NO_KEY;
}

static int find_group(struct grouping *g, const struct row_walk *w, uint32_t *group)
{
	uint32_t process, key = key_of(g, w, &process);
	struct hotspot *h =
		groups_at(&g->groups, (uint64_t)process << 32 | key, .key = key, .process = process,
			  .config = TRACE_NO_ROW, .number = (uint32_t)g->groups.items.count);

	if (!h)
		return -ENOMEM;
	*group = (uint32_t)(h - g->groups.items.data);
	if (*group < g->durations.count)
		return 0;
	h->device = (uint32_t)gpus_find(&g->report->gpus, w->process, g->columns->device[w->row]);
	return vec_push(&g->durations, (struct durations){ 0 });
}

/* Finds or adds the group of a row; NO_GROUP if the row is not selected. */
static int group_of(struct grouping *g, const struct row_walk *w, bool timed, uint32_t *group)
{
	const struct report *r = g->report;
	enum hotspot_by by = g->report->options.by;
	uint64_t config = MIN(g->columns->config[w->row], g->config_rows);
	uint32_t unknown = NO_GROUP, *known = &unknown;

	*group = NO_GROUP;
	if (!calls_select(&r->calls, &r->selection, &g->event, GPU_WORK_kernel, w->row, timed))
		return 0;
	if (by == HOTSPOT_KERNEL || by == HOTSPOT_CONFIG)
		known = &g->group_of_config[config];
	if (*known == NO_GROUP && find_group(g, w, known) < 0)
		return -ENOMEM;
	*group = *known;
	return 0;
}

static void add_share(struct caller_share *s, bool timed, uint64_t ns)
{
	s->count++;
	s->total_ns += timed ? ns : 0;
}

/* Item for the stack of a call and a group, often the group's latest. NULL: out of memory. */
static struct launched *find_launched(struct grouping *g, uint32_t process, uint32_t call,
				      uint32_t group)
{
	const struct callers *c = &g->report->callers;
	uint32_t row = callers_stack_of_call(c, process, call);
	uint32_t *last = &g->groups.items.data[group].launched;
	struct launched *l = g->launched.items.data;

	if (l && l[*last].hotspot == group && l[*last].row == row)
		return &l[*last];
	l = groups_at(&g->launched, (uint64_t)group << 32 | row, .hotspot = group, .row = row,
		      .process = process, .stack = row == TRACE_NO_ROW ? 0 : c->call_stacks[call],
		      .share.caller = callers_of_stack(c, row));
	if (l)
		*last = (uint32_t)(l - g->launched.items.data);
	return l;
}

static int add_launch(struct grouping *g, const struct row_walk *w, uint32_t group, bool timed,
		      uint64_t ns)
{
	uint32_t call = calls_launch(&g->report->calls, GPU_WORK_kernel, w->row);
	uint32_t captured = captured_by(g, w->row);
	struct launched *l = find_launched(g, w->process, call, group);

	if (!l)
		return -ENOMEM;
	l->ns += timed ? ns : 0;
	if (captured != CALLER_NONE)
		l = groups_at(&g->launched, CAPTURED | (uint64_t)group << 32 | captured,
			      .hotspot = group, .row = CAPTURED_ROW, .share.caller = captured);
	if (l)
		add_share(&l->share, timed, ns);
	return l ? 0 : -ENOMEM;
}

static int add_row(struct grouping *g, const struct row_walk *w)
{
	bool timed = event_is_timed(&g->event, w->row);
	uint64_t ns = g->event.end_ns[w->row] - g->event.start_ns[w->row];
	uint32_t group;

	if (group_of(g, w, timed, &group) < 0)
		return -ENOMEM;
	if (group == NO_GROUP)
		return 0;
	g->config_counts[MIN(g->columns->config[w->row], g->config_rows)]++;
	g->groups.items.data[group].untimed += !timed;
	if (timed && durations_add(&g->durations.data[group], ns) < 0)
		return -ENOMEM;
	return g->report->callers.any ? add_launch(g, w, group, timed, ns) : 0;
}

static int add_rows(struct grouping *g)
{
	int code = 0;

	for (struct row_walk w = selection_rows(&g->report->selection, TABLE_kernel);
	     code >= 0 && row_walk_next(&w);)
		code = add_row(g, &w);
	return code;
}

static void measure(struct grouping *g)
{
	for (size_t i = 0; i < g->groups.items.count; i++) {
		g->groups.items.data[i].time = durations_stats(&g->durations.data[i]);
		durations_release(&g->durations.data[i]);
	}
}

static void find_main_configs(struct grouping *g)
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

/* The kernels of a group that one line launched. */
struct group_caller {
	uint32_t group;
	struct caller_share share;
};

/* Inserts a caller among the largest of its group. */
static void insert_caller(struct hotspot *h, const struct caller_share *share)
{
	uint32_t i = MIN(h->caller_count, HOTSPOT_CALLERS_MAX);

	h->caller_count++;
	if (i == HOTSPOT_CALLERS_MAX && share->total_ns <= h->callers[--i].total_ns)
		return;
	for (; i && h->callers[i - 1].total_ns < share->total_ns; i--)
		h->callers[i] = h->callers[i - 1];
	h->callers[i] = *share;
}

/* Finds the callers of the `top` hotspots, and of those with as much time as the last of them. */
static int add_callers(struct hotspots *out, size_t top)
{
	GROUPS(struct group_caller) callers = GROUPS_INIT; /* hotspot << 32 | caller */
	uint64_t least_ns = top ? out->items[top - 1].time.total_ns : UINT64_MAX;
	int rc = 0;

	for (size_t i = 0; i < out->launched_count && rc >= 0; i++) {
		const struct launched *l = &out->launched[i];
		struct group_caller *c;

		if (!l->share.count || out->items[l->hotspot].time.total_ns < least_ns)
			continue;
		c = groups_at(&callers, (uint64_t)l->hotspot << 32 | l->share.caller,
			      .group = l->hotspot, .share.caller = l->share.caller);
		rc = c ? 0 : -ENOMEM;
		if (!c)
			break;
		c->share.count += l->share.count;
		c->share.total_ns += l->share.total_ns;
	}
	for (size_t i = 0; i < callers.items.count; i++)
		insert_caller(&out->items[callers.items.data[i].group],
			      &callers.items.data[i].share);
	groups_release(&callers);
	return rc;
}

ORDER(compare, struct hotspot, DOWN(time.total_ns) ?: UP(process) ?: UP(key))

/* Moves the sorted groups, and what launched them, to the result. */
static int store_groups(struct grouping *g, struct hotspots *out)
{
	_cleanup_free_ uint32_t *item_of = malloc((g->groups.items.count + 1) * sizeof(*item_of));

	groups_take(&g->groups, compare, &out->items, &out->count);
	out->launched = g->launched.items.data;
	out->launched_count = g->launched.items.count;
	g->groups.items.data = NULL;
	g->launched.items.data = NULL;
	if (!item_of)
		return -ENOMEM;
	for (size_t i = 0; i < out->count; i++) {
		item_of[out->items[i].number] = (uint32_t)i;
		out->kernels += out->items[i].time.count + out->items[i].untimed;
		out->untimed += out->items[i].untimed;
		out->total_ns += out->items[i].time.total_ns;
	}
	for (size_t i = 0; i < out->launched_count; i++)
		out->launched[i].hotspot = item_of[out->launched[i].hotspot];
	return add_callers(out, (size_t)MIN(g->report->options.callers_of, out->count));
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
	if (code >= 0) {
		measure(&g);
		find_main_configs(&g);
		code = store_groups(&g, out);
	}
	grouping_release(&g);
	return code;
}

const struct analysis analysis_hotspots = {
	.size = sizeof(struct hotspots),
	.needs = { { TABLE_kernel_config, 0 }, { TABLE_kernel, COLUMN_BITS(kernel, config) } },
	.run = run,
	.owned = { OWNS(struct hotspots, items), OWNS(struct hotspots, launched) },
};
