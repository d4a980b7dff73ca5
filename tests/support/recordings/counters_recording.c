/*
 * counters_recording.c: two processes whose kernels were measured by hardware counters: "gemm" three times, for 100, 300 and 600 us, "copy"
 * once in each, and launches that were not measured. Both number their launches alike.
 */
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "support/make_recording.h"
#include "support/recordings/recordings.h"

#define START (NS_PER_S)
#define US UINT64_C(1000)

enum { TIME = 1, BYTES, HIT_RATE, METRICS };

static void metric(struct maker *m, uint32_t id, const char *name, const char *unit)
{
	struct row_metric row = { .id = id,
				  .name = maker_string(m, name),
				  .unit = maker_string(m, unit),
				  .description = maker_string(m, "what it is") };

	writer_append(m->writer, TABLE_metric, &row);
}

/* value NAN: CUPTI gave none. */
static void value(struct maker *m, uint64_t correlation, uint32_t id, double number)
{
	struct row_metric_value row = { .correlation = correlation, .metric = id };

	memcpy(&row.value, &number, sizeof(row.value));
	ROW_MISSING_IF(&row, metric_value, value, isnan(number));
	writer_append(m->writer, TABLE_metric_value, &row);
}

static void launch(struct maker *m, uint32_t config, uint64_t correlation, uint64_t us)
{
	uint64_t at = START + correlation * 1000 * US;

	maker_call(m, MAKER_LAUNCH, 100, at, at + 4 * US, correlation);
	maker_kernel(m, config, 7, at + 10 * US, at + (10 + us) * US, correlation);
}

static struct maker *begin(const char *folder, uint32_t pid)
{
	struct maker *m = maker_begin(folder, pid, START, "./app");

	maker_device(m, 0, START);
	metric(m, TIME, "gpu__time_duration.sum", "nanosecond");
	metric(m, BYTES, "dram__bytes_read.sum.per_second", "byte/second");
	metric(m, HIT_RATE, "l1tex__t_sector_hit_rate.pct", "percent");
	return m;
}

void recording_counters(const char *folder)
{
	static const struct {
		uint64_t us;
		double bytes, hit_rate;
	} gemms[] = { { 100, 1e9, 10 }, { 300, 2e9, NAN }, { 600, 4e9, 80 } };
	struct maker *m = begin(folder, 100);
	uint32_t gemm = maker_config(m, "_Z4gemmPf", 64, 256),
		 copy = maker_config(m, "copy", 8, 128);

	for (uint64_t i = 0; i < 3; i++) {
		launch(m, gemm, 1 + i, gemms[i].us);
		value(m, 1 + i, TIME, (double)gemms[i].us * 900);
		value(m, 1 + i, BYTES, gemms[i].bytes);
		value(m, 1 + i, HIT_RATE, gemms[i].hit_rate);
	}
	launch(m, gemm, 4, 50); /* was not measured */
	maker_kernel(m, gemm, 7, START + 3900 * US, START + 3950 * US,
		     2); /* another record of a launch that was */
	launch(m, copy, 5, 20);
	value(m, 5, TIME, 18000);
	value(m, 77, TIME, 1); /* a launch whose kernel is not in the recording */
	maker_close(m, START + 20000 * US);

	m = begin(folder, 200);
	copy = maker_config(m, "copy", 8, 128);
	launch(m, copy, 1, 40);
	value(m, 1, TIME, 36000);
	maker_close(m, START + 20000 * US);
}
