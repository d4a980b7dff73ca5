/*
 * gpufl_metrics.c: counter readings. The format has one row for all readings of a device at one
 * time. It has no empty columns: a value that was not read is the last one, or 0 if there was none.
 */
#include <stdio.h>

#include "gpufl/gpufl_sink_state.h"

static const struct {
	const char *counter;
	uint8_t decimals;
	uint32_t divisor;
} metrics[METRICS] = {
#define METRIC(column, counter, ...) { #counter, __VA_ARGS__ },
	GPUFL_DEVICE_METRICS(METRIC) GPUFL_HOST_METRICS(METRIC)
#undef METRIC
};

/* Values of s->counters: metric | decimals << 8 | reading << 16. */
void gpufl_counter(struct gpufl_sink *s, const struct row_counter *c)
{
	struct bytes_value name = gpufl_text(s, c->name);
	unsigned core;
	uint64_t real =
		!(c->missing >> COLUMN_counter_reading & 1) && c->reading == counter_reading_real;

	if (sscanf(name.data, "host_core_%u_busy", &core) == 1 && core < 1u << 16)
		s->processors = MAX(s->processors, core + 1);
	if (gpufl_pm_counter(s, c, real))
		return;
	for (size_t i = 0; i < METRICS && c->decimals < 19; i++)
		if (!strcmp(metrics[i].counter, name.data) &&
		    map_put(&s->counters, c->id, i | (uint64_t)c->decimals << 8 | real << 16) < 0)
			s->log.lost++;
}

/* Converts a reading to the format's unit. */
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

	/*
	 * 0: fan, voltage, PCIe. Like the reference, writes the GPU temperature as junction
	 * temperature, too.
	 */
	GPUFL_ROW(&s->log, device_metric, gpufl_time(s, r->time_ns), NULL, device,
		  v[METRIC_gpu_util], v[METRIC_mem_util], v[METRIC_temp_c], v[METRIC_power_mw],
		  v[METRIC_used_mib], total, v[METRIC_clock_sm], 0, v[METRIC_temp_mem_c],
		  v[METRIC_temp_c], 0, v[METRIC_energy_uj], v[METRIC_clock_mem], 0,
		  v[METRIC_ecc_corrected], v[METRIC_ecc_uncorrected]);
}

/* The counter of CPU time only grows; the use is its growth since the last reading. */
static void read_cpu(struct gpufl_sink *s, uint64_t time_ns)
{
	uint64_t busy = s->host.values[METRIC_cpu_busy];
	double capacity_ns = (double)(time_ns - s->cpu_ns) * s->processors;

	if (s->cpu_ns && time_ns > s->cpu_ns && busy >= s->cpu_busy && s->processors) {
		/* The counter's unit is 1/100 s = 10^7 ns; the format's is 1/100 %. */
		s->cpu_x100 = (uint64_t)((double)(busy - s->cpu_busy) * 1e11 / capacity_ns + 0.5);
		s->cpu_x100 = MIN(s->cpu_x100, 10000);
		s->has_cpu = true;
	}
	s->cpu_ns = time_ns;
	s->cpu_busy = busy;
}

/* Readers divide by the total memory, so there is no row without it. */
static void write_host(struct gpufl_sink *s)
{
	uint64_t used = s->host.values[METRIC_ram_used];
	uint64_t total = used + s->host.values[METRIC_ram_available];

	if (total && s->has_cpu)
		GPUFL_ROW(&s->log, host_metric, gpufl_time(s, s->host.time_ns), NULL, s->cpu_x100,
			  used, total);
	if (s->has_cpu)
		gpufl_marks_write(s);
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

	if (gpufl_pm_sample(s, c) || !map_get(&s->counters, c->counter, &counter) ||
	    (has_device && c->device >= GPUFL_DEVICES_MAX))
		return;
	if (has_device)
		r = &s->readings[c->device];
	if (r->time_ns != c->time_ns)
		end_reading(s, r);
	r->time_ns = c->time_ns;
	r->values[counter & 0xff] = convert(counter, c->value);
	if ((counter & 0xff) == METRIC_cpu_busy)
		read_cpu(s, c->time_ns);
	s->last_ns = MAX(s->last_ns, c->time_ns);
}

void gpufl_metrics_flush(struct gpufl_sink *s)
{
	for (size_t i = 0; i < GPUFL_DEVICES_MAX; i++)
		end_reading(s, &s->readings[i]);
	end_reading(s, &s->host);
}
