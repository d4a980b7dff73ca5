/*
 * counters_recording.c: two processes with kernels measured by hardware counters ("gemm" three
 * times, for 100, 300 and 600 us, "copy" once in each) and launches that were not measured. The
 * launches of both have the same numbers. And kernels for rooflines whose records have no times,
 * because CUPTI replays them, on a GPU of 1 to 2 GHz with round peaks.
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

/* NAN: CUPTI gave no value. */
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

/* It was measured for so long before its call returned. */
static void replayed(struct maker *m, uint64_t correlation, uint64_t us)
{
	uint64_t at = START + correlation * 1000 * US + 4 * US;

	maker_cost(m, cost_kind_replay, at - us * US, at, 1, us * US);
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
		replayed(m, 1 + i, 600);
		launch(m, gemm, 1 + i, gemms[i].us);
		value(m, 1 + i, TIME, (double)gemms[i].us * 900);
		value(m, 1 + i, BYTES, gemms[i].bytes);
		value(m, 1 + i, HIT_RATE, gemms[i].hit_rate);
	}
	launch(m, gemm, 4, 50); /* not measured */
	maker_kernel(m, gemm, 7, START + 3900 * US, START + 3950 * US,
		     2); /* another record of a measured launch */
	replayed(m, 5, 900);
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

/* --- roofline --- */

#define SASS(type) "smsp__sass_thread_inst_executed_op_" type "_pred_on.sum"
#define METRIC_NAMES(M)                                                                            \
	M(NS, "gpu__time_duration.sum", "nanosecond")                                              \
	M(SM, "sm__throughput.avg.pct_of_peak_sustained_elapsed", "percent")                       \
	M(MEMORY, "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed", "percent")   \
	M(DRAM, "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed", "percent")               \
	M(L2, "lts__throughput.avg.pct_of_peak_sustained_elapsed", "percent")                      \
	M(WARPS, "sm__warps_active.avg.pct_of_peak_sustained_active", "percent")                   \
	M(SM_CLOCK, "sm__cycles_elapsed.avg.per_second", "gpc_cycle/second")                       \
	M(DRAM_CLOCK, "dram__cycles_elapsed.avg.per_second", "dram_cycle/second")                  \
	M(DRAM_BYTES, "dram__bytes.sum", "byte")                                                   \
	M(DRAM_PEAK, "dram__bytes.sum.peak_sustained", "byte/dram_cycle")                          \
	M(L2_BYTES, "lts__t_bytes.sum", "byte")                                                    \
	M(L1_BYTES, "l1tex__t_bytes.sum", "byte")                                                  \
	M(L1_PEAK, "l1tex__t_bytes.sum.peak_sustained", "byte/gpc_cycle")                          \
	M(FADD, SASS("fadd"), "instruction")                                                       \
	M(FMUL, SASS("fmul"), "instruction")                                                       \
	M(FFMA, SASS("ffma"), "instruction")                                                       \
	M(FFMA_PEAK, SASS("ffma") ".peak_sustained", "instruction/gpc_cycle")                      \
	M(FADD_PEAK, SASS("fadd") ".peak_sustained", "instruction/gpc_cycle")                      \
	M(HADD, SASS("hadd"), "instruction")                                                       \
	M(HMUL, SASS("hmul"), "instruction")                                                       \
	M(HFMA, SASS("hfma"), "instruction")                                                       \
	M(BF16, "sm__ops_path_tensor_src_bf16_dst_fp32.sum", "math_op")                            \
	M(BF16_PEAK, "sm__ops_path_tensor_src_bf16_dst_fp32.sum.peak_sustained",                   \
	  "math_op/gpc_cycle")                                                                     \
	M(RPC, "fbpa__requests.sum", "request")

enum {
#define M(name, text, unit) ROOFLINE_##name,
	METRIC_NAMES(M)
#undef M
		ROOFLINE_METRICS
};

/* In the tables, 0 and NAN mean that CUPTI gave no number. A real 0 is written as NOTHING. */
#define NOTHING -1.0

static void values_of(struct maker *m, uint64_t correlation, const double *values)
{
	for (uint32_t i = 0; i < ROOFLINE_METRICS; i++)
		if (values[i] != 0)
			value(m, correlation, i + 1, values[i] == NOTHING ? 0 : values[i]);
}

/* A kernel without times. */
static void measured(struct maker *m, uint32_t config, uint64_t correlation, const double *values)
{
	uint64_t at = START + correlation * 1000 * US;
	struct row_kernel row = {
		.config = config, .correlation = correlation, .context = 1, .stream = 7
	};

	maker_call(m, MAKER_LAUNCH, 100, at, at + 500 * US, correlation);
	ROW_MISSING(&row, kernel, start_ns);
	ROW_MISSING(&row, kernel, end_ns);
	ROW_MISSING(&row, kernel, graph);
	ROW_MISSING(&row, kernel, graph_node);
	writer_append(m->writer, TABLE_kernel, &row);
	values_of(m, correlation, values);
}

