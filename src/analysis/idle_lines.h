/*
 * idle_lines.h: which lines of the program ran while a GPU was idle. For each gap between work
 * these are the lines of the thread that launched the work at the end of the gap, by its CPU
 * samples and its times off the CPU during the gap.
 *
 * Samples are an estimate: a line gets the weight of its samples in gaps. Times off the CPU are
 * exact. With fewer than IDLE_SAMPLES_MIN samples, or if the launches are in the user's own code
 * but hardly any samples are, each gap is attributed to the line that launched the work at its end.
 * Pauses (steady.h) are excluded. There is no result if the GPU limits the pace.
 */
#ifndef PITOT_ANALYSIS_IDLE_LINES_H
#define PITOT_ANALYSIS_IDLE_LINES_H

#include "analysis/callers.h"
#include "analysis/idle.h"
#include "analysis/verdict.h"

#define IDLE_SAMPLES_MIN 10

enum idle_source {
	IDLE_SOURCE_NONE, /* no stacks */
	IDLE_SOURCE_SAMPLES, /* lines where the thread was */
	IDLE_SOURCE_LAUNCHES, /* lines of the next launch */
};

/* Lines for the GPU that the verdict is about. */
struct idle_lines {
	enum idle_source source;
	struct idle_line *items; /* by time, descending */
	size_t count;
	uint64_t gaps, gaps_ns; /* excluding pauses */
	uint64_t whole_ns; /* gaps_ns, or the sum of the items if samples estimate more */
	uint64_t samples, sampled_ns; /* in gaps */
	uint64_t off_cpu_ns; /* in gaps, if it was recorded */
};

#endif
