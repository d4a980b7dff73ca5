/* steady.h: what the figures about a program's pace exclude: its start-up, and pauses. */
#ifndef PITOT_ANALYSIS_STEADY_H
#define PITOT_ANALYSIS_STEADY_H

#include "analysis/busy.h"
#include "analysis/idle.h"

struct steady {
	struct pace_pause pause[IDLE_LONGEST];
	size_t pauses;
	uint64_t pause_ns; /* sum */
	uint64_t pieces; /* pieces of work; 0 if the start-up is unknown */
	struct start_up start_up;
};

/*
 * A pause is a gap of at least 100 ms and a fifth of `span_ns`, three times as long as the longest
 * gap that is no pause; at most three are. span_ns: from the first to the last work, excluding
 * measuring_ns, for which Pitot measured between them.
 */
void steady_find(const struct work_gaps *g, uint64_t span_ns, uint64_t measuring_ns,
		 struct steady *out);
/* Of a GPU that has work. */
void steady_find_gpu(const struct gpu_busy *b, const struct gpu_idle *g, struct steady *out);

#endif
