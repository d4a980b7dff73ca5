/*
 * metrics.h: declares each metric of GPUs and of the machine once. Its position in the list is its
 * id in table `counter`: add at the end, never remove or reorder.
 *
 *	M(name, KIND, SUBJECT, "unit", decimals, "description")
 *
 * Values are integers: value / 10^decimals is in the unit. A value that is unavailable is never 0:
 * no value is passed on, but the reason (struct metric_sink).
 */
#ifndef PITOT_SYSTEM_METRICS_H
#define PITOT_SYSTEM_METRICS_H

#include <stdbool.h>

#include "base/compiler.h"
#include "base/strbuf.h"

/* Same values as counter_kind in schema/tables.h. */
enum metric_kind {
	METRIC_LEVEL, /* valid until the next reading */
	METRIC_SUM, /* monotonic counter; may restart at 0 */
	METRIC_BITS, /* bit i: condition i holds */
	METRIC_EVENT, /* the value is the code of the event */
};

/* What a metric is about: metrics are shown in this order. */
enum metric_subject {
	METRIC_UTILIZATION,
	METRIC_CUSTOM, /* counters that are not in the lists below */
	METRIC_MEMORY,
	METRIC_POWER,
	METRIC_CLOCK,
	METRIC_TEMPERATURE,
	METRIC_LIMIT, /* what holds the clocks or the program down */
	METRIC_TRAFFIC,
	METRIC_ENERGY,
	METRIC_OTHER,
	METRIC_ERROR,
};

#define METRIC_GPU_FIRST 1u
/* up to METRIC_HOST_FIRST: hardware counters sampled over time, in order of appearance */
#define METRIC_PM_FIRST 128u
#define METRIC_HOST_FIRST 256u
#define METRIC_CORE_FIRST 512u /* METRIC_CORE_FIRST + n: processor n */
#define METRIC_END 1024u

/* clang-format off */
#define GPU_METRICS(M)                                                                                                 \
	M(gpu_utilization, LEVEL, UTILIZATION, "%", 0, "time in which at least one kernel ran, as the driver measures it")\
	M(gpu_memory_utilization, LEVEL, UTILIZATION, "%", 0, "time in which device memory was read or written")       \
	M(gpu_sm_clock, LEVEL, CLOCK, "MHz", 0, "clock of the multiprocessors")                                        \
	M(gpu_memory_clock, LEVEL, CLOCK, "MHz", 0, "clock of the memory")                                             \
	M(gpu_power, LEVEL, POWER, "W", 3, "power of the whole board")                                                 \
	M(gpu_temperature, LEVEL, TEMPERATURE, "C", 0, "temperature of the GPU")                                       \
	M(gpu_memory_used, LEVEL, MEMORY, "bytes", 0, "device memory in use by all processes")                         \
	M(gpu_energy, SUM, ENERGY, "J", 3, "energy used since the driver was loaded")                                  \
	M(gpu_throttle_reasons, BITS, LIMIT, "", 0, "why the clocks are not higher; bits as in nvmlClocksEventReasons") \
	M(gpu_power_limit, LEVEL, POWER, "W", 3, "power that the driver enforces as the limit")                        \
	M(gpu_memory_temperature, LEVEL, TEMPERATURE, "C", 0, "temperature of the memory")                             \
	M(gpu_pcie_sent, SUM, TRAFFIC, "bytes", 0, "bytes that the GPU sent over PCIe")                                \
	M(gpu_pcie_received, SUM, TRAFFIC, "bytes", 0, "bytes that the GPU received over PCIe")                        \
	M(gpu_nvlink_sent, SUM, TRAFFIC, "bytes", 0, "data that the GPU sent over all NVLinks")                        \
	M(gpu_nvlink_received, SUM, TRAFFIC, "bytes", 0, "data that the GPU received over all NVLinks")                \
	M(gpu_limited_by_power, SUM, LIMIT, "s", 9, "time in which a power limit held the clocks down")                \
	M(gpu_limited_by_temperature, SUM, LIMIT, "s", 9, "time in which a temperature held the clocks down")          \
	M(gpu_limited_by_sync_boost, SUM, LIMIT, "s", 9, "time in which other GPUs of a sync boost group held the clocks down") \
	M(gpu_limited_by_board, SUM, LIMIT, "s", 9, "time in which a limit of the board held the clocks down")         \
	M(gpu_limited_by_reliability, SUM, LIMIT, "s", 9, "time in which the limit of the voltage held the clocks down") \
	M(gpu_ecc_corrected, SUM, ERROR, "", 0, "memory errors that ECC corrected since the driver was loaded")        \
	M(gpu_ecc_uncorrected, SUM, ERROR, "", 0, "memory errors that ECC could not correct since the driver was loaded") \
	M(gpu_retired_pages_corrected, LEVEL, ERROR, "pages", 0, "pages of memory retired for errors that were corrected") \
	M(gpu_retired_pages_uncorrected, LEVEL, ERROR, "pages", 0, "pages of memory retired for errors that were not corrected") \
	M(gpu_remapped_rows_corrected, LEVEL, ERROR, "rows", 0, "rows of memory remapped for errors that were corrected") \
	M(gpu_remapped_rows_uncorrected, LEVEL, ERROR, "rows", 0, "rows of memory remapped for errors that were not corrected") \
	M(gpu_processes, LEVEL, OTHER, "", 0, "processes with a compute context")                                      \
	M(gpu_sm_active, LEVEL, UTILIZATION, "%", 1, "part of the multiprocessors that had work, since the last reading") \
	M(gpu_sm_occupancy, LEVEL, UTILIZATION, "%", 1, "resident warps of those possible, since the last reading")    \
	M(gpu_tensor_active, LEVEL, UTILIZATION, "%", 1, "use of the tensor cores, since the last reading")            \
	M(gpu_fp64_active, LEVEL, UTILIZATION, "%", 1, "use of the FP64 units, since the last reading")                \
	M(gpu_fp32_active, LEVEL, UTILIZATION, "%", 1, "use of the FP32 units, since the last reading")                \
	M(gpu_fp16_active, LEVEL, UTILIZATION, "%", 1, "use of the FP16 units, since the last reading")                \
	M(gpu_integer_active, LEVEL, UTILIZATION, "%", 1, "use of the integer units, since the last reading")          \
	M(gpu_dram_active, LEVEL, UTILIZATION, "%", 1, "memory bandwidth used of that possible, since the last reading") \
	M(gpu_xid, EVENT, ERROR, "", 0, "error that the driver reported, by its Xid number")                           \
	M(gpu_lost, EVENT, ERROR, "", 0, "1: the driver has lost the GPU, which does not answer any more")

