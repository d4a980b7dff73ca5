/* cpu_moments.h: CPU samples and times off the CPU, as rows of one kind. */
#ifndef PITOT_ANALYSIS_CPU_MOMENTS_H
#define PITOT_ANALYSIS_CPU_MOMENTS_H

#include "schema/event_words.h"
#include "trace/trace.h"

struct cpu_moment {
	uint64_t start_ns, end_ns; /* end_ns 0: a sample */
	uint64_t weight_ns; /* the time that it stands for */
	uint32_t process; /* whose row it is, and whose stack ids it has */
	uint32_t thread, stack; /* stack 0: none */
	int32_t cpu; /* -1: unknown */
	uint8_t state; /* enum off_cpu_state, below OFF_CPU_STATES */
};

/* Reads a row of cpu_sample or off_cpu, which is loaded. */
struct cpu_moment cpu_moment_of(const struct trace *t, enum table_id table, uint32_t process,
				uint64_t row);

#endif
