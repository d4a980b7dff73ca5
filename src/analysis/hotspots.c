/*
 * hotspots.c: a first pass gives each kernel its group and counts; a second puts the durations side
 * by side, group after group, where the quantiles are selected in place. The commonest
 * configuration comes from counts by configuration.
 */
#include "analysis/hotspots.h"

#include <errno.h>

#include "analysis/report.h"
#include "base/vec.h"

#define NO_GROUP UINT32_MAX

struct grouping {
	const struct report *report;
	const struct selection *selection;
	const struct calls *calls;

	uint64_t rows, config_rows;
	const uint64_t *starts, *ends;
	const uint8_t *starts_valid, *ends_valid;
	const uint32_t *configs, *devices, *streams, *names;

	struct map index; /* process << 32 | key -> group */
	VEC(struct hotspot) groups;
	uint32_t *group_of_row; /* NO_GROUP: not wanted */
	uint64_t *config_counts;
	uint32_t *group_of_config; /* a cache, and for the commonest configuration */
};

static int load(struct trace *t, struct error *e)
{
	int r = trace_load(t, TABLE_kernel_config, 0, e);

	if (r < 0)
		return r;
	return trace_load(t, TABLE_kernel,
			  COLUMN_BIT(kernel, start_ns) | COLUMN_BIT(kernel, end_ns) |
				  COLUMN_BIT(kernel, config) | COLUMN_BIT(kernel, device) |
				  COLUMN_BIT(kernel, stream),
			  e);
}

static int grouping_init(struct grouping *g)
{
	const struct trace *t = g->selection->trace;

	g->rows = trace_rows(t, TABLE_kernel);
	g->config_rows = trace_rows(t, TABLE_kernel_config);
	g->starts = trace_u64(t, TABLE_kernel, COLUMN_kernel_start_ns);
	g->ends = trace_u64(t, TABLE_kernel, COLUMN_kernel_end_ns);
	g->starts_valid = trace_valid(t, TABLE_kernel, COLUMN_kernel_start_ns);
	g->ends_valid = trace_valid(t, TABLE_kernel, COLUMN_kernel_end_ns);
	g->configs = trace_u32(t, TABLE_kernel, COLUMN_kernel_config);
	g->devices = trace_u32(t, TABLE_kernel, COLUMN_kernel_device);
	g->streams = trace_u32(t, TABLE_kernel, COLUMN_kernel_stream);
	g->names = trace_u32(t, TABLE_kernel_config, COLUMN_kernel_config_name);
	g->group_of_row = malloc((g->rows + 1) * sizeof(*g->group_of_row));
	g->config_counts = calloc(g->config_rows + 1, sizeof(*g->config_counts));
	g->group_of_config = malloc((g->config_rows + 1) * sizeof(*g->group_of_config));
	if (!g->group_of_row || !g->config_counts || !g->group_of_config)
		return -ENOMEM;
	for (uint64_t i = 0; i <= g->config_rows; i++)
		g->group_of_config[i] = NO_GROUP;
	return 0;
}

static void grouping_release(struct grouping *g)
{
	map_release(&g->index);
	vec_release(&g->groups);
	free(g->group_of_row);
	free(g->config_counts);
	free(g->group_of_config);
}

/* The line that launched (or captured) a kernel; CALLER_NONE is HOTSPOT_NO_KEY. */
static uint32_t caller_of(const struct grouping *g, uint64_t row)
{
	const struct callers *c = &g->report->callers;
	uint32_t call = calls_launch(g->calls, 0, row);

	if (c->of_kernel && c->of_kernel[row] != CALLER_NONE)
		return c->of_kernel[row];
	return call == TRACE_NO_ROW ? CALLER_NONE : c->of_call[call];
}

