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
#include "schema/schema.h"

/* B(name, channel, version, type, table): batches; their fields are GPUFL_<name> below. */
/* clang-format off */
#define GPUFL_BATCHES(B)                                                                                               \
	B(kernel, DEVICE, 1, "kernel_event_batch", kernel)                                                             \
	B(queued_kernel, DEVICE, 1, "kernel_event_batch", kernel)                                                      \
	B(memcpy, DEVICE, 1, "memcpy_event_batch", memcpy)                                                             \
	B(scope, SCOPE, 3, "scope_event_batch", nvtx)                                                                  \
	B(synchronization, SCOPE, 1, "synchronization_event_batch", synchronization)                                   \
	B(allocation, SCOPE, 1, "memory_alloc_event_batch", allocation)                                                \
	B(profile_sample, SCOPE, 1, "profile_sample_batch", sass_value)                                                \
	B(pm_sample, SCOPE, 1, "pm_sample_batch", counter_sample)                                                      \
	B(device_metric, SYSTEM, 1, "device_metric_batch", counter_sample)                                             \
	B(host_metric, SYSTEM, 1, "host_metric_batch", counter_sample)

/*
 * The fields of each batch in the format's order, for the writer and the importer; those that the
 * format lacks are at the end.
 *	D(T)			dt_ns, the row's time
 *	F(T, key, column)	a column of table T, 0 if it is missing
 *	R(T, key, column)	the writer computes it, the importer reads it into this column
 *	O(T, key)		the writer computes it, and a handler of the importer reads it
 */
#define GPUFL_CALL(O, T) O(T, thread_id) O(T, api_start_ns) O(T, api_exit_ns)
#define GPUFL_kernel(D, F, R, O, T)                                                                                 \
	D(T) O(T, kernel_id) F(T, stream_id, stream) O(T, duration_ns) R(T, corr_id, correlation)                      \
	R(T, dyn_shared, dynamic_shared_bytes) R(T, num_regs, registers) O(T, has_details) O(T, external_kind)         \
	O(T, external_id) F(T, device_id, device) F(T, context_id, context) F(T, graph_id, graph)                      \
	F(T, graph_node_id, graph_node) F(T, true_corr_id, correlation) GPUFL_CALL(O, T)
#define GPUFL_queued_kernel(D, F, R, O, T) GPUFL_kernel(D, F, R, O, T) R(T, queued_ns, queued_ns)
#define GPUFL_memcpy(D, F, R, O, T)                                                                                 \
	D(T) F(T, stream_id, stream) O(T, duration_ns) F(T, bytes, bytes) F(T, copy_kind, kind)                        \
	F(T, corr_id, correlation) F(T, device_id, device) F(T, context_id, context) F(T, graph_id, graph)             \
	F(T, graph_node_id, graph_node) F(T, src_kind, source_kind) F(T, dst_kind, destination_kind)                   \
	GPUFL_CALL(O, T)
#define GPUFL_scope(D, F, R, O, T)                                                                                  \
	D(T) O(T, scope_instance_id) O(T, name_id) O(T, event_type) O(T, depth) O(T, repeat) O(T, warmup)              \
	O(T, original_start_ns) O(T, thread_id)
#define GPUFL_synchronization(D, F, R, O, T)                                                                        \
	D(T) O(T, duration_ns) F(T, sync_type, kind) F(T, stream_id, stream) F(T, event_id, event)                     \
	F(T, context_id, context) F(T, corr_id, correlation) O(T, function_id) O(T, thread_id)
#define GPUFL_allocation(D, F, R, O, T)                                                                             \
	D(T) O(T, duration_ns) F(T, memory_op, operation) F(T, memory_kind, kind) F(T, address, address)               \
	F(T, bytes, bytes) F(T, device_id, device) F(T, stream_id, stream) F(T, corr_id, correlation)                  \
	GPUFL_CALL(O, T)
#define GPUFL_profile_sample(D, F, R, O, T)                                                                         \
	D(T) O(T, corr_id) R(T, device_id, device) O(T, function_id) R(T, pc_offset, offset) O(T, metric_id)           \
	R(T, metric_value, samples) O(T, stall_reason) O(T, sample_kind) O(T, scope_name_id)                           \
	O(T, source_file_id) O(T, source_line) R(T, true_corr_id, correlation)
#define GPUFL_pm_sample(D, F, R, O, T)                                                                              \
	O(T, sample_index) D(T) O(T, device_id) O(T, metric_id) O(T, value) O(T, scope_name_id)
#define GPUFL_device_metric(D, F, R, O, T)                                                                          \
	D(T) O(T, device_id) O(T, gpu_util) O(T, mem_util) O(T, temp_c) O(T, power_mw) O(T, used_mib) O(T, total_mib)  \
	O(T, clock_sm) O(T, fan_speed_pct) O(T, temp_mem_c) O(T, temp_junction_c) O(T, voltage_mv) O(T, energy_uj)     \
	O(T, clock_mem) O(T, pcie_bw_bps) O(T, ecc_corrected) O(T, ecc_uncorrected)
#define GPUFL_host_metric(D, F, R, O, T) D(T) O(T, cpu_pct_x100) O(T, ram_used_mib) O(T, ram_total_mib)

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

/* GPUFL_COMPUTED_kernel …: the number of fields that the writer computes. */
#define GPUFL_NONE(...)
#define GPUFL_ONE(...) +1
#define GPUFL_COMPUTED(name, ...)                                                                  \
	GPUFL_COMPUTED_##name = 0 GPUFL_##name(GPUFL_NONE, GPUFL_NONE, GPUFL_ONE, GPUFL_ONE, ),
enum { GPUFL_BATCHES(GPUFL_COMPUTED) };

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

/*
 * Appends a row with a time since the epoch: columns of `row`, which is of the batch's table, and
 * the fields that the writer computes, in order.
 */
void gpufl_row(struct gpufl_log *l, enum gpufl_batch_id id, uint64_t time_ns, const void *row,
	       const uint64_t *computed);
#define GPUFL_ROW(log, name, time_ns, row, ...)                                                    \
	do {                                                                                       \
		const uint64_t computed_[] = { __VA_ARGS__ };                                      \
		_Static_assert(ARRAY_SIZE(computed_) == GPUFL_COMPUTED_##name, "all fields");      \
		gpufl_row(log, BATCH_##name, time_ns, row, computed_);                             \
	} while (0)

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
