#include "trace/counter_value.h"

#include <string.h>

#include "trace/columns.h"

#define DECIMALS_MAX 18u

struct counter_value counter_value(const struct trace *t, uint64_t row)
{
	const struct counter_sample_columns *sample = counter_sample_columns(t);
	const struct counter_columns *counter = counter_columns(t);
	uint32_t c = sample->counter[row];
	struct counter_value v = { .integer = sample->value[row] };

	if (c == TRACE_NO_ROW)
		return v;
	v.decimals = MIN(counter->decimals[c], DECIMALS_MAX);
	v.is_real = column_has(counter->valid.reading, c) &&
		    counter->reading[c] == counter_reading_real;
	memcpy(&v.real, &v.integer, sizeof(v.real));
	return v;
}

struct counter_value counter_value_real(int64_t bits)
{
	struct counter_value v = { .is_real = true, .integer = bits };

	memcpy(&v.real, &bits, sizeof(v.real));
	return v;
}

double counter_value_double(const struct counter_value *v)
{
	double value = v->is_real ? v->real : (double)v->integer;

	for (unsigned i = 0; i < v->decimals && !v->is_real; i++)
		value /= 10;
	return value;
}

void counter_value_json(const struct counter_value *v, struct json *j)
{
	if (v->is_real)
		json_double(j, v->real);
	else
		json_fixed(j, v->integer, v->decimals);
}
