/*
 * stats.h: what is said about a set of durations. Quantiles are exact, by nearest rank: the value
 * at ceil(q * n).
 */
#ifndef PITOT_ANALYSIS_STATS_H
#define PITOT_ANALYSIS_STATS_H

#include "base/vec.h"

struct duration_stats {
	uint64_t count;
	uint64_t total_ns;
	uint64_t min_ns, max_ns;
	uint64_t median_ns, p99_ns;
};

/*
 * A set of durations. Those below 4.3 s take four bytes each: there are as many as kernels, and most of the time that it
 * takes to add one up is that of its memory.
 */
struct durations {
	VEC(uint32_t) small;
	VEC(uint64_t) large;
};

/* 0 or -ENOMEM. */
static inline int durations_add(struct durations *d, uint64_t ns)
{
	return ns <= UINT32_MAX ? vec_push(&d->small, (uint32_t)ns) : vec_push(&d->large, ns);
}

/* What is said about them; all 0 of none. Reorders them. */
struct duration_stats durations_stats(struct durations *d);
void durations_release(struct durations *d);

/*
 * Value at position k (from 0) of the sorted values; reorders them: none before k is greater, none behind it less. count > k.
 * Linear on average.
 */
uint32_t stats_select(uint32_t *values, size_t count, size_t k);
/* total / count, 0 when there is none. */
uint64_t stats_mean_ns(const struct duration_stats *s);

#endif
