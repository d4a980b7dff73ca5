#include "analysis/last_readings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/report.h"

static void add_sample(const struct report *r, struct last_readings *out, uint32_t process,
		       uint64_t row)
{
	const struct counter_sample_columns *c = counter_sample_columns(r->trace);
	const struct counter_columns *counters = counter_columns(r->trace);
	uint32_t counter = c->counter[row], id;
	uint64_t age_ns, limit_ns;
	struct last_reading *last;
	uint64_t gpu;

	if (counter == TRACE_NO_ROW || !column_has(c->valid.device, row) ||
	    c->time_ns[row] > out->seen_ns)
		return;
	id = counters->id[counter];
	if (id < METRIC_GPU_FIRST || id >= METRIC_GPU_END ||
	    !map_get(&r->gpus.index, (uint64_t)process << 32 | c->device[row], &gpu))
		return;
	age_ns = out->seen_ns - c->time_ns[row];
	limit_ns = id == METRIC_gpu_xid ? LAST_XID_AGE_NS : LAST_READING_AGE_NS;
	last = &out->gpus[gpu].at[id];
	if (age_ns <= limit_ns && c->time_ns[row] >= last->time_ns)
		*last = (struct last_reading){ c->time_ns[row], c->value[row] };
}

/* Said by `pitot record`, which read them when the dump was made. */
static const char *refusal_of(const struct trace *t)
{
	const struct capability_columns *c = capability_columns(t);
	const char *why = "";

	for (struct row_walk w = all_rows(t, TABLE_capability); row_walk_next(&w);) {
		if (c->name[w.row] != feature_nvml || trace_process(t, w.process)->inside)
			continue;
		why = c->state[w.row] == capability_state_unavailable &&
				      column_has(c->valid.reason, w.row)
			      ? trace_string(t, c->reason[w.row])
			      : "";
	}
	return why;
}

static int run(struct report *r, void *result)
{
	const struct unfinished_columns *u = unfinished_columns(r->trace);
	struct last_readings *out = result;

	out->refusal = "";
	for (struct row_walk w = all_rows(r->trace, TABLE_unfinished); row_walk_next(&w);)
		out->seen_ns = MAX(out->seen_ns, u->time_ns[w.row]);
	if (!out->seen_ns || !r->gpus.count)
		return 0;
	out->gpus = calloc(r->gpus.count, sizeof(*out->gpus));
	if (!out->gpus)
		return -ENOMEM;
	for (struct row_walk w = all_rows(r->trace, TABLE_counter_sample); row_walk_next(&w);)
		add_sample(r, out, w.process, w.row);
	out->refusal = refusal_of(r->trace);
	return 0;
}

const struct analysis analysis_last_readings = {
	.size = sizeof(struct last_readings),
	.needs = { { TABLE_unfinished, COLUMN_BIT(unfinished, time_ns) },
		   { TABLE_counter_sample, 0 },
		   { TABLE_counter, COLUMN_BIT(counter, id) } },
	.run = run,
	.owned = { OWNS(struct last_readings, gpus) },
};
