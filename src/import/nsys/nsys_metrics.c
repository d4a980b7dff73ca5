/* nsys_metrics.c: samples of the GPUs' counters, as rows of the first process. */
#include <string.h>

#include "format/rows.h"
#include "import/nsys/nsys.h"

#define GPU_OF_TYPE(type) ((uint32_t)(type)&0xff)

/* Appends the counters and fills a map: type << 16 | metric -> id, from 1. */
static int read_counters(struct database_import *m, struct database_process *p,
			 struct map *counters, struct error *e)
{
	static const char *const columns[] = { "typeId", "metricId", "metricName|name" };
	_cleanup_(map_release) struct map ids = { 0 }; /* of names, which each GPU has */
	struct query q;
	int rc = query_open(&q, &m->db, "TARGET_INFO_GPU_METRICS", columns, 3, NULL, e);

	while (rc >= 0 && (rc = query_next(&q)) > 0) {
		uint64_t key = (uint64_t)query_number(&q, 0, 0) << 16 |
			       ((uint64_t)query_number(&q, 1, 0) & 0xffff);
		size_t length;
		const char *name = query_text(&q, 2, &length);
		struct row_counter row = { .missing = schema_missing(TABLE_counter) };
		uint64_t id = name ? map_number(&ids, hash_bytes(name, length)) : 0;

		if (!id || map_put(counters, key, id) < 0)
			continue;
		row.id = (uint32_t)id;
		row.name = rows_text(p->writer, name);
		row.unit = rows_text(p->writer, strchr(name, '%') ? "%" : "");
		writer_append(p->writer, TABLE_counter, &row);
		m->result->rows[TABLE_counter]++;
	}
	database_query_end(m, &q, "TARGET_INFO_GPU_METRICS");
	return rc;
}

static int append_samples(struct database_import *m, struct database_process *p,
			  const struct map *counters, struct error *e)
{
	static const char *const columns[] = { "timestamp|start", "typeId", "metricId", "value" };
	struct row_counter_sample row = { 0 };
	struct query q;
	int rc = query_open(&q, &m->db, "GPU_METRICS", columns, 4, NULL, e);

	ROW_MISSING(&row, counter_sample, thread);
	while (rc >= 0 && (rc = query_next(&q)) > 0) {
		uint64_t type = (uint64_t)query_number(&q, 1, 0), id;
		int64_t time;

		m->result->records++;
		if (query_value(&q, 0, &time) != QUERY_INTEGER ||
		    query_value(&q, 3, &row.value) != QUERY_INTEGER ||
		    !database_time(m, time, &row.time_ns) ||
		    !map_get(counters, type << 16 | ((uint64_t)query_number(&q, 2, 0) & 0xffff),
			     &id)) {
			database_loss(m, loss_reason_damaged_file, 1, "rows of GPU_METRICS");
			continue;
		}
		row.counter = (uint32_t)id;
		row.device = GPU_OF_TYPE(type);
		p->first_ns = p->first_ns ? MIN(p->first_ns, row.time_ns) : row.time_ns;
		p->last_ns = MAX(p->last_ns, row.time_ns);
		rc = database_append(m, p, TABLE_counter_sample, &row, e);
	}
	database_query_end(m, &q, "GPU_METRICS");
	return rc;
}

int nsys_convert_metrics(struct nsys *n, struct error *e)
{
	struct database_import *m = &n->import;
	_cleanup_(map_release) struct map counters = { 0 };
	struct database_process *p;
	int rc = 0;

	if (!database_has(&m->db, "GPU_METRICS"))
		return 0;
	p = m->processes.count ? m->processes.data[0] : database_process(m, m->default_key, e);
	if (!p)
		return e->code;
	rc = read_counters(m, p, &counters, e);
	if (rc >= 0)
		rc = append_samples(m, p, &counters, e);
	return rc < 0 && !e->code ? error_set(e, rc, "%s", error_code_text(rc)) : rc;
}
