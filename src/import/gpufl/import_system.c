/* import_system.c: counter readings, samples of kernels, and their hardware counters. */
#include <string.h>

#include "format/rows.h"
#include "gpufl/gpufl_log.h"
#include "import/gpufl/import_session.h"
#include "system/metrics.h"

#define CUSTOM_FIRST METRIC_END /* ids of counters that system/metrics.h lacks */
#define CUSTOM_MAX 4096u

/* Declares a counter when it first occurs. Returns 0 if there are too many or memory is short. */
static uint32_t declare_counter(struct import_session *s, uint32_t id, uint64_t name,
				const struct metric *m, bool real)
{
	uint64_t *known =
		name && s->counters.count < CUSTOM_MAX ? map_at(&s->counters, name, 0) : NULL;
	struct row_counter row = { .unit = rows_text(s->writer, m->unit),
				   .decimals = m->decimals,
				   .description = rows_text(s->writer, m->description),
				   .reading = real ? counter_reading_real : counter_reading_integer,
				   .kind = (uint8_t)m->kind };

	if (!known || *known)
		return known ? (uint32_t)*known : 0;
	*known = row.id = id ? id : CUSTOM_FIRST + (uint32_t)s->counters.count;
	row.name = import_string(s, name);
	import_append(s, TABLE_counter, &row);
	return row.id;
}

static void append(struct import_session *s, struct record *r, uint32_t counter, int64_t value)
{
	uint64_t time_ns = record_time(r, "start_ns"), device = 0;
	bool known = record_integer(r, "device_id", UINT32_MAX, &device);
	struct row_counter_sample row = {
		.time_ns = time_ns, .counter = counter, .device = (uint32_t)device, .value = value
	};

	ROW_MISSING_IF(&row, counter_sample, device, !known);
	ROW_MISSING(&row, counter_sample, thread);
	if (counter && import_span(s, time_ns, time_ns))
		import_append(s, TABLE_counter_sample, &row);
	else
		import_add_loss(s, loss_reason_no_time, 1, "readings of counters");
}

static void append_metric(struct import_session *s, struct record *r, enum metric_id id,
			  int64_t value)
{
	const struct metric *m = metric_find(id);

	append(s, r, declare_counter(s, id, import_text(s, m->name), m, false), value);
}

static void append_custom(struct import_session *s, struct record *r, const char *name,
			  const struct metric *m, int64_t value)
{
	append(s, r, declare_counter(s, 0, import_text(s, name), m, false), value);
}

/* The logs have 0 for values that were not read; 0 is accepted only as utilization. */
void import_device_metrics(struct import_session *s, struct record *r)
{
	static const struct {
		const char *key;
		enum metric_id metric;
		unsigned decimals, factor;
	} metrics[] = {
#define METRIC(column, counter, ...) { #column, METRIC_##counter, __VA_ARGS__ },
		GPUFL_DEVICE_METRICS(METRIC)
#undef METRIC
	};
	static const struct metric others[] = {
		{ "fan_speed_pct", METRIC_LEVEL, METRIC_OTHER, "%", 0, "fan speed" },
		{ "voltage_mv", METRIC_LEVEL, METRIC_POWER, "V", 3, "voltage" },
		{ "pcie_bw_bps", METRIC_LEVEL, METRIC_TRAFFIC, "bytes/s", 0, "PCIe traffic" },
	};
	uint64_t value;

	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++) {
		if (!record_integer(r, metrics[i].key, INT64_MAX / metrics[i].factor, &value) ||
		    (!value && i >= 2))
			continue;
		value *= metrics[i].factor;
		for (unsigned d = metric_find(metrics[i].metric)->decimals; d < metrics[i].decimals;
		     d++)
			value /= 10;
		append_metric(s, r, metrics[i].metric, (int64_t)value);
	}
	for (size_t i = 0; i < ARRAY_SIZE(others); i++) {
		value = record_number(r, others[i].name, INT64_MAX);
		if (value)
			append_custom(s, r, others[i].name, &others[i], (int64_t)value);
	}
}

