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

#include "analysis/rank_measures.h"

/* A rank must still be late without this many of its delays, the longest: they are hiccups. */
#define RANK_HICCUPS 3

struct rank_time {
	uint64_t state_ns[RANK_STATES]; /* from the first to the last compared collective */
	uint64_t all_wait_ns; /* RANK_WAIT in the whole recording */
	uint64_t steady_ns; /* end of its start-up, by its own clock */
	uint64_t collectives; /* compared ones */
	uint64_t last; /* how often it was the last, by more than the uncertainty */
	uint64_t late_ns; /* that the others lost by it */
	uint64_t hiccup_ns[RANK_HICCUPS]; /* its longest delays, descending */
};

struct late_cause {
	uint32_t rank; /* item of collectives.ranks */
	struct rank_place place;
	uint64_t count; /* collectives for which this was the largest cause */
	uint64_t late_ns; /* its part of rank_time.late_ns */
	uint64_t excess_ns; /* that the rank spent there more than the others */
};

enum job_kind {
	JOB_SINGLE, /* fewer than two ranks */
	JOB_UNKNOWN, /* there are no collectives whose times can be compared */
	JOB_HUNG, /* a rank did not come */
	JOB_RANK, /* the others wait for one rank */
	JOB_TURNS, /* ranks are late in turn, because of the same place */
	JOB_COMMUNICATION, /* transfers take most of the time */
	JOB_ALIKE, /* all ranks are bound by the same: the verdict on one GPU */
	JOB_KINDS,
};

#define JOB_LATE_PERCENT 5 /* of the time: less is no verdict */

struct rank_times {
	struct rank_time *items; /* parallel to collectives.ranks */
	size_t count;
	uint32_t *by_late; /* items by late_ns, descending */
	struct late_cause *causes; /* by late_ns, descending */
	size_t cause_count;
	struct measured_ranks measured;
	struct interner texts; /* of places */
	uint64_t span_ns; /* between the compared collectives */
	uint64_t late_ns; /* of all ranks */
	uint64_t compared; /* number of collectives */
	uint64_t uncertain; /* of these, those whose ranks arrived within the uncertainty */
	enum job_kind kind;
	uint32_t rank; /* JOB_RANK, JOB_HUNG: item of collectives.ranks */
	const struct collective_match *hung; /* JOB_HUNG: a collective without this rank */
	uint64_t hung_ns; /* for how long others waited */
	const struct late_cause *cause; /* JOB_RANK, JOB_TURNS: the largest; may be NULL */
};

/* Compares the ranks of a job. 0 or a negative code; release *out in either case. */
int rank_times_find(const struct job_source *source, const struct collectives *c,
		    struct rank_times *out) MUST_USE;

/* Finds what bounds the job: kind, and what that has. rank_verdict.c */
void rank_verdict_find(const struct collectives *c, struct rank_times *t);

/* Time of all ranks in a state, and in all states. */
uint64_t rank_times_sum(const struct rank_times *t, enum rank_state state);
uint64_t rank_times_total(const struct rank_times *t);
/*
 * How long a GPU (item of struct gpus) only waited for other ranks: in the whole report, or after
 * the start-up if the report begins there.
 */
uint64_t rank_times_waited(const struct report *r, size_t gpu);

#endif
