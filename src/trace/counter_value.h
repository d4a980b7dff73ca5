/*
 * counter_value.h: what a row of table counter_sample says, which its counter's `reading` and
 * `decimals` decide.
 */
#ifndef PITOT_TRACE_COUNTER_VALUE_H
#define PITOT_TRACE_COUNTER_VALUE_H

#include "base/json.h"
#include "trace/trace.h"

/*
 * What of table counter must be loaded for the functions below, with `counter` and `value` of the
 * samples.
 */
#define COUNTER_VALUE_COLUMNS (COLUMN_BITS(counter, reading) | COLUMN_BITS(counter, decimals))

struct counter_value {
	bool is_real;
	double real;
	int64_t integer; /* in units of 10^-decimals */
	unsigned decimals;
};

/*
 * Of a row of counter_sample. A sample whose counter is not known is an integer without decimals.
 */
struct counter_value counter_value(const struct trace *t, uint64_t row);

/* Of the bits of a double, as metric_value has them. */
struct counter_value counter_value_real(int64_t bits);

/* In the counter's unit. */
double counter_value_double(const struct counter_value *v);

/* Writes it with all its digits: 1.500, 0.30000000000000004. */
void counter_value_json(const struct counter_value *v, struct json *j);

#endif
