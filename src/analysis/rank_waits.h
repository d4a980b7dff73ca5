/*
 * rank_waits.h: when ranks waited for each other, and which for which: what the heat maps of a job
 * show. Computed if report_options.collectives.
 *
 * A rank waits while a kernel of a collective runs and the last rank that it needs has not come
 * (ranks/collective_wait.h), whatever else runs on its GPU. Differences below the uncertainty of
 * the clocks are none. The window is that of the comparison of the ranks (rank_times.h). Many ranks
 * are drawn in groups of equal size.
 */
#ifndef PITOT_ANALYSIS_RANK_WAITS_H
#define PITOT_ANALYSIS_RANK_WAITS_H

#include "analysis/rank_verdict.h"

#define RANK_WAITS_SPANS 60u
#define RANK_WAITS_GROUPS 32u

struct rank_wait_pair {
	uint32_t waiting, awaited; /* items of collectives.ranks */
	uint64_t ns, count;
};

struct rank_wait_group {
	uint32_t first, end; /* items of collectives.ranks */
	uint64_t ns; /* sum of all spans */
	uint64_t span_ns[RANK_WAITS_SPANS]; /* all ranks together */
	uint64_t for_ns[RANK_WAITS_GROUPS]; /* by group of the rank that they waited for */
};

struct rank_waits {
	uint64_t start_ns, length_ns; /* by the first host's clock; 0: nothing is known */
	struct rank_wait_group *groups;
	size_t group_count;
	struct rank_wait_pair *pairs; /* those with most time first */
	size_t pair_count;
	uint64_t most_ns; /* the largest for_ns */
};

/* 0 or -ENOMEM; release *out in either case. */
int rank_waits_find(const struct collectives *c, const struct rank_times *t,
		    struct rank_waits *out) MUST_USE;
/* When a span begins, since start_ns. */
uint64_t rank_waits_span(const struct rank_waits *w, unsigned span);

#endif