#define V(name) [ROOFLINE_##name]

/*
 * Launches 1 and 2 are gemm, 3 copy, 4 and 5 half, one with a missing value, 6 barrier, without a
 * time, 7 cached, whose record has times, 8 was not measured.
 */
void recording_roofline(const char *folder)
{
	static const struct {
		const char *name;
		uint32_t grid, block;
	} kernels[] = { { "_Z4gemmPf", 300, 1024 },
			{ "copy", 132, 256 },
			{ "half", 132, 256 },
			{ "barrier", 1, 32 },
			{ "cached", 132, 256 } };
	double gemm[] = { V(NS) = 1000,      V(SM) = 31,          V(MEMORY) = 88,
			  V(DRAM) = 87,      V(L2) = 88,          V(WARPS) = 40,
			  V(SM_CLOCK) = 1e9, V(DRAM_CLOCK) = 1e9, V(DRAM_BYTES) = 10000,
			  V(DRAM_PEAK) = 20, V(L2_BYTES) = 20000, V(L1_BYTES) = NOTHING,
			  V(L1_PEAK) = 1000, V(FADD) = 10000,     V(FMUL) = 10000,
			  V(FFMA) = 40000,   V(FFMA_PEAK) = 100,  V(FADD_PEAK) = 70,
			  V(HADD) = NOTHING, V(HMUL) = NOTHING,   V(HFMA) = NOTHING,
			  V(BF16) = 1000,    V(BF16_PEAK) = 1000, V(RPC) = 7 };
	double copy[] = { V(NS) = 2000,          V(SM) = 5,         V(MEMORY) = 90,
			  V(DRAM) = 20,          V(L2) = 89,        V(DRAM_CLOCK) = 1e9,
			  V(DRAM_BYTES) = 30000, V(DRAM_PEAK) = 20, V(FADD) = NOTHING,
			  V(FMUL) = NOTHING,     V(FFMA) = NOTHING, [ROOFLINE_RPC] = NOTHING };
	double half[] = { V(NS) = 100,          V(SM) = 75,
			  V(MEMORY) = 30,       V(DRAM) = 27, /* other units are busier */
			  V(WARPS) = 10,        V(SM_CLOCK) = 1e9,
			  V(DRAM_BYTES) = 1000, V(FADD) = 5,
			  V(FMUL) = 5,          V(FFMA) = 5,
			  V(HADD) = 100,        V(HMUL) = 100,
			  V(HFMA) = 100,        [ROOFLINE_RPC] = NOTHING };
	double barrier[] = { V(SM) = 1,   V(MEMORY) = 2, V(DRAM_BYTES) = 100,     V(HADD) = 1,
			     V(HMUL) = 1, V(HFMA) = 1,   [ROOFLINE_RPC] = NOTHING };
	double cached[] = { V(SM_CLOCK) = 1e9,  V(L1_BYTES) = 40000,     V(L1_PEAK) = 1000,
			    V(FADD) = 900000,   V(FMUL) = NOTHING,       V(FFMA) = 50000,
			    V(FFMA_PEAK) = 100, [ROOFLINE_RPC] = NOTHING };
	struct maker *m = maker_begin(folder, 100, START, "./app");
	uint32_t configs[ARRAY_SIZE(kernels)];

	maker_device(m, 0, START);
#define M(name, text, unit) metric(m, ROOFLINE_##name + 1, text, unit);
	METRIC_NAMES(M)
#undef M
	for (size_t i = 0; i < ARRAY_SIZE(kernels); i++)
		configs[i] = maker_config(m, kernels[i].name, kernels[i].grid, kernels[i].block);
	measured(m, configs[0], 1, gemm);
	for (uint32_t i = 0; i < ROOFLINE_METRICS; i++)
		gemm[i] *= i == ROOFLINE_NS || i == ROOFLINE_DRAM_BYTES || i == ROOFLINE_L2_BYTES ||
					   (i >= ROOFLINE_FADD && i <= ROOFLINE_FFMA)
				   ? 3
				   : 1;
	gemm[ROOFLINE_SM_CLOCK] = 2e9;
	measured(m, configs[0], 2, gemm);
	measured(m, configs[1], 3, copy);
	measured(m, configs[2], 4, half);
	half[ROOFLINE_FFMA] = NAN;
	measured(m, configs[2], 5, half);
	measured(m, configs[3], 6, barrier);
	launch(m, configs[4], 7, 10);
	values_of(m, 7, cached);
	launch(m, configs[1], 8, 5000);
	maker_close(m, START + 20000 * US);
}
