/*
 * idle_lines.h: which lines of the program ran while a GPU had nothing to do: for each gap between
 * work the thread that then launched the work which ended it, by its CPU samples and its times off
 * the CPU inside the gap.
 *
 * Samples are an estimate: a line gets the weight of those that were taken in gaps. Times off the
 * CPU are exact. Where there are fewer than IDLE_SAMPLES_MIN samples, or hardly any of them in the
 * user's own code while launches are, gaps are booked whole on the line that launched the work
 * which ended them. The verdict's pauses are left out. There is nothing when the verdict is
 * GPU-bound.
 */
#ifndef PITOT_ANALYSIS_IDLE_LINES_H
#define PITOT_ANALYSIS_IDLE_LINES_H

#include "analysis/callers.h"
#include "analysis/idle.h"
#include "analysis/verdict.h"

#define IDLE_SAMPLES_MIN 10

enum idle_source {
	IDLE_SOURCE_NONE, /* no stacks */
	IDLE_SOURCE_SAMPLES, /* where the thread was */
	IDLE_SOURCE_LAUNCHES, /* what it launched next */
};

/* Of the GPU that the verdict is about. */
struct idle_lines {
	enum idle_source source;
	struct idle_line *items; /* by time, most first */
	size_t count;
	uint64_t gaps, gaps_ns; /* without pauses */
	uint64_t whole_ns; /* gaps_ns, or the sum of the items where samples estimate more */
	uint64_t samples, sampled_ns; /* in gaps */
	uint64_t off_cpu_ns; /* in gaps, where that was recorded */
};

#endif
