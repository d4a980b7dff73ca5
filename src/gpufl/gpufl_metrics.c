/*
 * gpufl_metrics.c: readings of counters. The format wants one row for what was read of a device at one time. A value that
 * was not read then is the last one, and 0 where there never was one: columns cannot be left empty.
 */
#include "gpufl/gpufl_state.h"

/* Counters by their names; decimals of the format's unit, and what a unit of that is divided by. */
static const struct {
	const char *name;
	enum gpufl_metric metric;
	uint8_t decimals;
	uint32_t divisor;
} metrics[] = {
	{ "gpu_utilization", METRIC_gpu_util, 0, 1 },
	{ "gpu_memory_utilization", METRIC_mem_util, 0, 1 },
	{ "gpu_temperature", METRIC_temp, 0, 1 },
	{ "gpu_power", METRIC_power, 3, 1 },
	{ "gpu_memory_used", METRIC_used, 0, 1u << 20 },
	{ "gpu_sm_clock", METRIC_clock_sm, 0, 1 },
	{ "gpu_fan_speed", METRIC_fan, 0, 1 },
	{ "gpu_energy", METRIC_energy, 6, 1 },
	{ "gpu_memory_clock", METRIC_clock_mem, 0, 1 },
	{ "host_cpu", METRIC_cpu, 2, 1 },
	{ "host_memory_used", METRIC_ram_used, 0, 1u << 20 },
	{ "host_memory_total", METRIC_ram_total, 0, 1u << 20 },
};

/* Of s->counters: index of metrics, decimals << 8, reading << 16. */
void gpufl_counter(struct gpufl_sink *s, const struct row_counter *c)
{
	struct bytes_value name = gpufl_text(s, c->name);
	uint64_t real =
		!(c->missing >> COLUMN_counter_reading & 1) && c->reading == counter_reading_real;

	for (size_t i = 0; i < ARRAY_SIZE(metrics) && c->decimals < 19; i++)
		if (!strcmp(metrics[i].name, name.data) &&
		    map_put(&s->counters, c->id, i | (uint64_t)c->decimals << 8 | real << 16) < 0)
			s->log.lost++;
}

/* A reading as the format has it. */
static uint64_t convert(uint64_t counter, int64_t value)
{
	int shift = metrics[counter & 0xff].decimals - (int)(counter >> 8 & 0xff);
	double real = (double)value;

	if (counter >> 16)
		memcpy(&real, &value, sizeof(real));
	for (; shift > 0; shift--)
		real *= 10;
	for (; shift < 0; shift++)
		real /= 10;
	real = real / metrics[counter & 0xff].divisor + 0.5;
	return real >= 1 && real < 0x1p63 ? (uint64_t)real : 0;
}

static void write_device(struct gpufl_sink *s, uint32_t device)
{
	struct gpufl_readings *r = &s->readings[device];
	const uint64_t *v = r->values;
	uint64_t total = s->has_device[device] ? s->devices[device].memory_bytes >> 20 : 0;
	const uint64_t cells[] = {
		device,
		v[METRIC_gpu_util],
		v[METRIC_mem_util],
		v[METRIC_temp],
		v[METRIC_power],
		v[METRIC_used],
		total,
		v[METRIC_clock_sm],
		v[METRIC_fan],
		0,
		v[METRIC_temp],
		0,
		v[METRIC_energy],
		v[METRIC_clock_mem],
		0,
		0,
		0,
	};
	struct strbuf *out = gpufl_row(&s->log, BATCH_device_metric, gpufl_time(s, r->time_ns));

	for (size_t i = 0; i < ARRAY_SIZE(cells); i++)
		gpufl_cell(out, cells[i]);
	gpufl_row_end(&s->log, BATCH_device_metric);
}

/* Readers divide by the memory there is: without it there is no row. */
static void write_host(struct gpufl_sink *s)
{
	struct strbuf *out;

	if (!s->host.values[METRIC_ram_total])
		return;
	out = gpufl_row(&s->log, BATCH_host_metric, gpufl_time(s, s->host.time_ns));
	gpufl_cell(out, s->host.values[METRIC_cpu]);
	gpufl_cell(out, s->host.values[METRIC_ram_used]);
	gpufl_cell(out, s->host.values[METRIC_ram_total]);
	gpufl_row_end(&s->log, BATCH_host_metric);
}

static void end_reading(struct gpufl_sink *s, struct gpufl_readings *r)
{
	if (!r->time_ns)
		return;
	if (r == &s->host)
		write_host(s);
	else
		write_device(s, (uint32_t)(r - s->readings));
	r->time_ns = 0;
}

void gpufl_counter_sample(struct gpufl_sink *s, const struct row_counter_sample *c)
{
	bool has_device = !(c->missing >> COLUMN_counter_sample_device & 1);
	struct gpufl_readings *r = &s->host;
	uint64_t counter;

	if (!map_get(&s->counters, c->counter, &counter) ||
	    (has_device && c->device >= GPUFL_DEVICES_MAX))
		return;
	if (has_device)
		r = &s->readings[c->device];
	if (r->time_ns != c->time_ns)
		end_reading(s, r);
	r->time_ns = c->time_ns;
	r->values[metrics[counter & 0xff].metric] = convert(counter, c->value);
	s->last_ns = MAX(s->last_ns, c->time_ns);
}

void gpufl_metrics_end(struct gpufl_sink *s)
{
	for (size_t i = 0; i < GPUFL_DEVICES_MAX; i++)
		end_reading(s, &s->readings[i]);
	end_reading(s, &s->host);
}
