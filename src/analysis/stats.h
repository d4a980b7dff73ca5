/*
 * stats.h: statistics of durations. Quantiles are exact, by nearest rank: the value at position
 * ceil(q * n).
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

/* Durations below this limit have a counter each, once a list would take more memory. */
#define DURATIONS_COUNTED_NS (UINT32_C(1) << 18)

/*
 * A set of durations, one per kernel. Memory traffic dominates the cost of adding one, so short
 * durations are counted, and durations below 4.3 s take four bytes each.
 */
struct durations {
	/* by duration below DURATIONS_COUNTED_NS; NULL: all durations are in the lists */
	uint32_t *counts;
	VEC(uint32_t) small;
	VEC(uint64_t) large;
};

/* Makes room for one more item in `small`: switches to counting, or grows. 0 or -ENOMEM. */
int durations_reserve(struct durations *d) MUST_USE;

/* Adds a duration. 0 or -ENOMEM. */
static inline int durations_add(struct durations *d, uint64_t ns)
{
	if (ns > UINT32_MAX)
		return vec_push(&d->large, ns);
	if (!d->counts && d->small.count == d->small.capacity && durations_reserve(d) < 0)
		return -ENOMEM;
	if (d->counts && ns < DURATIONS_COUNTED_NS) {
		d->counts[ns]++;
		return 0;
	}
	return vec_push(&d->small, (uint32_t)ns);
}

/* Computes the statistics; all 0 for an empty set. Reorders the lists. */
struct duration_stats durations_stats(struct durations *d);
void durations_release(struct durations *d);

/*
 * Returns the value that sorting would put at index k < count. Partitions the array: no value
 * before index k is greater, none after it is smaller. Linear on average.
 */
uint32_t stats_select(uint32_t *values, size_t count, size_t k);
/* total_ns / count, or 0 for an empty set. */
uint64_t stats_mean_ns(const struct duration_stats *s);

#endif
