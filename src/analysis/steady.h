/* steady.h: what the figures about a program's pace exclude: its start-up, and pauses. */
#ifndef PITOT_ANALYSIS_STEADY_H
#define PITOT_ANALYSIS_STEADY_H

#include "analysis/busy.h"
#include "analysis/idle.h"

struct steady {
	uint64_t span_ns; /* of the GPU's work, excluding pauses and IDLE_PART_MEASURING */
	uint64_t part_ns[IDLE_PARTS]; /* of gaps but pauses */
	struct pace_pause pause[IDLE_LONGEST];
	size_t pauses;
	uint64_t pause_ns; /* sum */
	uint64_t pieces; /* pieces of work; 0 if the start-up is unknown */
	struct start_up start_up;
};

/* For a GPU that has work; see verdict.h for what a pause is. */
void steady_find(const struct gpu_busy *b, const struct gpu_idle *g, struct steady *out);

#endif
