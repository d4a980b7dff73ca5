#include "analysis/counters.h"

#include <errno.h>
#include <string.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "trace/metric_values.h"

/* The time in which a kernel was measured. */
struct measured_kernel {
	uint32_t name, number;
	uint64_t total_ns;
};

struct adding {
	struct report *report;
	struct counters *out;
	struct metric_values values;
	GROUPS(struct measured_kernel) kernels; /* string id of the name */
	GROUPS(struct counter_of_kernel)
	counters; /* number of the kernel << 32 | string id of the metric */
};

bool counter_is_rate(const char *metric)
{
	static const char *const words[] = { ".per_", ".pct", ".ratio", ".max_rate" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (strstr(metric, words[i]))
			return true;
	return false;
}

static int add_value(struct adding *a, const struct measured_kernel *kernel, uint32_t metric,
		     double value, uint64_t ns)
{
	const struct trace *t = a->report->trace;
	const struct metric_columns *m = metric_columns(t);
	struct counter_of_kernel *c = groups_at(
		&a->counters, (uint64_t)kernel->number << 32 | m->name[metric],
		.kernel = kernel->name, .number = kernel->number, .metric = m->name[metric],
		.unit = m->unit[metric], .order = m->id[metric],
		.is_rate = counter_is_rate(trace_string(t, m->name[metric])), .min = value,
		.max = value);
	double weight;

	if (!c)
		return -ENOMEM;
	weight = c->is_rate ? (double)ns : 1;
	c->count++;
	c->sum += value * weight;
	c->weight += weight;
	c->min = value < c->min ? value : c->min;
	c->max = value > c->max ? value : c->max;
	return 0;
}

static int add_launch(struct adding *a, const struct work_walk *w)
{
	const struct trace *t = a->report->trace;
	const struct kernel_columns *k = kernel_columns(t);
	uint32_t config = k->config[w->row], metric;
	struct measured_kernel *kernel;
	uint64_t first;
	unsigned rows;
	double value;

	if (config == TRACE_NO_ROW || !selection_has_config(&a->report->selection, config))
		return 0;
	rows = metric_values_take(&a->values, w->process, k->correlation[w->row], &first);
	if (!rows)
		return 0;
	config = kernel_config_columns(t)->name[config];
	kernel = groups_at(&a->kernels, config, .name = config,
			   .number = (uint32_t)a->kernels.items.count);
	if (!kernel)
		return -ENOMEM;
	kernel->total_ns += w->ns;
	a->out->launches++;
	for (uint64_t row = first; row < first + rows; row++)
		if (metric_values_read(t, row, &metric, &value) &&
		    add_value(a, kernel, metric, value, MAX(w->ns, 1)) < 0)
			return -ENOMEM;
	return 0;
}

ORDER(by_time, struct measured_kernel, DOWN(total_ns) ?: UP(number))
ORDER(by_kernel, struct counter_of_kernel, UP(number) ?: UP(order) ?: UP(metric))

/* Numbers kernels anew, in their order. */
static int finish(struct adding *a)
{
	size_t count = a->kernels.items.count;
	uint32_t *places = malloc((count + 1) * sizeof(*places));
	struct counters *out = a->out;

	if (!places)
		return -ENOMEM;
	vec_sort(&a->kernels.items, by_time);
	for (size_t i = 0; i < count; i++)
		places[a->kernels.items.data[i].number] = (uint32_t)i;
	for (size_t i = 0; i < a->counters.items.count; i++) {
		struct counter_of_kernel *c = &a->counters.items.data[i];

		c->number = places[c->number];
		c->mean = c->sum / c->weight;
	}
	free(places);
	groups_take(&a->counters, by_kernel, &out->items, &out->count);
	for (size_t i = 0; i < out->count; i++)
		out->items[i].is_first = !i || out->items[i - 1].number != out->items[i].number;
	return 0;
}

static int run(struct report *r, void *result)
{
	struct adding a = { .report = r, .out = result };
	struct work_walk w = work_walk(&r->calls, &r->selection);
	int err = metric_values_init(&a.values, r->trace);

	a.out->rows = trace_rows(r->trace, TABLE_metric_value);
	w.skipped = ~(1u << GPU_WORK_kernel);
	while (err == 0 && a.out->rows && work_walk_next(&w))
		err = add_launch(&a, &w);
	if (err == 0)
		err = finish(&a);
	if (err < 0)
		groups_release(&a.counters);
	groups_release(&a.kernels);
	metric_values_release(&a.values);
	return err;
}

const struct analysis analysis_counters = {
	.size = sizeof(struct counters),
	.needs = { { TABLE_kernel_config, 0 }, { TABLE_kernel, COLUMN_BITS(kernel, config) } },
	.load = metric_values_load,
	.run = run,
	OWNS(struct counters, items),
};
