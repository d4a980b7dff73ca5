/* counter_rows.h: launches with hardware counters for tests. */
#ifndef PITOT_TESTS_COUNTER_ROWS_H
#define PITOT_TESTS_COUNTER_ROWS_H

#include <math.h>
#include <string.h>

#include "report_fixture.h"

#define SASS(type) "smsp__sass_thread_inst_executed_op_" type "_pred_on.sum"

enum {
	TIME = 1,
	BYTES,
	FADD,
	FMUL,
	FFMA,
	TENSOR,
	FFMA_PEAK,
	SM_CLOCK,
	BYTES_PEAK,
	DRAM_CLOCK,
	WARPS,
	METRICS
};

static const char *const metrics[METRICS] = {
	[TIME] = "gpu__time_duration.sum",
	[BYTES] = "dram__bytes.sum",
	[FADD] = SASS("fadd"),
	[FMUL] = SASS("fmul"),
	[FFMA] = SASS("ffma"),
	[TENSOR] = "sm__ops_path_tensor_src_fp64.sum",
	[FFMA_PEAK] = SASS("ffma") ".peak_sustained",
	[SM_CLOCK] = "sm__cycles_elapsed.avg.per_second",
	[BYTES_PEAK] = "dram__bytes.sum.peak_sustained",
	[DRAM_CLOCK] = "dram__cycles_elapsed.avg.per_second",
	[WARPS] = "sm__warps_active.avg.pct_of_peak_sustained_active",
};

static inline struct maker *begin_measured(const char *folder)
{
	struct maker *m = begin(folder, 100);

	for (uint32_t i = 1; i < METRICS; i++)
		writer_append(m->writer, TABLE_metric,
			      &(struct row_metric){ .id = i,
						    .name = maker_string(m, metrics[i]),
						    .unit = maker_string(m, ""),
						    .description = maker_string(m, "") });
	return m;
}

/* A launch with these values; NAN: not measured. `timed`: its record has times. */
static inline void measured(struct maker *m, uint32_t config, uint64_t correlation, bool timed,
			    const double *values)
{
	uint64_t at = correlation * 1000;
	struct row_kernel row = { .config = config,
				  .correlation = correlation,
				  .device = m->device,
				  .context = 1,
				  .stream = 7,
				  .start_ns = at + 100,
				  .end_ns = at + 200 };

	maker_call(m, MAKER_LAUNCH, 100, at, at + 50, correlation);
	ROW_MISSING_IF(&row, kernel, start_ns, !timed);
	ROW_MISSING_IF(&row, kernel, end_ns, !timed);
	ROW_MISSING(&row, kernel, graph);
	ROW_MISSING(&row, kernel, graph_node);
	writer_append(m->writer, TABLE_kernel, &row);
	for (uint32_t i = 1; i < METRICS; i++) {
		struct row_metric_value value = { .correlation = correlation, .metric = i };

		if (isnan(values[i]))
			continue;
		memcpy(&value.value, &values[i], sizeof(value.value));
		writer_append(m->writer, TABLE_metric_value, &value);
	}
}

#endif
