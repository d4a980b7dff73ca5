/* import_system.c: readings of counters, and samples of kernels. */
#include <string.h>

#include "format/rows.h"
#include "import/gpufl/import_session.h"
#include "system/metrics.h"

#define OWN_FIRST 1024u /* ids of counters that are not of system/metrics.h */
#define OWN_MAX 4096u

/* Id of a counter by its name. 0: there are too many. */
static uint32_t own_counter(struct import_session *s, uint64_t name, const char *unit,
			    uint32_t decimals, enum counter_reading reading)
{
	uint64_t *id = name ? map_at(&s->counters, name, 0) : NULL;
	struct row_counter row;

	if (!id || *id || s->counters.count > OWN_MAX)
		return id ? (uint32_t)*id : 0;
	*id = OWN_FIRST + s->counters.count;
	row = (struct row_counter){ .id = (uint32_t)*id,
				    .name = import_string(s, name),
				    .unit = rows_text(s->writer, unit),
				    .decimals = decimals,
				    .description = rows_text(s->writer, "of gpufl's logs"),
				    .reading = (uint8_t)reading };
	ROW_MISSING(&row, counter, kind);
	import_append(s, TABLE_counter, &row);
	return row.id;
}

static uint32_t metric_counter(struct import_session *s, enum metric_id metric)
{
	const struct metric *m = metric_find(metric);
	uint64_t *known = map_at(&s->counters, import_text(s, m->name), 0);
	struct row_counter row;

	if (!known || *known)
		return known ? (uint32_t)*known : 0;
	*known = metric;
	row = (struct row_counter){ .id = metric,
				    .name = rows_text(s->writer, m->name),
				    .unit = rows_text(s->writer, m->unit),
				    .decimals = m->decimals,
				    .description = rows_text(s->writer, m->description),
				    .kind = (uint8_t)m->kind };
	ROW_MISSING(&row, counter, reading);
	import_append(s, TABLE_counter, &row);
	return metric;
}

static void append(struct import_session *s, uint32_t counter, uint64_t time_ns,
		   const struct cell *device, int64_t value)
{
	struct row_counter_sample row = { .time_ns = time_ns,
					  .counter = counter,
					  .device = device ? cell_u32(*device) : 0,
					  .value = value };

	ROW_MISSING_IF(&row, counter_sample, device, !device);
	if (counter && import_span(s, time_ns, time_ns))
		import_append(s, TABLE_counter_sample, &row);
	else
		import_lose(s, loss_reason_no_time, 1, "readings of counters");
}

/* The format has 0 for what was not read: it counts where `zero` says that a reading can be 0. */
#define DEVICE_METRICS(M)                                                                          \
	M(gpu_util, gpu_utilization, 1, 1, true)                                                   \
	M(mem_util, gpu_memory_utilization, 1, 1, true)                                            \
	M(temp_c, gpu_temperature, 1, 1, false)                                                    \
	M(power_mw, gpu_power, 1, 1, false)                                                        \
	M(used_mib, gpu_memory_used, 1 << 20, 1, false)                                            \
	M(clock_sm, gpu_sm_clock, 1, 1, false)                                                     \
	M(temp_mem_c, gpu_memory_temperature, 1, 1, false)                                         \
	M(energy_uj, gpu_energy, 1, 1000, false)                                                   \
	M(clock_mem, gpu_memory_clock, 1, 1, false)                                                \
	M(ecc_corrected, gpu_ecc_corrected, 1, 1, false)                                           \
	M(ecc_uncorrected, gpu_ecc_uncorrected, 1, 1, false)

#define COLUMN_OF(name, ...) #name,
static const char *const device_names[] = {
	"dt_ns",      "device_id",   DEVICE_METRICS(COLUMN_OF) "fan_speed_pct",
	"voltage_mv", "pcie_bw_bps",
};

static void add_device_metrics(struct import_session *s, const struct cell *c, uint64_t time_ns)
{
#define METRIC_OF(name, metric, factor, divisor, zero) { METRIC_##metric, factor, divisor, zero },
	static const struct {
		enum metric_id metric;
		int32_t factor, divisor;
		bool zero;
	} metrics[] = { DEVICE_METRICS(METRIC_OF) };
	static const char *const units[] = { "%", "mV", "bytes/s" };
	const struct cell *device = c++;

	device = c++;
	for (size_t i = 0; i < ARRAY_SIZE(metrics); i++, c++) {
		int64_t value;

		if (!c->known || c->value < 0 || (!c->value && !metrics[i].zero))
			continue;
		if (__builtin_mul_overflow(c->value, metrics[i].factor, &value))
			continue;
		append(s, metric_counter(s, metrics[i].metric), time_ns, device,
		       value / metrics[i].divisor);
	}
	for (size_t i = 0; i < ARRAY_SIZE(units); i++, c++)
		if (c->known && c->value > 0)
			append(s,
			       own_counter(
				       s, import_text(s, device_names[2 + ARRAY_SIZE(metrics) + i]),
				       units[i], 0, counter_reading_integer),
			       time_ns, device, c->value);
}

