/*
 * gpufl_log.h: the lines of a session: batches of rows, dictionaries, single records, on their way
 * into its files.
 *
 * A row is written as text into its batch at once; nothing is allocated for it. A batch that is
 * full, and every batch at a seal, goes to its channel. Entries of dictionaries that are new go to
 * all channels before the next batch.
 *
 * base_time_ns of a batch is a multiple of 256: at today's epoch a double holds no other numbers
 * exactly, and readers keep that column, but not the rows, as doubles.
 */
#ifndef PITOT_GPUFL_GPUFL_LOG_H
#define PITOT_GPUFL_GPUFL_LOG_H

#include "base/json_text.h"
#include "base/map.h"
#include "gpufl/gpufl_files.h"

/*
 * B(name, channel, version, type, columns): columns that the format lacks are at the end.
 */
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
 * M(column, counter, decimals, divisor): columns of device_metric that are counters of ours: how
 * many decimals of the counter's unit the column has, and what it is divided by.
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
/* And what host_metric is made of. */
#define GPUFL_HOST_METRICS(M)                                                                                          \
	M(cpu_busy, host_cpu_busy, 2, 1) /* over all processors */                                                     \
	M(ram_used, host_memory_used, 0, 1u << 20)                                                                     \
	M(ram_available, host_memory_available, 0, 1u << 20)
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
	uint32_t first; /* id of its item 0 */
	struct strbuf fresh; /* entries that no channel has yet */
};

struct gpufl_batch {
	struct strbuf rows; /* with the head of the batch */
	struct strbuf after; /* lines that follow it */
	unsigned count;
	uint64_t base_ns;
};

struct gpufl_log {
	struct gpufl_files *files;
	char session[GPUFL_ID_BYTES];
	struct strbuf host; /* ,"hostname":"…","ip_addr":"" */
	bool begun; /* what comes first was written: before, nothing else is */
	uint64_t batch_number;
	struct gpufl_batch batches[BATCHES];
	struct strbuf out[GPUFL_CHANNELS];
	struct gpufl_dictionary dictionaries[DICTIONARIES];
	uint64_t records, lost; /* rows and lines in the files, and those that are not */
	uint64_t waiting[GPUFL_CHANNELS]; /* records in out */
};

/* 0 or -ENOMEM. Afterwards `files` is the log's. */
int gpufl_log_init(struct gpufl_log *l, struct gpufl_files *files, const char *session) MUST_USE;
void gpufl_log_release(struct gpufl_log *l);

/* A row: "dt_ns" of a time of the epoch, and the cells of the other columns. */
void gpufl_row(struct gpufl_log *l, enum gpufl_batch_id id, uint64_t time_ns, const uint64_t *cells,
	       size_t count);
#define GPUFL_ROW(log, id, time_ns, ...)                                                           \
	gpufl_row(log, id, time_ns, (const uint64_t[]){ __VA_ARGS__ },                             \
		  sizeof((const uint64_t[]){ __VA_ARGS__ }) / sizeof(uint64_t))

/* A row of pm_sample; `value` is a number of JSON. */
void gpufl_pm_row(struct gpufl_log *l, uint64_t index, uint64_t time_ns, uint32_t device,
		  uint32_t metric, const char *value);

/* Id of a name, from 1. 0: no memory. A text of DICTIONARY_function has JSON's escapes already. */
uint32_t gpufl_name(struct gpufl_log *l, enum gpufl_dictionary_id id, const char *text,
		    size_t length);

/* Begins a line in a channel: {"type":"…". The caller adds the rest, with its newline. */
struct strbuf *gpufl_line(struct gpufl_log *l, enum gpufl_channel channel, const char *type);
/* A line in every channel. */
void gpufl_line_everywhere(struct gpufl_log *l, const char *text, size_t length);

/* Seals all batches. */
void gpufl_log_seal(struct gpufl_log *l);
/* Writes what waits, if the log has begun. */
void gpufl_log_flush(struct gpufl_log *l);
size_t gpufl_log_waiting_bytes(const struct gpufl_log *l);

#endif
