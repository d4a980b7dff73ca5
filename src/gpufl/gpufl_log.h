/*
 * gpufl_log.h: formats the lines of a session (batches of rows, dictionaries, single records) and
 * passes them to its files.
 *
 * A row is appended to its batch as text, without allocating anything for it. Full batches, and all
 * batches at a seal, go to their channel. New dictionary entries go to all channels before the next
 * batch.
 *
 * base_time_ns of a batch is a multiple of 256, because readers keep that column (but not the rows)
 * as doubles, which represent today's epoch exactly only in such steps.
 */
#ifndef PITOT_GPUFL_GPUFL_LOG_H
#define PITOT_GPUFL_GPUFL_LOG_H

#include "base/json_text.h"
#include "base/map.h"
#include "gpufl/gpufl_files.h"

/* B(name, channel, version, type, columns): columns that the format lacks are at the end. */
/* clang-format off */
#define GPUFL_KERNEL_COLUMNS                                                                                           \
	"\"dt_ns\",\"kernel_id\",\"stream_id\",\"duration_ns\",\"corr_id\",\"dyn_shared\",\"num_regs\","               \
	"\"has_details\",\"external_kind\",\"external_id\",\"device_id\",\"context_id\",\"graph_id\","                 \
	"\"graph_node_id\",\"true_corr_id\""
#define GPUFL_BATCHES(B)                                                                                               \
	B(kernel, DEVICE, 1, "kernel_event_batch", GPUFL_KERNEL_COLUMNS)                                               \
	B(queued_kernel, DEVICE, 1, "kernel_event_batch", GPUFL_KERNEL_COLUMNS ",\"queued_ns\"")                       \
	B(memcpy, DEVICE, 1, "memcpy_event_batch",                                                                     \
	  "\"dt_ns\",\"stream_id\",\"duration_ns\",\"bytes\",\"copy_kind\",\"corr_id\",\"device_id\","                 \
	  "\"context_id\",\"graph_id\",\"graph_node_id\",\"src_kind\",\"dst_kind\"")                                   \
	B(scope, SCOPE, 3, "scope_event_batch",                                                                        \
	  "\"dt_ns\",\"scope_instance_id\",\"name_id\",\"event_type\",\"depth\",\"repeat\",\"warmup\","                \
	  "\"original_start_ns\",\"thread_id\"")                                                                       \
	B(synchronization, SCOPE, 1, "synchronization_event_batch",                                                    \
	  "\"dt_ns\",\"duration_ns\",\"sync_type\",\"stream_id\",\"event_id\",\"context_id\",\"corr_id\","             \
	  "\"function_id\"")                                                                                           \
	B(allocation, SCOPE, 1, "memory_alloc_event_batch",                                                            \
	  "\"dt_ns\",\"duration_ns\",\"memory_op\",\"memory_kind\",\"address\",\"bytes\",\"device_id\","               \
	  "\"stream_id\",\"corr_id\"")                                                                                 \
	B(profile_sample, SCOPE, 1, "profile_sample_batch",                                                            \
	  "\"dt_ns\",\"corr_id\",\"device_id\",\"function_id\",\"pc_offset\",\"metric_id\",\"metric_value\","          \
	  "\"stall_reason\",\"sample_kind\",\"scope_name_id\",\"source_file_id\",\"source_line\","                       \
	  "\"true_corr_id\"")                                                                            \
	B(pm_sample, SCOPE, 1, "pm_sample_batch",                                                                      \
	  "\"sample_index\",\"dt_ns\",\"device_id\",\"metric_id\",\"value\",\"scope_name_id\"")                          \
	B(device_metric, SYSTEM, 1, "device_metric_batch",                                                             \
	  "\"dt_ns\",\"device_id\",\"gpu_util\",\"mem_util\",\"temp_c\",\"power_mw\",\"used_mib\","                    \
	  "\"total_mib\",\"clock_sm\",\"fan_speed_pct\",\"temp_mem_c\",\"temp_junction_c\",\"voltage_mv\","            \
	  "\"energy_uj\",\"clock_mem\",\"pcie_bw_bps\",\"ecc_corrected\",\"ecc_uncorrected\"")                         \
	B(host_metric, SYSTEM, 1, "host_metric_batch",                                                                 \
	  "\"dt_ns\",\"cpu_pct_x100\",\"ram_used_mib\",\"ram_total_mib\"")

/*
 * M(column, counter, decimals, divisor): columns of device_metric that are Pitot's counters, the
 * decimals of the counter's unit in the column, and the divisor of the value.
 */
#define GPUFL_DEVICE_METRICS(M)                                                                                        \
	M(gpu_util, gpu_utilization, 0, 1)                                                                             \
	M(mem_util, gpu_memory_utilization, 0, 1)                                                                      \
	M(temp_c, gpu_temperature, 0, 1)                                                                               \
	M(power_mw, gpu_power, 3, 1)                                                                                   \
	M(used_mib, gpu_memory_used, 0, 1u << 20)                                                                      \
	M(clock_sm, gpu_sm_clock, 0, 1)                                                                                \
	M(temp_mem_c, gpu_memory_temperature, 0, 1)                                                                    \
	M(energy_uj, gpu_energy, 6, 1)                                                                                 \
	M(clock_mem, gpu_memory_clock, 0, 1)                                                                           \
	M(ecc_corrected, gpu_ecc_corrected, 0, 1)                                                                      \
	M(ecc_uncorrected, gpu_ecc_uncorrected, 0, 1)