void import_device_metrics(struct import_session *s, const struct record *r)
{
	import_batch(s, r, device_names, ARRAY_SIZE(device_names), add_device_metrics);
}

#define HOST_COLUMNS(C, p) C(p, dt_ns) C(p, cpu_pct_x100) C(p, ram_used_mib) C(p, ram_total_mib)
IMPORT_COLUMNS(HOST, HOST_COLUMNS)

static void add_host_metrics(struct import_session *s, const struct cell *c, uint64_t time_ns)
{
	int64_t used = cell_u32(c[HOST_ram_used_mib]), total = cell_u32(c[HOST_ram_total_mib]);

	if (c[HOST_cpu_pct_x100].known)
		append(s,
		       own_counter(s, import_text(s, "host_cpu_utilization"), "%", 2,
				   counter_reading_integer),
		       time_ns, NULL, c[HOST_cpu_pct_x100].value);
	if (total < used || !total)
		return;
	append(s, metric_counter(s, METRIC_host_memory_used), time_ns, NULL, used << 20);
	append(s, metric_counter(s, METRIC_host_memory_available), time_ns, NULL,
	       (total - used) << 20);
}

void import_host_metrics(struct import_session *s, const struct record *r)
{
	import_batch(s, r, HOST_names, HOST_COUNT, add_host_metrics);
}

#define PM_COLUMNS(C, p) C(p, dt_ns) C(p, device_id) C(p, metric_id) C(p, value)
IMPORT_COLUMNS(PM, PM_COLUMNS)

static void add_pm_sample(struct import_session *s, const struct cell *c, uint64_t time_ns)
{
	uint64_t name = import_name(s, NAMES_METRIC, (uint64_t)c[PM_metric_id].value);
	int64_t bits;

	memcpy(&bits, &c[PM_value].real, sizeof(bits));
	if (c[PM_value].known)
		append(s, own_counter(s, name, "", 0, counter_reading_real), time_ns,
		       c[PM_device_id].known ? &c[PM_device_id] : NULL, bits);
}

void import_pm_samples(struct import_session *s, const struct record *r)
{
	import_batch(s, r, PM_names, PM_COUNT, add_pm_sample);
}

/* ---- PC samples ---- */

#define SAMPLE_COLUMNS(C, p)                                                                       \
	C(p, dt_ns)                                                                                \
	C(p, device_id)                                                                            \
	C(p, function_id) C(p, pc_offset) C(p, metric_id) C(p, metric_value) C(p, sample_kind)
IMPORT_COLUMNS(SAMPLE, SAMPLE_COLUMNS)

/* "kernel@file.cu", of which the name is what is before the last '@'. */
static uint32_t function_name(struct import_session *s, uint64_t text)
{
	struct interned name = import_text_of(s, text);
	const char *at = memrchr(name.text, '@', name.length);

	return writer_string(s->writer, name.text, at ? (size_t)(at - name.text) : name.length);
}

/* One reading a row: the logs do not say when the sampler was read. */
static void add_pc_sample(struct import_session *s, const struct cell *c, uint64_t time_ns)
{
	struct row_pc_reading reading = { .id = ++s->next_range,
					  .start_ns = time_ns,
					  .end_ns = time_ns,
					  .device = cell_u32(c[SAMPLE_device_id]),
					  .total = cell_u32(c[SAMPLE_metric_value]) };
	uint64_t function = import_name(s, NAMES_FUNCTION, (uint64_t)c[SAMPLE_function_id].value);
	uint64_t reason = import_name(s, NAMES_METRIC, (uint64_t)c[SAMPLE_metric_id].value);
	struct row_pc_sample row = { .reading = reading.id,
				     .offset = cell_u32(c[SAMPLE_pc_offset]),
				     .samples = reading.total };

	if (c[SAMPLE_sample_kind].value != 0 || !reason || !function) {
		import_lose(s, loss_reason_unknown_record, 1,
			    "rows of profile_sample_batch that are no PC samples");
		return;
	}
	if (!import_span(s, time_ns, time_ns)) {
		import_lose(s, loss_reason_no_time, 1, "rows of profile_sample_batch");
		return;
	}
	row.function = function_name(s, function);
	row.reason = import_string(s, reason);
	import_append(s, TABLE_pc_reading, &reading);
	import_append(s, TABLE_pc_sample, &row);
}

void import_pc_samples(struct import_session *s, const struct record *r)
{
	import_batch(s, r, SAMPLE_names, SAMPLE_COUNT, add_pc_sample);
}
