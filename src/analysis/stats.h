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
 * Durations below this are counted one by one, once the counts take no more memory than a list of
 * them.
 */
#define DURATIONS_COUNTED_NS (UINT32_C(1) << 18)

/*
 * A set of durations. There are as many as kernels, and most of the time that it takes to add one
 * up is that of its memory: so short ones are counted, and those below 4.3 s take four bytes each.
 */
struct durations {
	/* of each duration below DURATIONS_COUNTED_NS; NULL: all of them are in the lists */
	uint32_t *counts;
	VEC(uint32_t) small;
	VEC(uint64_t) large;
};

/* Makes room for one more in `small`, by counting or by growing. 0 or -ENOMEM. */
int durations_reserve(struct durations *d) MUST_USE;

/* 0 or -ENOMEM. */
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

/* What is said about them; all 0 of none. Reorders them. */
struct duration_stats durations_stats(struct durations *d);
void durations_release(struct durations *d);

/*
 * Value at position k (from 0) of the sorted values; reorders them: none before k is greater, none
 * behind it less. count > k. Linear on average.
 */
uint32_t stats_select(uint32_t *values, size_t count, size_t k);
/* total / count, 0 when there is none. */
uint64_t stats_mean_ns(const struct duration_stats *s);

#endif
