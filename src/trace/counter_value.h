/*
 * counter_value.h: decodes the value of a row of table counter_sample, according to `reading` and
 * `decimals` of its counter.
 */
#ifndef PITOT_TRACE_COUNTER_VALUE_H
#define PITOT_TRACE_COUNTER_VALUE_H

#include "base/json.h"
#include "trace/trace.h"

/*
 * Columns of table counter that counter_value needs, beside `counter` and `value` of the samples.
 */
#define COUNTER_VALUE_COLUMNS (COLUMN_BITS(counter, reading) | COLUMN_BITS(counter, decimals))

struct counter_value {
	bool is_real;
	double real;
	int64_t integer; /* in units of 10^-decimals */
	unsigned decimals;
};

/* Value of a row of counter_sample. If its counter is unknown: an integer without decimals. */
struct counter_value counter_value(const struct trace *t, uint64_t row);

/* Value from the bit pattern of a double, as table metric_value stores it. */
struct counter_value counter_value_real(int64_t bits);

/* The value in the counter's unit. */
double counter_value_double(const struct counter_value *v);

/* Writes the value with all its digits: 1.500, 0.30000000000000004. */
void counter_value_json(const struct counter_value *v, struct json *j);

#endif
