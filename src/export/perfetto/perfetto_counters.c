/*
 * perfetto_counters.c: counter samples (perfetto_counter.h), and hardware metrics of kernels: 0 at
 * the start of a kernel, the value at its end.
 */
#include "export/perfetto/perfetto_writer.h"
#include "perfetto/perfetto_counter.h"
#include "trace/columns.h"
#include "trace/counter_value.h"

#include <errno.h>

/* A counter of a process. */
struct host_counter {
	uint64_t uuid;
	bool described; /* in the current file */
};

struct perfetto_counters {
	struct map ids; /* string id of a counter name -> number, from 1 */
	VEC(uint32_t) rows; /* per number - 1: a row of table counter with that name */
	struct perfetto_readings readings;
	VEC(struct host_counter) host; /* per row of table counter */
	struct perfetto_metrics metrics;
};

/* Writes the specification of a counter or metric; `columns`: its name, description and unit. */
static void specify_row(const struct perfetto *p, struct strbuf *s, enum table_id table,
			const int columns[3], uint64_t row, uint32_t number)
{
	size_t length;
	struct perfetto_counter c = {
		.number = number,
		.name = export_text(&p->view, table, columns[0], row, &length),
		.description = export_text(&p->view, table, columns[1], row, &length),
		.unit = export_text(&p->view, table, columns[2], row, &length),
	};

	perfetto_counter_specify(
		s, &c, table == TABLE_metric ? PERFETTO_GROUP_COMPUTE : PERFETTO_GROUP_SYSTEM);
}

static void specify(void *user, struct strbuf *s)
{
	static const int columns[] = { COLUMN_counter_name, COLUMN_counter_description,
				       COLUMN_counter_unit };
	const struct perfetto *p = user;
	const struct perfetto_counters *c = p->counters;

	for (uint32_t id = 1; id <= c->rows.count; id++)
		specify_row(p, s, TABLE_counter, columns, c->rows.data[id - 1], id);
}

/* --- hardware metrics of kernels --- */

static void specify_metrics(void *user, struct strbuf *s)
{
	static const int columns[] = { COLUMN_metric_name, COLUMN_metric_description,
				       COLUMN_metric_unit };
	const struct perfetto *p = user;

	for (uint32_t row = 0; row < trace_rows(p->view.trace, TABLE_metric); row++)
		specify_row(p, s, TABLE_metric, columns, row, row + 1);
}

int perfetto_kernel_counters(struct perfetto *p, const struct export_event *event, size_t gpu,
			     uint64_t first, unsigned rows)
{
	struct perfetto_counters *c = p->counters;
	const uint64_t times_ns[] = { event->start_ns, event->end_ns };
	_cleanup_free_ struct perfetto_metric *metrics = calloc(rows, sizeof(*metrics));
	size_t count = 0;
	uint32_t metric;

	if (!metrics)
		return -ENOMEM;
	for (uint64_t row = first; row < first + rows; row++)
		if (metric_values_read(p->view.trace, TABLE_metric_value, row, &metric,
				       &metrics[count].value))
			metrics[count++].number = metric + 1;
	return perfetto_metrics_add(&c->metrics, &c->readings.sequence, &p->out, (uint32_t)gpu,
				    times_ns, metrics, count);
}

/* --- one file --- */

int perfetto_counters_init(struct perfetto *p)
{
	const struct trace *t = p->view.trace;
	uint64_t rows = trace_rows(t, TABLE_counter);
	const uint32_t *names = counter_columns(t)->name;
	struct perfetto_counters *c = calloc(1, sizeof(*c));

	p->counters = c;
	if (!c)
		return -ENOMEM;
	c->readings.specify = specify;
	c->metrics.specify = specify_metrics;
	c->readings.user = c->metrics.user = p;
	for (uint64_t row = 0; row < rows; row++) {
		struct host_counter host = { .uuid = hash_u64(p->tracks.uuid_seed + row) >> 1 | 1 };
		uint64_t *id = map_at(&c->ids, names[row], 0);

		if (!id || vec_push(&c->host, host) < 0)
			return -ENOMEM;
		if (*id)
			continue;
		if (vec_push(&c->rows, (uint32_t)row) < 0)
			return -ENOMEM;
		*id = c->rows.count;
	}
	return 0;
}

void perfetto_counters_release(struct perfetto *p)
{
	struct perfetto_counters *c = p->counters;

	if (!c)
		return;
	map_release(&c->ids);
	perfetto_readings_release(&c->readings);
	map_release(&c->metrics.gpus);
	vec_release(&c->rows);
	vec_release(&c->host);
	free(c);
	p->counters = NULL;
}

void perfetto_counters_restart(struct perfetto *p)
{
	struct perfetto_counters *c = p->counters;

	perfetto_readings_restart(&c->readings, SEQUENCE_COUNTER);
	map_clear(&c->metrics.gpus);
	for (size_t i = 0; i < c->host.count; i++)
		c->host.data[i].described = false;
}

/* --- samples --- */

static void describe_host_counter(struct perfetto *p, uint32_t row, uint32_t process)
{
	struct host_counter *host = &p->counters->host.data[row];
	struct perfetto_track_descriptor d = {
		.uuid = host->uuid,
		.parent_uuid = p->tracks.process_uuids[process],
		.pid = -1,
		.tid = -1,
	};
	size_t length;

	if (host->described)
		return;
	host->described = true;
	perfetto_describe_process(p, process);
	d.name = export_text(&p->view, TABLE_counter, COLUMN_counter_name, row, &d.name_length);
	d.counter_unit = export_text(&p->view, TABLE_counter, COLUMN_counter_unit, row, &length);
	perfetto_track_descriptor(&p->out, SEQUENCE_GLOBAL, &d);
}

static struct perfetto_value read_value(const struct trace *t, uint64_t row)
{
	struct counter_value v = counter_value(t, row);

	return (struct perfetto_value){ v.is_real || v.decimals, counter_value_double(&v),
					v.integer };
}

int perfetto_counter_sample(void *exporter, const struct export_event *e)
{
	struct perfetto *p = exporter;
	const struct trace *t = p->view.trace;
	const struct counter_sample_columns *c = counter_sample_columns(t);
	struct perfetto_packet head = { e->start_ns, PERFETTO_MONOTONIC, SEQUENCE_GLOBAL, 0 };
	struct perfetto_reading now = { .value = read_value(t, e->row) };
	uint32_t row = c->counter[e->row];
	uint64_t id = 0;
	size_t length;

	if (row == TRACE_NO_ROW)
		return EXPORT_UNCOUNTED;
	if (!column_has(c->valid.device, e->row)) {
		describe_host_counter(p, row, e->process);
		perfetto_counter_event(&p->out, &head, p->counters->host.data[row].uuid,
				       &now.value);
		return 0;
	}
	map_get(&p->counters->ids, counter_columns(t)->name[row], &id);
	now.counter = (uint32_t)id;
	now.gpu = (uint32_t)gpus_find(&p->view.gpus, e->process, c->device[e->row]);
	perfetto_gpu_reading(
		&p->counters->readings, &p->out,
		export_text(&p->view, TABLE_counter, COLUMN_counter_name, row, &length), &now,
		e->start_ns);
	return perfetto_readings_add(&p->counters->readings, &p->out, &now, e->start_ns);
}

int perfetto_counters_finish(struct perfetto *p, uint64_t time_ns)
{
	return perfetto_readings_finish(&p->counters->readings, &p->out, time_ns);
}
