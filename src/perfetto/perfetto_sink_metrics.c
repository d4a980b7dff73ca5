/* perfetto_sink_metrics.c: hardware metrics of kernels, row by row. */
#include <errno.h>

#include "perfetto/perfetto_sink_state.h"

const char *live_metric_name(const struct perfetto_live *p, uint32_t number)
{
	const struct row_metric *m =
		definitions_row(&p->definitions, TABLE_metric, p->metric_ids.data[number - 1]);

	return m ? live_text(p, m->name) : "";
}

void live_specify_metrics(void *user, uint32_t gpu, struct strbuf *s)
{
	const struct perfetto_live *p = user;
	struct row_device device;

	for (uint32_t i = 0; i < p->metric_ids.count; i++) {
		const struct row_metric *m =
			definitions_row(&p->definitions, TABLE_metric, p->metric_ids.data[i]);
		struct perfetto_counter c = { .number = i + 1,
					      .device = live_device(p, gpu, &device) };

		if (!m)
			continue;
		c.name = live_text(p, m->name);
		c.description = live_text(p, m->description);
		c.unit = live_text(p, m->unit);
		perfetto_counter_specify(s, &c, PERFETTO_GROUP_COMPUTE);
	}
}

uint32_t live_metric_number(struct perfetto_live *p, uint32_t id)
{
	uint64_t *number = map_at(&p->metric_numbers, id, 0);

	if (!number || *number)
		return number ? (uint32_t)*number : 0;
	if (vec_push(&p->metric_ids, id) < 0)
		return 0;
	*number = p->metric_ids.count;
	p->metrics.generation++;
	return (uint32_t)*number;
}

void live_metrics_clear(struct perfetto_live *p)
{
	map_clear(&p->value_index);
	p->values.count = p->values_removed = 0;
}

/* Values of value_index: index of the first value plus 1, and in the upper half their count. */
#define FIRST(index) ((uint32_t)(index))
#define COUNT(index) ((index) >> 32)

int live_metric_value(struct perfetto_live *p, const struct row_metric_value *row)
{
	struct perfetto_metric value = { .number = live_metric_number(p, row->metric) };
	uint64_t *index;

	if (row->missing >> COLUMN_metric_value_value & 1)
		return 0;
	memcpy(&value.value, &row->value, sizeof(value.value));
	if (p->values.count == LIVE_VALUES) { /* their kernels never arrived */
		p->lost += LIVE_VALUES - p->values_removed;
		live_metrics_clear(p);
	}
	index = map_at(&p->value_index, row->correlation, 0);
	if (!index || !value.number)
		return -ENOMEM;
	if (*index && FIRST(*index) + COUNT(*index) != p->values.count + 1) {
		p->lost++; /* values of a kernel must be adjacent */
		return 0;
	}
	if (vec_push(&p->values, value) < 0)
		return -ENOMEM;
	*index = *index ? *index + (UINT64_C(1) << 32) : UINT64_C(1) << 32 | p->values.count;
	return 0;
}

const struct perfetto_metric *live_metrics_remove(struct perfetto_live *p, uint64_t correlation,
						  size_t *count)
{
	uint64_t index = 0;

	*count = 0;
	if (!p->values.count || !map_get(&p->value_index, correlation, &index) || !index)
		return NULL;
	*map_at(&p->value_index, correlation, 0) = 0;
	*count = COUNT(index);
	p->values_removed += *count;
	if (p->values_removed == p->values.count)
		live_metrics_clear(p); /* the array remains valid until the next value */
	return p->values.data + FIRST(index) - 1;
}
