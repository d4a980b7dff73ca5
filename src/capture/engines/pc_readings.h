/*
 * pc_readings.h: readings of the PC samplers on their way from the thread that made them to the
 * collector, which makes rows. What does not fit into PC_READINGS_BYTES is counted.
 */
#ifndef PITOT_CAPTURE_ENGINES_PC_READINGS_H
#define PITOT_CAPTURE_ENGINES_PC_READINGS_H

#include <stdbool.h>

#include "base/compiler.h"

#define PC_READINGS_BYTES (32u << 20)

struct pc_sample {
	uint64_t crc, offset;
	const char *function, *reason; /* of pc_text() */
	uint64_t samples;
};

struct pc_reading {
	struct pc_reading *next;
	uint64_t start_ns, end_ns;
	uint32_t device, context;
	uint64_t period_cycles;
	uint64_t total, dropped, other; /* with the samples: total = dropped + other + sum */
	size_t count;
	struct pc_sample samples[];
};

/*
 * A text that stays as it is: the same one for the same bytes. NULL: no memory, or too many. Any
 * thread.
 */
const char *pc_text(const char *text);

/*
 * Hands over what *reading says, with a copy of `count` samples; `other` is what is missing in the
 * sum, and where more was sampled than CUPTI says in total the total is the sum. Any thread.
 */
void pc_readings_push(const struct pc_reading *reading, const struct pc_sample *samples,
		      size_t count);
/* The oldest, to be freed; NULL: there is none. Collector's thread. */
struct pc_reading *pc_readings_take(void);

/* Samples so far that were left out for want of memory. */
uint64_t pc_readings_lost(void);

/* In the child of a fork: there are none. */
void pc_readings_after_fork(void);

#endif
