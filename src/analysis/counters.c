#include "analysis/counters.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "analysis/groups.h"
#include "analysis/gpus.h"
#include "analysis/report.h"
#include "trace/metric_values.h"

struct adding {
	struct report *report;
	struct counters *out;
	struct metric_values values;
	struct event_columns events;
	GROUPS(struct counted_kernel) kernels; /* key: kind << 32 | string id of the name */
	/* key: number of the kernel << 32 | string id of the metric */
	GROUPS(struct counter_of_kernel) counters;
};

#define TIME "gpu__time_duration.sum"
#define ELAPSED ".avg.pct_of_peak_sustained_elapsed"
#define ACTIVE ".avg.pct_of_peak_sustained_active"

static const char *const shares[SHARE_THEORETICAL] = {
	[SHARE_SM] = "sm__throughput" ELAPSED,
	[SHARE_MEMORY] = "gpu__compute_memory_throughput" ELAPSED,
	[SHARE_DRAM] = "gpu__dram_throughput" ELAPSED,
	[SHARE_L2] = "lts__throughput" ELAPSED,
	[SHARE_L1] = "l1tex__throughput" ACTIVE,
	[SHARE_OCCUPANCY] = "sm__warps_active" ACTIVE,
};

/* Whether a metric of this name is a rate or a share. */
static bool counter_is_rate(const char *metric)
{
	static const char *const words[] = { ".per_", ".pct", ".ratio", ".max_rate" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(metric, words[i]))
			return true;
	return false;
}

const char *counted_kind_name(unsigned kind)
{
	static const char *const names[COUNTED_KINDS] = { "kernel", "NVTX range", "scope",
							  "graph" };

	return names[kind];
}

const char *counter_group_name(unsigned group)
{
	static const char *const names[] = {
		[COUNTER_SPEED_OF_LIGHT] = "speed of light",
		[COUNTER_COMPUTE] = "compute",
		[COUNTER_MEMORY] = "memory",
		[COUNTER_OCCUPANCY] = "occupancy",
		[COUNTER_OTHER] = "other",
	};

	return names[group];
}

