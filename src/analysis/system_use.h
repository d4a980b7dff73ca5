/*
 * system_use.h: readings of GPUs and of the machine (table counter_sample, metrics of the
 * recorder), compared with the time in which GPU work ran.
 *
 * A level holds from its reading to the next reading of the same process; the last reading of a
 * process covers no time. A sum is evaluated by its growth. Each process has its own counters of
 * the machine, unless one process reads them for all.
 */
#ifndef PITOT_ANALYSIS_SYSTEM_USE_H
#define PITOT_ANALYSIS_SYSTEM_USE_H

#include <stddef.h>
#include <stdint.h>

#define SYSTEM_COUNTERS_END 1024u /* ids from here on are counters of the program */
#define SYSTEM_CORES 512u /* ids from here on belong to single processors */
#define SYSTEM_REASONS 64u /* bits of gpu_throttle_reasons */

struct system_counter {
	uint32_t row; /* of table counter */
	uint32_t id; /* counter id of that row */
	uint32_t process; /* the first that read it */
	uint32_t gpu; /* index in report.gpus; UINT32_MAX: the machine or a process */
	uint8_t kind; /* enum counter_kind: level or sum */
	uint64_t readings;
	uint64_t known_ns; /* time covered by readings */
	uint64_t busy_ns; /* part of known_ns in which the GPU was busy */
	/* level: in the counter's own decimals; sum: growth per second, in thousandths */
	int64_t min, max;
	int64_t total; /* sum: total growth, in the counter's own decimals */
	/*
	 * Means over known_ns, busy_ns and the difference, in thousandths of the counter's unit; of
	 * a sum: growth per second.
	 */
	int64_t mean, busy_mean, idle_mean;
};

struct system_throttling {
	uint32_t gpu, reason; /* reason: number of the bit */
	uint64_t total_ns, busy_ns;
};

struct system_error {
	uint32_t gpu;
	uint64_t time_ns, code;
};

struct system_use {
	struct system_counter *counters; /* GPUs first; by GPU, id and process */
	size_t counter_count;
	/* by GPU, longest first; every reason but idle */
	struct system_throttling *throttled;
	size_t throttled_count;
	struct system_error *errors; /* by time */
	size_t error_count;
};

#endif