void import_host_metrics(struct import_session *s, struct record *r)
{
	static const struct metric cpu = {
		NULL, METRIC_LEVEL, METRIC_UTILIZATION, "%", 2, "utilization of all processors"
	};
	uint64_t used = record_number(r, "ram_used_mib", UINT32_MAX), busy;
	uint64_t total = record_number(r, "ram_total_mib", UINT32_MAX);

	if (record_integer(r, "cpu_pct_x100", INT64_MAX, &busy))
		append_custom(s, r, "host_cpu_utilization", &cpu, (int64_t)busy);
	if (!total || total < used)
		return;
	append_metric(s, r, METRIC_host_memory_used, (int64_t)(used << 20));
	append_metric(s, r, METRIC_host_memory_available, (int64_t)((total - used) << 20));
}

void import_pm_sample(struct import_session *s, struct record *r)
{
	static const struct metric any = { NULL, METRIC_LEVEL,        METRIC_OTHER, "",
					   0,    "sampled on the GPU" };
	double value;
	int64_t bits;

	if (!record_real(r, "value", &value))
		return;
	memcpy(&bits, &value, sizeof(bits));
	append(s, r,
	       declare_counter(s, 0, import_name(s, NAMES_METRIC, r, "metric_id"), &any, true),
	       bits);
}

/* ---- PC samples and SASS metrics ---- */

/* Adds the function of "kernel@file.cu". */
static uint32_t function_string(struct import_session *s, uint64_t function)
{
	struct interned name = import_text_of(s, function);
	const char *file = strrchr(name.text, '@');

	return writer_string(s->writer, name.text, file ? (size_t)(file - name.text) : name.length);
}

/* A record is a reading: the logs have neither the times of readings nor the period. */
static void append_pc_sample(struct import_session *s, struct record *r, uint64_t function,
			     uint64_t reason)
{
	struct row_pc_reading reading;
	struct row_pc_sample row;
	uint64_t offset, samples;

	if (!import_required(s, r, "pc_offset", UINT64_MAX, &offset) ||
	    !import_required(s, r, "metric_value", UINT64_MAX, &samples))
		return;
	record_fill(r, TABLE_pc_sample, &row);
	import_fill(s, r, TABLE_pc_reading, &reading);
	if (reading.missing)
		return;
	reading.end_ns = reading.start_ns;
	row.reading = reading.id = ++s->next_id;
	reading.total = row.samples;
	row.reason = import_string(s, reason);
	row.function = function_string(s, function);
	import_append(s, TABLE_pc_reading, &reading);
	import_append(s, TABLE_pc_sample, &row);
}

/* Returns the id of a metric, which it declares at the first use. 0: out of memory. */
static uint32_t declare_metric(struct import_session *s, uint64_t name)
{
	uint64_t *known = map_at(&s->metrics, name, 0);
	struct row_metric row = { .unit = import_string(s, import_text(s, "")),
				  .description = import_string(s, import_text(s, "")),
				  .name = import_string(s, name) };

	if (!known || *known)
		return known ? (uint32_t)*known : 0;
	*known = row.id = (uint32_t)s->metrics.count;
	import_append(s, TABLE_metric, &row);
	return row.id;
}

static void append_sass_value(struct import_session *s, struct record *r, uint64_t function,
			      uint64_t metric)
{
	struct row_sass_value row;
	uint64_t offset, value;

	if (!import_required(s, r, "pc_offset", UINT64_MAX, &offset) ||
	    !import_required(s, r, "metric_value", UINT64_MAX, &value))
		return;
	import_fill(s, r, TABLE_sass_value, &row);
	if (row.missing >> COLUMN_sass_value_time_ns & 1)
		return;
	/* gpufl's own logs do not name the launch */
	ROW_MISSING_IF(&row, sass_value, correlation,
		       !record_number(r, "true_corr_id", UINT64_MAX));
	row.function = function_string(s, function);
	row.metric = declare_metric(s, metric);
	row.value = value;
	if (row.metric)
		import_append(s, TABLE_sass_value, &row);
	else
		import_add_loss(s, loss_reason_no_memory, 1, NULL);
}