/* Counters from which host_metric is computed. */
#define GPUFL_HOST_METRICS(M)                                                                                          \
	M(cpu_busy, host_cpu_busy, 2, 1) /* over all processors */                                                     \
	M(ram_used, host_memory_used, 0, 1u << 20)                                                                     \
	M(ram_available, host_memory_available, 0, 1u << 20)
/*
 * K(member, metric, share): members of kernel_perf_metric_event that are metrics; shares are in %,
 * with four decimals, the others are integers.
 */
#define GPUFL_CONFLICTS "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
#define GPUFL_KERNEL_COUNTERS(K)                                                                                       \
	K(sm_throughput_pct, "sm__throughput.avg.pct_of_peak_sustained_elapsed", true)                                 \
	K(l1_hit_rate_pct, "l1tex__t_sector_hit_rate.pct", true)                                                       \
	K(l2_hit_rate_pct, "lts__t_sector_hit_rate.pct", true)                                                         \
	K(dram_read_bytes, "dram__bytes_read.sum", false)                                                              \
	K(dram_write_bytes, "dram__bytes_write.sum", false)                                                            \
	K(tensor_active_pct, "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active", true)                   \
	K(achieved_occupancy_pct, "sm__warps_active.avg.pct_of_peak_sustained_active", true)                           \
	K(shared_load_bank_conflicts, GPUFL_CONFLICTS "_op_ld.sum", false)                                             \
	K(shared_store_bank_conflicts, GPUFL_CONFLICTS "_op_st.sum", false)                                            \
	K(shared_bank_conflicts, GPUFL_CONFLICTS ".sum", false)                                                        \
	K(shared_wavefronts, "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum", false)
/* clang-format on */

#define GPUFL_BATCH_ID(name, ...) BATCH_##name,
enum gpufl_batch_id { GPUFL_BATCHES(GPUFL_BATCH_ID) BATCHES };

#define GPUFL_BATCH_ROWS 2048u

enum gpufl_dictionary_id {
	DICTIONARY_kernel,
	DICTIONARY_scope_name,
	DICTIONARY_function,
	DICTIONARY_metric,
	DICTIONARIES
};

struct gpufl_dictionary {
	struct interner names;
	uint32_t first; /* id of item 0 */
	struct strbuf new_entries; /* entries not yet written to the channels */
};

struct gpufl_batch {
	struct strbuf rows; /* including the head of the batch */
	struct strbuf after; /* lines that follow the batch */
	unsigned count;
	uint64_t base_ns;
};

struct gpufl_log {
	struct gpufl_files *files;
	char session[GPUFL_ID_BYTES];
	struct strbuf host; /* ,"hostname":"…","ip_addr":"" */
	bool begun; /* the first lines have been written; nothing is written before */
	uint64_t batch_number;
	struct gpufl_batch batches[BATCHES];
	struct strbuf out[GPUFL_CHANNELS];
	struct gpufl_dictionary dictionaries[DICTIONARIES];
	uint64_t records, lost; /* rows and lines written to the files, and those that were not */
	uint64_t pending[GPUFL_CHANNELS]; /* records in out */
};

/* Returns 0 or -ENOMEM. On success the log owns `files`. */
int gpufl_log_init(struct gpufl_log *l, struct gpufl_files *files, const char *session) MUST_USE;
void gpufl_log_release(struct gpufl_log *l);

/* Appends a row: "dt_ns" from a time since the epoch, and the values of the other columns. */
void gpufl_row(struct gpufl_log *l, enum gpufl_batch_id id, uint64_t time_ns, const uint64_t *cells,
	       size_t count);
#define GPUFL_ROW(log, id, time_ns, ...)                                                           \
	gpufl_row(log, id, time_ns, (const uint64_t[]){ __VA_ARGS__ },                             \
		  sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

/* Appends a row of pm_sample; `value` is a JSON number. */
void gpufl_pm_row(struct gpufl_log *l, uint64_t index, uint64_t time_ns, uint32_t device,
		  uint32_t metric, const char *value);

/*
 * Returns the id of a name, from 1; 0: out of memory. DICTIONARY_function texts are JSON-escaped.
 */
uint32_t gpufl_name(struct gpufl_log *l, enum gpufl_dictionary_id id, const char *text,
		    size_t length);

/* Begins a line in a channel: {"type":"…". The caller adds the rest, including the newline. */
struct strbuf *gpufl_line(struct gpufl_log *l, enum gpufl_channel channel, const char *type);
/* Appends a line to every channel. */
void gpufl_line_everywhere(struct gpufl_log *l, const char *text, size_t length);

/* Seals all batches. */
void gpufl_log_seal(struct gpufl_log *l);
/* Writes the pending lines if the log has begun. */
void gpufl_log_flush(struct gpufl_log *l);
size_t gpufl_log_pending_bytes(const struct gpufl_log *l);

#endif