/* Metrics named process_ are those of the recorded process, the others those of the machine. */
#define HOST_METRICS(M)                                                                                                \
	M(host_cpu_busy, SUM, UTILIZATION, "s", 2, "time in which processors worked, over all of them")                \
	M(host_cpu_io_wait, SUM, UTILIZATION, "s", 2, "time in which processors were idle while a thread waited for a disk") \
	M(host_context_switches, SUM, OTHER, "", 0, "context switches of all processors")                              \
	M(host_memory_used, LEVEL, MEMORY, "bytes", 0, "memory that is not available to programs")                     \
	M(host_memory_available, LEVEL, MEMORY, "bytes", 0, "memory that programs can have without swapping")          \
	M(host_swap_used, LEVEL, MEMORY, "bytes", 0, "swap space in use")                                              \
	M(host_cpu_pressure, SUM, LIMIT, "s", 6, "time in which some task waited for a processor")                     \
	M(host_memory_pressure, SUM, LIMIT, "s", 6, "time in which some task waited for memory")                       \
	M(host_memory_pressure_full, SUM, LIMIT, "s", 6, "time in which all tasks waited for memory")                  \
	M(host_io_pressure, SUM, LIMIT, "s", 6, "time in which some task waited for a disk")                           \
	M(host_io_pressure_full, SUM, LIMIT, "s", 6, "time in which all tasks waited for a disk")                      \
	M(host_disk_read, SUM, TRAFFIC, "bytes", 0, "bytes read from all disks")                                       \
	M(host_disk_written, SUM, TRAFFIC, "bytes", 0, "bytes written to all disks")                                   \
	M(host_network_received, SUM, TRAFFIC, "bytes", 0, "bytes received by all network devices")                    \
	M(host_network_sent, SUM, TRAFFIC, "bytes", 0, "bytes sent by all network devices")                            \
	M(process_cpu, SUM, UTILIZATION, "s", 6, "CPU time of all threads")                                            \
	M(process_page_faults, SUM, OTHER, "", 0, "page faults that needed no disk")                                   \
	M(process_major_faults, SUM, OTHER, "", 0, "page faults that waited for a disk")                               \
	M(process_switches_voluntary, SUM, OTHER, "", 0, "times that a thread waited for something")                   \
	M(process_switches_involuntary, SUM, OTHER, "", 0, "times that a thread had to leave its processor to another") \
	M(process_memory, LEVEL, MEMORY, "bytes", 0, "resident memory")                                                \
	M(process_disk_read, SUM, TRAFFIC, "bytes", 0, "bytes that disks read for the process")                        \
	M(process_disk_written, SUM, TRAFFIC, "bytes", 0, "bytes written that are meant for disks")
/* clang-format on */

/* The ids: METRIC_gpu_power, … */
enum metric_id {
	METRIC_BEFORE_GPU = METRIC_GPU_FIRST - 1,
#define M(name, ...) METRIC_##name,
	GPU_METRICS(M) METRIC_GPU_END,
	METRIC_BEFORE_HOST = METRIC_HOST_FIRST - 1,
	HOST_METRICS(M) METRIC_HOST_END,
#undef M
};

struct metric {
	const char *name; /* for a processor: without its number, which metric_name() adds */
	enum metric_kind kind;
	enum metric_subject subject;
	const char *unit;
	uint32_t decimals;
	const char *description;
};

/* Returns NULL if no metric has this id. */
const struct metric *metric_find(uint32_t id);
/* Returns the id of the metric that a counter of this name has; 0: none. */
uint32_t metric_by_name(const char *name);
#define METRIC_NAME_MAX 40
/* Returns the name of an existing metric; `room` is used for names with a number. */
const char *metric_name(uint32_t id, char room[METRIC_NAME_MAX]);

/*
 * Appends that a metric is unavailable: "GPU 0 has no gpu_utilization: not supported". Consecutive
 * metrics with one reason are appended as one list, others after "; ". `prefix` is "GPU 0 has no ".
 */
void metric_add_absent(struct strbuf *out, const char *prefix, uint32_t id, const char *why);

/* Receives what readers read. All functions but `value` may be NULL. */
struct metric_sink {
	void *user;
	/* Called before and after calls of a driver, which may hang; `what` is a literal. */
	void (*enter)(const char *what);
	void (*leave)(void);
	void (*value)(void *user, uint32_t id, uint64_t time_ns, int64_t value);
	/* The metric is unavailable; called once per metric. `why` is valid during the call. */
	void (*absent)(void *user, uint32_t id, const char *why);
};

#endif