/* What a kernel is grouped by; *process is set where the key is only unique within one. */
static uint32_t key_of(const struct grouping *g, uint64_t row, size_t p, uint32_t *process)
{
	uint32_t call = calls_launch(g->calls, 0, row), config = g->configs[row], range;

	*process = 0;
	switch (g->report->options.by) {
	case HOTSPOT_KERNEL:
		return config < g->config_rows ? g->names[config] : HOTSPOT_NO_KEY;
	case HOTSPOT_CONFIG:
		return config;
	case HOTSPOT_STREAM:
		*process = (uint32_t)p;
		return g->streams[row];
	case HOTSPOT_DEVICE:
		return (uint32_t)gpus_find(&g->report->gpus, p, g->devices[row]);
	case HOTSPOT_THREAD:
		*process = (uint32_t)p;
		return call == TRACE_NO_ROW ? HOTSPOT_NO_KEY : g->calls->threads[call];
	case HOTSPOT_NVTX:
		range = call == TRACE_NO_ROW ? NVTX_NO_RANGE : g->report->ranges.of_call[call];
		return range == NVTX_NO_RANGE ? HOTSPOT_NO_KEY
					      : g->report->ranges.items[range].message;
	case HOTSPOT_CALLER:
		return caller_of(g, row);
	case HOTSPOT_KINDS:
		break;
	}
	return HOTSPOT_NO_KEY;
}

static int find_group(struct grouping *g, uint64_t row, size_t p, uint32_t *group)
{
	uint32_t process, key = key_of(g, row, p, &process);
	uint64_t *index = map_at(&g->index, (uint64_t)process << 32 | key, g->groups.count);
	struct hotspot new = { .key = key, .process = process, .config = TRACE_NO_ROW };

	if (!index)
		return -ENOMEM;
	if (*index == g->groups.count) {
		new.device = (uint32_t)gpus_find(&g->report->gpus, p, g->devices[row]);
		if (vec_push(&g->groups, new) < 0)
			return -ENOMEM;
	}
	*group = (uint32_t)*index;
	return 0;
}

static bool has_times(const struct grouping *g, uint64_t row)
{
	return (!g->starts_valid || g->starts_valid[row]) &&
	       (!g->ends_valid || g->ends_valid[row]) && g->ends[row] >= g->starts[row];
}

static bool is_wanted(const struct grouping *g, uint64_t row)
{
	const struct selection *s = g->selection;

	return selection_has_time(s, has_times(g, row), g->starts[row]) &&
	       selection_has_place(s, g->devices[row], g->streams[row]) &&
	       selection_has_config(s, g->configs[row]) &&
	       selection_has_call(s, calls_launch(g->calls, 0, row));
}

/* First pass over the rows of one process. */
static int assign(struct grouping *g, size_t p)
{
	uint64_t row = trace_first_row(g->selection->trace, TABLE_kernel, p);
	uint64_t end = trace_first_row(g->selection->trace, TABLE_kernel, p + 1);
	bool by_config =
		g->report->options.by == HOTSPOT_KERNEL || g->report->options.by == HOTSPOT_CONFIG;

	for (; row < end; row++) {
		uint32_t config = MIN(g->configs[row], g->config_rows), group = NO_GROUP;

		if (g->selection->processes[p] && is_wanted(g, row)) {
			if (by_config)
				group = g->group_of_config[config];
			if (group == NO_GROUP && find_group(g, row, p, &group) < 0)
				return -ENOMEM;
			if (by_config)
				g->group_of_config[config] = group;
			g->config_counts[config]++;
			if (has_times(g, row))
				g->groups.data[group].time.count++;
			else
				g->groups.data[group].untimed++;
		}
		g->group_of_row[row] = group;
	}
	return 0;
}

