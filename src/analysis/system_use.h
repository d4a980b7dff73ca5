/*
 * system_use.h: readings of GPUs and of the machine (table counter_sample, ids of the recorder's
 * own metrics), against the time in which kernels and copies ran.
 *
 * A level holds from its reading to the next one of the same process; the last one of a process
 * stands for no time. A sum is by how much it grew. Of the machine each process has its own
 * counters, unless one reads them for all.
 */
#ifndef PITOT_ANALYSIS_SYSTEM_USE_H
#define PITOT_ANALYSIS_SYSTEM_USE_H

#include <stddef.h>
#include <stdint.h>

#define SYSTEM_COUNTERS_END 1024u /* ids from there on are the program's own */
#define SYSTEM_CORES 512u /* ids from there on are of one processor each */
#define SYSTEM_REASONS 64u /* bits of gpu_throttle_reasons */

struct system_counter {
	uint32_t row; /* of table counter */
	uint32_t id; /* there */
	uint32_t process; /* that read it first */
	uint32_t gpu; /* index in report.gpus; UINT32_MAX: the machine or a process */
	uint8_t kind; /* enum counter_kind: level or sum */
	uint64_t readings;
	uint64_t known_ns; /* time that the readings speak of */
	uint64_t busy_ns; /* of that, with work on the GPU */
	/* level: values; sum: growth in a second; in the counter's own decimals */
	int64_t least, most;
	int64_t total; /* sum: growth */
	/*
	 * In thousandths of the counter's unit, over known_ns, busy_ns and the rest; of a sum the
	 * growth in a second.
	 */
	int64_t mean, busy_mean, idle_mean;
};

struct system_throttling {
	uint32_t gpu, reason; /* bit */
	uint64_t total_ns, busy_ns;
};

struct system_error {
	uint32_t gpu;
	uint64_t time_ns, code;
};

struct system_use {
	struct system_counter *counters; /* GPUs first; by GPU, id and process */
	size_t counter_count;
	/* by GPU, the longest first; any reason but idleness */
	struct system_throttling *throttled;
	size_t throttled_count;
	struct system_error *errors; /* by time */
	size_t error_count;
};

#endif
