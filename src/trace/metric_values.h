/* metric_values.h: finds the hardware counters of a launch by process and correlation id. */
#ifndef PITOT_TRACE_METRIC_VALUES_H
#define PITOT_TRACE_METRIC_VALUES_H

#include "base/map.h"
#include "trace/trace.h"

struct metric_values {
	struct map launches; /* process << 48 | correlation -> first row << 16 | number of rows */
};

/*
 * Loads the tables metric, metric_value and range_value, and column correlation of kernel, if the
 * recording has any values. 0 or a negative code.
 */
int metric_values_load(struct trace *t, struct error *e) MUST_USE;
/* Builds the index from the loaded tables. 0 or -ENOMEM. */
int metric_values_init(struct metric_values *m, const struct trace *t) MUST_USE;
void metric_values_release(struct metric_values *m);

/*
 * Removes a launch from the index. Returns the number of its rows of metric_value, which start at
 * *first; 0 if it has none or was removed before.
 */
unsigned metric_values_take(struct metric_values *m, size_t process, uint64_t correlation,
			    uint64_t *first);

/* Returns where the rows of range_value of the measurement end that begins at `row`. */
uint64_t range_values_end(const struct trace *t, uint64_t row, uint64_t end);

/*
 * Reads a row of metric_value or range_value: its row of table metric, and the value. false: the
 * metric is not in the recording, or the value is not finite.
 */
bool metric_values_read(const struct trace *t, enum table_id table, uint64_t row, uint32_t *metric,
			double *value);

#endif