/* Second pass: durations by group, statistics, totals. */
static int measure(struct grouping *g)
{
	_cleanup_free_ uint64_t *next = malloc((g->groups.count + 1) * sizeof(*next));
	_cleanup_free_ uint64_t *durations = NULL;
	uint64_t total = 0;

	if (!next)
		return -ENOMEM;
	for (size_t i = 0; i < g->groups.count; i++) {
		next[i] = total;
		total += g->groups.data[i].time.count;
	}
	durations = malloc((total + 1) * sizeof(*durations));
	if (!durations)
		return -ENOMEM;
	for (uint64_t row = 0; row < g->rows; row++)
		if (g->group_of_row[row] != NO_GROUP && has_times(g, row))
			durations[next[g->group_of_row[row]]++] = g->ends[row] - g->starts[row];
	for (size_t i = 0; i < g->groups.count; i++) {
		struct duration_stats *time = &g->groups.data[i].time;

		*time = stats_of(durations + next[i] - time->count, time->count);
	}
	return 0;
}

static void find_commonest(struct grouping *g)
{
	for (uint64_t config = 0; config < g->config_rows; config++) {
		struct hotspot *h;

		if (g->group_of_config[config] == NO_GROUP)
			continue;
		h = &g->groups.data[g->group_of_config[config]];
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

/* Adds up by group and line what the wanted groups have; wanted: one byte a group. */
static int find_callers(struct grouping *g, const uint8_t *wanted)
{
	VEC(struct group_caller) found = VEC_INIT;
	struct map index = MAP_INIT; /* group << 32 | caller -> item of found */
	int r = 0;

	for (uint64_t row = 0; row < g->rows && r >= 0; row++) {
		struct group_caller new = { .group = g->group_of_row[row] };
		uint64_t *item;

		if (new.group == NO_GROUP || !wanted[new.group])
			continue;
		new.share.caller = caller_of(g, row);
		item = map_at(&index, (uint64_t) new.group << 32 | new.share.caller, found.count);
		if (!item || (*item == found.count && vec_push(&found, new) < 0)) {
			r = -ENOMEM;
			break;
		}
		found.data[*item].share.count++;
		if (has_times(g, row))
			found.data[*item].share.total_ns += g->ends[row] - g->starts[row];
	}
	for (size_t i = 0; i < found.count; i++)
		keep_caller(&g->groups.data[found.data[i].group], &found.data[i].share);
	map_release(&index);
	vec_release(&found);
	return r;
}

/* The groups with most time get their callers. */
static int add_callers(struct grouping *g)
{
	size_t count = g->groups.count, top = (size_t)MIN(g->report->options.callers_of, count);
	_cleanup_free_ uint64_t *times = malloc((count + 1) * sizeof(*times));
	_cleanup_free_ uint8_t *wanted = malloc(count + 1);
	uint64_t least = 0;

	if (!times || !wanted)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		times[i] = g->groups.data[i].time.total_ns;
	if (top < count)
		least = stats_select(times, count, count - top);
	for (size_t i = 0; i < count; i++)
		wanted[i] = g->groups.data[i].time.total_ns >= least;
	return find_callers(g, wanted);
}

static int compare(const void *a, const void *b)
{
	const struct hotspot *x = a, *y = b;

	if (x->time.total_ns != y->time.total_ns)
		return x->time.total_ns < y->time.total_ns ? 1 : -1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	return x->key < y->key ? -1 : x->key > y->key;
}

static int run(struct report *r, void *result)
{
	struct hotspots *out = result;
	struct grouping g = { r, &r->selection, &r->calls, .index = MAP_INIT };
	int code = grouping_init(&g);

	out->by = r->options.by;
	for (size_t p = 0; code >= 0 && p < trace_process_count(r->trace); p++)
		code = assign(&g, p);
	if (code >= 0)
		code = measure(&g);
	if (code >= 0 && r->options.callers_of && r->callers.any)
		code = add_callers(&g);
	if (code >= 0) {
		find_commonest(&g);
		if (g.groups.count)
			qsort(g.groups.data, g.groups.count, sizeof(*g.groups.data), compare);
		out->items = g.groups.data;
		out->count = g.groups.count;
		g.groups.data = NULL;
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
	.load = load,
	.run = run,
	OWNS(struct hotspots, items),
};
