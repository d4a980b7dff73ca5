/*
 * metric_sets.c: named sets of metrics. Metrics that a chip lacks are left out. Tried with CUPTI
 * 13.0 on the tables of TU102, GA100, AD102, GH100, GB100 and GB202. `default` is what Perfetto's
 * compute tab shows.
 */
#include <string.h>

#include "cupti/profiler_host.h"

#define TIME "gpu__time_duration.sum"
#define ELAPSED ".avg.pct_of_peak_sustained_elapsed"
#define ACTIVE ".avg.pct_of_peak_sustained_active"
#define SUM_AND_PEAK(metric) metric ".sum", metric ".sum.peak_sustained"
#define FLOPS(type)                                                                                \
	"smsp__sass_thread_inst_executed_op_" type "add_pred_on.sum",                              \
		"smsp__sass_thread_inst_executed_op_" type "mul_pred_on.sum",                      \
		SUM_AND_PEAK("smsp__sass_thread_inst_executed_op_" type "fma_pred_on")

static const char *const set_default[] = {
	TIME,
	"gpu__compute_memory_throughput" ELAPSED,
	"gpu__dram_throughput" ELAPSED,
	"gpc__cycles_elapsed.avg.per_second",
	"gpc__cycles_elapsed.max",
	"dram__cycles_elapsed.avg.per_second",
	"l1tex__throughput" ACTIVE,
	"lts__throughput" ELAPSED,
	"sm__cycles_active.avg",
	"sm__cycles_elapsed.avg",
	"sm__throughput" ELAPSED,
	"sm__warps_active" ACTIVE,
	"sm__warps_active.avg.per_cycle_active",
	"sm__inst_executed.avg.per_cycle_active",
	"sm__inst_executed.avg.per_cycle_elapsed",
	"sm__instruction_throughput" ACTIVE,
	"sm__pipe_alu_cycles_active" ACTIVE,
	"sm__pipe_fma_cycles_active" ACTIVE,
	"sm__pipe_fp64_cycles_active" ACTIVE,
	"sm__pipe_tensor_cycles_active" ACTIVE,
	"sm__inst_executed_pipe_alu" ACTIVE,
	"sm__inst_executed_pipe_fma" ACTIVE,
	"sm__inst_executed_pipe_fp64" ACTIVE,
	"sm__inst_executed_pipe_tensor" ACTIVE,
	NULL,
};

static const char *const set_memory[] = {
	TIME,
	"dram__bytes_read.sum",
	"dram__bytes_write.sum",
	"dram__bytes_op_read.sum", /* its name since GB20x */
	"dram__bytes_op_write.sum",
	"gpu__dram_throughput" ELAPSED,
	"lts__t_bytes.sum",
	"lts__t_sector_hit_rate.pct",
	"lts__throughput" ELAPSED,
	"l1tex__t_bytes.sum",
	"l1tex__t_sector_hit_rate.pct",
	"l1tex__throughput" ACTIVE,
	"l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
	"l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
	"l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
	"l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
	"l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
	"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
	"l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
	NULL,
};

static const char *const set_compute[] = {
	TIME,
	"sm__cycles_active.avg",
	"sm__throughput" ELAPSED,
	"sm__warps_active" ACTIVE,
	"smsp__inst_executed.sum",
	"sm__inst_executed.avg.per_cycle_active",
	"smsp__issue_active" ACTIVE,
	"smsp__thread_inst_executed_per_inst_executed.ratio",
	"smsp__average_warp_latency_per_inst_issued.ratio",
	"sm__inst_executed_pipe_alu" ACTIVE,
	"sm__inst_executed_pipe_fma" ACTIVE,
	"sm__inst_executed_pipe_fp64" ACTIVE,
	"sm__inst_executed_pipe_lsu" ACTIVE,
	"sm__inst_executed_pipe_xu" ACTIVE,
	NULL,
};

static const char *const set_tensor[] = {
	TIME,
	"sm__pipe_tensor_cycles_active" ACTIVE,
	"sm__inst_executed_pipe_tensor.sum",
	"sm__inst_executed_pipe_tensor" ACTIVE,
	"sm__cycles_elapsed.avg.per_second",
	SUM_AND_PEAK("sm__ops_path_tensor_src_fp8"),
	SUM_AND_PEAK("sm__ops_path_tensor_src_fp16"),
	SUM_AND_PEAK("sm__ops_path_tensor_src_fp16_dst_fp16"),
	SUM_AND_PEAK("sm__ops_path_tensor_src_fp16_dst_fp32"),
	SUM_AND_PEAK("sm__ops_path_tensor_src_bf16_dst_fp32"),
	SUM_AND_PEAK("sm__ops_path_tensor_src_tf32_dst_fp32"),
	SUM_AND_PEAK("sm__ops_path_tensor_src_fp64"),
	"sm__ops_path_tensor_src_int8.sum",
	NULL,
};

/*
 * A point of a roofline (work, bytes at each level, time) and its roofs (analysis/roofline.c),
 * which need no additional pass. Tensor operations need three or four; they are in set tensor.
 */
static const char *const set_roofline[] = {
	TIME,
	"sm__cycles_elapsed.avg.per_second",
	"lts__cycles_elapsed.avg.per_second",
	"dram__cycles_elapsed.avg.per_second",
	SUM_AND_PEAK("dram__bytes"),
	SUM_AND_PEAK("lts__t_bytes"),
	SUM_AND_PEAK("l1tex__t_bytes"),
	FLOPS("f"),
	FLOPS("d"),
	FLOPS("h"),
	"sm__inst_executed_pipe_tensor.sum",
	NULL,
};

/* Activity of a GPU over time. On each of the chips above the sampler needs one pass. */
static const char *const set_sampling[] = {
	"gr__cycles_active" ELAPSED,          "sm__cycles_active" ELAPSED,
	"sm__inst_executed_realtime" ELAPSED, "sm__pipe_tensor_cycles_active_realtime" ELAPSED,
	"dram__bytes_read.sum.per_second",    "dram__bytes_write.sum.per_second",
	"dram__bytes_op_read.sum.per_second", "dram__bytes_op_write.sum.per_second",
	"pcie__read_bytes.sum.per_second",    "pcie__write_bytes.sum.per_second",
	"nvlrx__bytes.sum.per_second",        "nvltx__bytes.sum.per_second",
	"gpc__cycles_elapsed.avg.per_second", NULL,
};

#define SETS(S) S(default) S(memory) S(compute) S(tensor) S(roofline) S(sampling)

const char *const metric_set_names[] = {
#define S(name) #name,
	SETS(S)
#undef S
		NULL,
};

const char *const *metric_set_named(const char *name)
{
#define S(set)                                                                                     \
	if (strcmp(name, #set) == 0)                                                               \
		return set_##set;
	SETS(S)
#undef S
	return NULL;
}
