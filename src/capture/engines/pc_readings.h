/*
 * pc_readings.h: queue of PC sampling readings from the threads that make them to the collector,
 * which writes rows. Samples beyond PC_READINGS_BYTES are counted as lost.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_READINGS_H
#define PITOT_CAPTURE_ENGINES_PC_READINGS_H

#include <stdbool.h>

#include "base/compiler.h"

#define PC_READINGS_BYTES (32u << 20)

struct pc_sample {
	uint64_t crc, offset;
	const char *function, *reason; /* from pc_text() */
	uint64_t samples;
};

struct pc_reading {
	struct pc_reading *next;
	uint64_t start_ns, end_ns;
	uint32_t device, context;
	uint64_t period_cycles;
	uint64_t total, dropped, other; /* samples; total = dropped + other + sum of samples[] */
	size_t count;
	struct pc_sample samples[];
};

/*
 * Returns a permanent copy of a text; equal texts share one. NULL: no memory or too many texts. Any
 * thread.
 */
const char *pc_text(const char *text);

/*
 * Queues a copy of *reading with `count` samples. Computes `other`, and raises `total` to the sum
 * of the samples and `dropped` if CUPTI's total is smaller. Any thread.
 */
void pc_readings_push(const struct pc_reading *reading, const struct pc_sample *samples,
		      size_t count);
/* Removes the oldest reading, which the caller frees; NULL: none. Collector's thread. */
struct pc_reading *pc_readings_take(void);

/* Number of samples lost for lack of memory so far. */
uint64_t pc_readings_lost(void);

/* Forgets all readings and texts, in the child of a fork. */
void pc_readings_after_fork(void);

#endif
