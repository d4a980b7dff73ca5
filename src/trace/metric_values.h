/* metric_values.h: the hardware counters of launches, by process and correlation id. */
#ifndef PITOT_TRACE_METRIC_VALUES_H
#define PITOT_TRACE_METRIC_VALUES_H

#include "base/map.h"
#include "trace/trace.h"

struct metric_values {
	struct map launches; /* process << 48 | correlation -> first row << 16 | number of rows */
};

/*
 * Loads the tables metric, metric_value and range_value, and column correlation of kernel, if
 * anything was measured. 0 or a negative code.
 */
int metric_values_load(struct trace *t, struct error *e) MUST_USE;
/* Of loaded tables. 0 or -ENOMEM. */
int metric_values_init(struct metric_values *m, const struct trace *t) MUST_USE;
void metric_values_release(struct metric_values *m);

/*
 * How many rows of metric_value a launch has, from *first on. It has them once: the same question
 * again gets 0.
 */
unsigned metric_values_take(struct metric_values *m, size_t process, uint64_t correlation,
			    uint64_t *first);

/*
 * Of a row of metric_value: what was measured, a row of metric, and the value. false: no such
 * metric, or no number.
 */
bool metric_values_read(const struct trace *t, uint64_t row, uint32_t *metric, double *value);

#endif
