/*
 * rank_compare.h: which rank was late at each collective, and because of what, from the time that
 * each rank spent between its collectives.
 */
#ifndef PITOT_ANALYSIS_RANK_COMPARE_H
#define PITOT_ANALYSIS_RANK_COMPARE_H

#include "analysis/groups.h"
#include "analysis/rank_verdict.h"

/* Time of a rank in an interval, by place. */
struct rank_share {
	struct rank_place place;
	uint64_t ns;
};

struct rank_shares {
	uint64_t ns; /* sum */
	size_t first; /* item of rank_intervals.shares */
	uint32_t count;
};

/* From a rank's arrival at a collective to its arrival at `match`, the next one of these ranks. */
struct rank_interval {
	uint64_t order_ns,
		group; /* intervals in which these are equal are compared, in this order */
	uint64_t last_ns; /* when the last rank arrived at the match */
	uint32_t match, previous; /* items of matches */
	uint32_t rank;
	bool pair; /* two ranks, of which one sends to the other */
	uint64_t arrived_ns; /* by the common clock */
	uint64_t early_ns; /* how long before the last rank that it needs it arrived */
	uint64_t wait_ns; /* that the GPU only waited for other ranks */
	uint64_t transfer_ns; /* of own_ns */
	uint64_t own_ns; /* of the GPU without waits, and what its host would add without these */
	/* of the GPU, excluding waits, and of the host between the launches */
	struct rank_shares gpu, host;
};

/* Time of a rank's host in a place, in all intervals. */
struct host_total {
	uint64_t ns;
};

struct rank_intervals {
	VEC(struct rank_interval) items;
	VEC(struct rank_share) shares;
	GROUPS(struct host_total) host_totals; /* key: rank_place_key */
	bool paces; /* list rank_times.paces */
	uint64_t step_ns; /* of the program; 0: unknown */
	uint64_t *last_ns; /* by match: when the last rank arrived; 0: cannot be compared */
};

static inline uint64_t rank_place_key(uint32_t rank, struct rank_place place)
{
	return hash_u64((uint64_t)rank << 32 | place.text) ^
	       ((uint64_t)place.kind << 8 | place.state);
}

/* Reorders the intervals. Sets what rank_times has of lateness, and its causes. 0 or -ENOMEM. */
int rank_intervals_compare(struct rank_intervals *v, const struct collectives *c,
			   struct rank_times *out) MUST_USE;
void rank_intervals_release(struct rank_intervals *v);

#endif
