/*
 * stats.h: what is said about a set of durations. Quantiles are exact, by nearest rank: the value
 * at ceil(q * n).
 */
#ifndef PITOT_ANALYSIS_STATS_H
#define PITOT_ANALYSIS_STATS_H

#include "base/compiler.h"

struct duration_stats {
	uint64_t count;
	uint64_t total_ns;
	uint64_t min_ns, max_ns;
	uint64_t median_ns, p99_ns;
};

/*
 * Value at position k (from 0) of the sorted values; reorders them. count > k. Linear on average.
 */
uint64_t stats_select(uint64_t *values, size_t count, size_t k);
/* All of duration_stats; reorders the values. All 0 when count is 0. */
struct duration_stats stats_of(uint64_t *values, size_t count);
/* total / count, 0 when there is none. */
uint64_t stats_mean_ns(const struct duration_stats *s);

#endif
