/*
 * rank_times.h: which rank the others wait for, how much that costs, and what that rank did.
 *
 * Between two collectives of the same ranks each rank needs a time of its own: from its arrival at
 * the first to its arrival at the second, excluding what it only waited for others, but including
 * what its host would add without that wait, which hides its launches. A rank is late by as much as
 * its own time exceeds that of the others, at most by the time for which they waited for it. What
 * it did longer than the others in that time, by place of the program, is the cause. So the time
 * that waits hide is never blamed on a rank, and what a late rank did before is seen even if it
 * shows in a later collective.
 *
 * The start-up and the pauses that the verdict excludes are excluded. Differences below the
 * uncertainty of the clocks are none.
 */
#ifndef PITOT_ANALYSIS_RANK_TIMES_H
#define PITOT_ANALYSIS_RANK_TIMES_H

#include "analysis/rank_verdict.h"

/* Compares the ranks of a job. 0 or a negative code; release *out in either case. */
int rank_times_find(const struct job_source *source, const struct collectives *c,
		    struct rank_times *out) MUST_USE;

#endif