void import_profile_sample(struct import_session *s, struct record *r)
{
	uint64_t function = import_name(s, NAMES_FUNCTION, r, "function_id");
	uint64_t metric = import_name(s, NAMES_METRIC, r, "metric_id"), kind;

	if (!import_required(s, r, "sample_kind", UINT64_MAX, &kind))
		return;
	if (!function || !metric || kind > 1)
		import_add_loss(s, loss_reason_unknown_record, 1,
				"rows of profile_sample_batch without a name, or of another kind");
	else if (kind)
		append_sass_value(s, r, function, metric);
	else
		append_pc_sample(s, r, function, metric);
}

/* ---- hardware counters of kernels and ranges ---- */

static const struct {
	const char *member, *metric;
} counters[] = {
#define COUNTER(member, metric, share) { #member, metric },
	GPUFL_KERNEL_COUNTERS(COUNTER)
#undef COUNTER
};

/*
 * Sets the metric and the value of a counter. Returns false if it is unknown, for which the logs
 * have -1, or out of memory.
 */
static bool read_counter(struct import_session *s, struct record *r, size_t i, uint32_t *metric,
			 int64_t *bits)
{
	double value;

	if (!record_real(r, counters[i].member, &value) || value < 0)
		return false;
	*metric = declare_metric(s, import_text(s, counters[i].metric));
	memcpy(bits, &value, sizeof(*bits));
	if (!*metric)
		import_add_loss(s, loss_reason_no_memory, 1, NULL);
	return *metric != 0;
}

/* gpufl's own logs do not name the launch. */
void import_kernel_counters(struct import_session *s, struct record *r)
{
	struct row_metric_value row = { .correlation =
						record_number(r, "true_corr_id", UINT64_MAX) };

	if (!row.correlation)
		import_add_loss(s, loss_reason_unknown_record, 1,
				"hardware counters of kernels that do not name the launch");
	for (size_t i = 0; i < ARRAY_SIZE(counters) && row.correlation; i++)
		if (read_counter(s, r, i, &row.metric, &row.value))
			import_append(s, TABLE_metric_value, &row);
}

/* gpufl measures scopes, in one pass, and does not say on which thread. */
void import_range_counters(struct import_session *s, struct record *r)
{
	struct row_range_value row;
	uint64_t is_scope = 1, level = 0;
	bool has_level = record_integer(r, "scope_depth", UINT8_MAX, &level);

	import_fill(s, r, TABLE_range_value, &row);
	if (row.missing >> COLUMN_range_value_start_ns & 1)
		return;
	record_integer(r, "is_scope", 1, &is_scope);
	row.kind = is_scope ? range_kind_scope : range_kind_nvtx;
	row.thread = (uint32_t)record_number(r, "thread_id", UINT32_MAX);
	row.passes = MAX((uint32_t)record_number(r, "passes", UINT32_MAX), 1u);
	row.name = import_string(s, import_text(s, record_text(r, "name")));
	row.level = (uint8_t)level;
	row.missing &= ~(UINT64_C(1) << COLUMN_range_value_value |
			 UINT64_C(1) << COLUMN_range_value_device |
			 UINT64_C(1) << COLUMN_range_value_level);
	ROW_MISSING(&row, range_value, correlation, domain);
	ROW_MISSING_IF(&row, range_value, level, !has_level);
	for (size_t i = 0; i < ARRAY_SIZE(counters); i++)
		if (read_counter(s, r, i, &row.metric, &row.value))
			import_append(s, TABLE_range_value, &row);
}
