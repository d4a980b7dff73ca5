/* rank_verdict.h: how late the ranks of a job were, and what bounds it by that. */
#ifndef PITOT_ANALYSIS_RANK_VERDICT_H
#define PITOT_ANALYSIS_RANK_VERDICT_H

#include "analysis/rank_measures.h"
#include "analysis/rank_rounds.h"
#include "base/vec.h"
#include "ranks/late_evidence.h"

struct rank_time {
	/* From the first to the last compared collective. Unknown if there is none. */
	uint64_t state_ns[RANK_STATES];
	uint64_t all_wait_ns; /* RANK_WAIT in the whole recording */
	VEC(struct rank_piece) waits; /* its pieces of RANK_WAIT */
	uint64_t collectives; /* compared ones */
	uint64_t uncertain; /* of these, those whose ranks arrived within the uncertainty */
	uint64_t last; /* how often it was the last, by more than the uncertainty */
	uint64_t late_ns; /* that the others lost by it */
};

/* What the others lost by a rank at a collective. */
struct rank_delay {
	uint64_t time_ns; /* when it came, by the common clock */
	uint64_t ns;
	uint32_t rank; /* item of collectives.ranks */
};

struct late_cause {
	uint32_t rank; /* item of collectives.ranks */
	struct rank_place place;
	uint64_t count; /* collectives for which this was the largest cause */
	uint64_t late_ns; /* its part of rank_time.late_ns */
	uint64_t excess_ns; /* that the rank spent there more than the others */
};

/* Own work of a rank before a collective that is longer than that of the median rank. */
struct rank_pace {
	uint64_t own_ns, median_ns; /* excluding transfers; of an even number the lower one */
	uint32_t match, previous, rank; /* items of matches; of collectives.ranks */
};

enum job_kind {
	JOB_SINGLE, /* fewer than two ranks */
	JOB_UNKNOWN, /* there are no collectives whose times can be compared */
	JOB_HUNG, /* a rank did not come */
	JOB_RANK, /* the others wait for one rank */
	JOB_TURNS, /* several ranks are late, in turn or together */
	JOB_COMMUNICATION, /* transfers take most of the time */
	JOB_ALIKE, /* all ranks are bound by the same: the verdict on one GPU */
	JOB_KINDS,
};

#define JOB_LATE_PERCENT 5 /* of the time: less is no verdict */
/*
 * Ranks of balanced programs, with steps of 1.4 to 2.5 ms on two H200, came later by up to 420 us a
 * step and 17 % of the time, in most steps. So less than this in a round is no verdict, if it is
 * known what the program repeats, …
 */
#define JOB_LATE_NS 500000
#define JOB_LATE_MUCH_PERCENT 25 /* … unless it is so much of the time */

struct rank_times {
	struct rank_time *items; /* parallel to collectives.ranks */
	size_t count;
	uint32_t *by_late; /* items by late_ns, descending */
	struct late_cause *causes; /* by late_ns, descending */
	size_t cause_count;
	struct measured_ranks measured;
	struct interner texts; /* of places */
	uint64_t span_ns; /* between the compared collectives */
	uint64_t start_ns; /* of this, by the first host's clock; 0: there are none */
	uint64_t late_ns; /* of all ranks */
	VEC(struct rank_delay) delays; /* which add up to that, before it is limited to the span */
	struct rank_rounds rounds;
	uint32_t latest; /* the first item of the rank that is late by most, with … */
	struct late_evidence evidence; /* … what its delays prove, and those of all ranks */
	uint64_t late_rounds; /* in which that rank was late by JOB_LATE_PERCENT */
	uint64_t compared; /* number of collectives */
	uint64_t uncertain; /* of these, those whose ranks arrived within the uncertainty */
	/* RANK_WAIT can be told from RANK_TRANSFER: the ranks are of one run, and on one clock */
	bool waits_known;
	enum job_kind kind;
	uint32_t rank; /* item of collectives.ranks; JOB_RANK: `latest` */
	const struct collective_match *hung; /* JOB_HUNG: a collective without this rank */
	uint64_t hung_ns; /* for how long others waited */
	/* JOB_RANK: the largest, may be NULL; JOB_TURNS: that of most ranks, NULL: there is none */
	const struct late_cause *cause;
	VEC(struct rank_pace) paces; /* with report_options.paces */
	/* JOB_UNKNOWN: rank_path.h contradicts a verdict; it is mostly on this rank */
	bool contradicted;
	uint32_t path_rank; /* item of collectives.ranks */
};

/* Finds what bounds the job: kind, and what that has. 0 or -ENOMEM. */
int rank_verdict_find(const struct collectives *c, struct rank_times *t) MUST_USE;

/* What is late by a share of the time is late by so much in each round. */
uint64_t rank_times_round_ns(const struct rank_times *t, double share);
/* Whether a share of the time is more than ranks of balanced programs differ by. */
bool rank_times_is_long(const struct rank_times *t, double share);

/* Whether it is known by how much ranks are late, be it 0: the clocks show it. */
bool rank_times_late_known(const struct rank_times *t);

/* Time of all ranks in a state, and in all states. */
uint64_t rank_times_sum(const struct rank_times *t, enum rank_state state);
uint64_t rank_times_total(const struct rank_times *t);

#endif