/* Group of a metric, by the chip's unit and the quantity in its name. */
static enum counter_group group_of(const char *metric)
{
	static const struct {
		const char *part;
		enum counter_group group;
	} words[] = {
		{ "gpu__time", COUNTER_SPEED_OF_LIGHT },
		{ "throughput", COUNTER_SPEED_OF_LIGHT },
		{ "cycles_elapsed", COUNTER_SPEED_OF_LIGHT },
		{ "warps", COUNTER_OCCUPANCY },
		{ "dram__", COUNTER_MEMORY },
		{ "lts__", COUNTER_MEMORY },
		{ "l1tex__", COUNTER_MEMORY },
		{ "sm__", COUNTER_COMPUTE },
		{ "smsp__", COUNTER_COMPUTE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(metric, words[i].part))
			return words[i].group;
	return COUNTER_OTHER;
}

static int add_value(struct adding *a, const struct counted_kernel *kernel, uint32_t metric,
		     double value, double ns)
{
	const struct trace *t = a->report->trace;
	const struct metric_columns *m = metric_columns(t);
	const char *name = trace_string(t, m->name[metric]);
	struct counter_of_kernel *c = groups_at(
		&a->counters, (uint64_t)kernel->number << 32 | m->name[metric],
		.kernel = kernel->name, .number = kernel->number, .metric = m->name[metric],
		.unit = m->unit[metric], .order = m->id[metric], .is_rate = counter_is_rate(name),
		.group = group_of(name), .min = value, .max = value);
	double weight;

	if (!c)
		return -ENOMEM;
	weight = c->is_rate ? MAX(ns, 1) : 1;
	c->count++;
	c->sum += value * weight;
	c->weight += weight;
	c->min = value < c->min ? value : c->min;
	c->max = value > c->max ? value : c->max;
	return 0;
}

/* A kernel without times is in the window if its call is. */
static bool is_selected(const struct adding *a, uint64_t row, uint32_t config)
{
	const struct calls *calls = &a->report->calls;
	const struct selection *s = &a->report->selection;
	uint32_t call = calls_launch(calls, GPU_WORK_kernel, row), at = calls_timed(calls, call);
	bool timed = event_is_timed(&a->events, row), known = timed || at != TRACE_NO_ROW;
	uint64_t start_ns = timed ? a->events.start_ns[row] : known ? calls->start_ns[at] : 0;

	return config != TRACE_NO_ROW && selection_has_config(s, config) &&
	       selection_has_time(s, known, start_ns) && selection_has_call(s, call) &&
	       selection_has_place(s, a->events.device[row], a->events.stream[row]);
}

static const char *metric_name(const struct trace *t, uint32_t metric)
{
	return trace_string(t, metric_columns(t)->name[metric]);
}

/* Duration of a launch, from its metric values or else from its record; 0: unknown. */
static double measured_ns(const struct adding *a, uint64_t row, uint64_t first, uint64_t end)
{
	const struct trace *t = a->report->trace;
	uint32_t metric;
	double value;

	for (; first < end; first++)
		if (metric_values_read(t, TABLE_metric_value, first, &metric, &value) &&
		    value > 0 && value < 1e18 && !strcmp(metric_name(t, metric), TIME))
			return value;
	value = (double)(a->events.end_ns[row] - a->events.start_ns[row]);
	return event_is_timed(&a->events, row) ? value : 0;
}

static int add_launch(struct adding *a, const struct row_walk *w)
{
	const struct trace *t = a->report->trace;
	const struct kernel_columns *k = kernel_columns(t);
	const struct gpus *gpus = &a->report->gpus;
	uint32_t config = k->config[w->row], metric, device, name;
	struct counted_kernel *kernel;
	uint64_t first;
	unsigned rows;
	double value, ns;

	if (!is_selected(a, w->row, config))
		return 0;
	rows = metric_values_take(&a->values, w->process, k->correlation[w->row], &first);
	if (!rows)
		return 0;
	name = kernel_config_columns(t)->name[config];
	device = gpus->items[gpus_find(gpus, w->process, k->device[w->row])].row;
	kernel = groups_at(&a->kernels, name, .name = name, .config = config, .device = device,
			   .number = (uint32_t)a->kernels.items.count);
	if (!kernel)
		return -ENOMEM;
	ns = measured_ns(a, w->row, first, first + rows);
	kernel->total_ns += ns;
	kernel->timed += ns > 0;
	kernel->launches++;
	a->out->launches++;
	for (uint64_t row = first; row < first + rows; row++)
		if (metric_values_read(t, TABLE_metric_value, row, &metric, &value) &&
		    add_value(a, kernel, metric, value, ns) < 0)
			return -ENOMEM;
	return 0;
}

/* Duration of a measured range on the GPU; 0: unknown. */
static double range_ns(const struct trace *t, uint64_t row, uint64_t end)
{
	uint32_t metric;
	double value;

	for (; row < end; row++)
		if (metric_values_read(t, TABLE_range_value, row, &metric, &value) && value > 0 &&
		    !strcmp(metric_name(t, metric), TIME))
			return value;
	return 0;
}

static int add_range(struct adding *a, uint64_t row, uint64_t end, double ns)
{
	const struct range_value_columns *c = range_value_columns(a->report->trace);
	unsigned kind = MIN(COUNTED_NVTX + c->kind[row], COUNTED_KINDS - 1);
	struct counted_kernel *range =
		groups_at(&a->kernels, (uint64_t)kind << 32 | c->name[row], .kind = (uint8_t)kind,
			  .name = c->name[row], .config = TRACE_NO_ROW, .device = TRACE_NO_ROW,
			  .number = (uint32_t)a->kernels.items.count);
	int err = range ? 0 : -ENOMEM;
	uint32_t metric;
	double value;

	if (range) {
		range->total_ns += ns;
		range->timed += ns > 0;
		range->launches++;
		range->passes += c->passes[row];
		a->out->measurements++;
	}
	for (; row < end && err == 0; row++)
		if (metric_values_read(a->report->trace, TABLE_range_value, row, &metric, &value))
			err = add_value(a, range, metric, value, ns);
	return err;
}

static int add_ranges(struct adding *a)
{
	const struct range_value_columns *c = range_value_columns(a->report->trace);
	const struct selection *s = &a->report->selection;
	struct row_walk w = selection_rows(s, TABLE_range_value);
	bool all = !s->configs && !s->scopes && s->filter.stream < 0;
	int err = 0;

	while (all && err == 0 && row_walk_next(&w)) {
		const struct trace *t = a->report->trace;
		uint64_t first = w.row, end = range_values_end(t, first, w.end);

		if (selection_has_time(s, true, c->start_ns[first]) &&
		    (s->filter.device < 0 ||
		     (column_has(c->valid.device, first) && s->filter.device == c->device[first])))
			err = add_range(a, first, end, range_ns(t, first, end));
		w.row = end - 1;
	}
	return err;
}

ORDER(by_time, struct counted_kernel,
      UP(kind == COUNTED_KERNEL ? 0 : 1) ?: DOWN(total_ns) ?: UP(number))
ORDER(by_kernel, struct counter_of_kernel, UP(number) ?: UP(group) ?: UP(order) ?: UP(metric))

static void add_share(struct counted_kernel *kernel, const char *metric, double value)
{
	for (size_t i = 0; i < ARRAY_SIZE(shares); i++)
		if (!strcmp(metric, shares[i]))
			kernel->percent[i] = value;
}

static void init_shares(struct counted_kernel *kernel, const struct trace *t)
{
	struct occupancy *o = &kernel->occupancy;

	for (size_t i = 0; i < COUNTER_SHARES; i++)
		kernel->percent[i] = NAN;
	if (occupancy_of_rows(t, kernel->device, kernel->config, o) < 0 || !o->blocks)
		*o = (struct occupancy){ 0 };
	else
		kernel->percent[SHARE_THEORETICAL] = 100.0 * o->warps / o->max_warps;
}

/* Sorts the kernels and renumbers them. An error leaves the groups unchanged. */
static int finish(struct adding *a)
{
	size_t count = a->kernels.items.count;
	uint32_t *places = malloc((count + 1) * sizeof(*places));
	struct counters *out = a->out;

	if (!places)
		return -ENOMEM;
	groups_take(&a->kernels, by_time, &out->kernels, &out->kernel_count);
	for (size_t i = 0; i < count; i++) {
		struct counted_kernel *k = &out->kernels[i];

		places[k->number] = (uint32_t)i;
		k->number = (uint32_t)i;
		out->range_count += k->kind != COUNTED_KERNEL;
		init_shares(k, a->report->trace);
	}
	for (size_t i = 0; i < a->counters.items.count; i++) {
		struct counter_of_kernel *c = &a->counters.items.data[i];

		c->number = places[c->number];
		c->mean = c->sum / c->weight;
	}
	free(places);
	groups_take(&a->counters, by_kernel, &out->items, &out->count);
	for (size_t i = 0; i < out->count; i++) {
		struct counter_of_kernel *c = &out->items[i];
		struct counted_kernel *k = &out->kernels[c->number];

		k->first = k->end ? k->first : i;
		k->end = i + 1;
		c->is_first = i == k->first || c[-1].group != c->group;
		add_share(k, trace_string(a->report->trace, c->metric), c->mean);
	}
	return 0;
}

static int run(struct report *r, void *result)
{
	struct adding a = { .report = r, .out = result };
	struct row_walk w = selection_rows(&r->selection, TABLE_kernel);
	int err = metric_values_init(&a.values, r->trace);

	a.out->rows = trace_rows(r->trace, TABLE_metric_value);
	a.events = events_of(r->trace, TABLE_kernel);
	while (err == 0 && a.out->rows && row_walk_next(&w))
		err = add_launch(&a, &w);
	if (err == 0 && trace_rows(r->trace, TABLE_range_value))
		err = add_ranges(&a);
	a.out->rows += trace_rows(r->trace, TABLE_range_value);
	if (err == 0)
		err = finish(&a);
	if (err < 0) {
		groups_release(&a.counters);
		groups_release(&a.kernels);
	} else {
		err = roofline_make(r->trace, a.out->kernels,
				    a.out->kernel_count - a.out->range_count, a.out->items,
				    &a.out->roofline);
	}
	metric_values_release(&a.values);
	return err;
}

const struct analysis analysis_counters = {
	.size = sizeof(struct counters),
	.needs = { { TABLE_kernel_config, 0 }, { TABLE_kernel, COLUMN_BITS(kernel, config) } },
	.load = metric_values_load,
	.run = run,
	.owned = { OWNS(struct counters, items), OWNS(struct counters, kernels),
		   OWNS(struct counters, roofline.items) },
};
