/*
 * rank_rounds.h: what the ranks of a job repeat: the rounds whose delays are compared.
 *
 * A round is a step, if all ranks have ranges that are named like steps: as many collectives as are
 * in the time of one. Else it lasts from one collective to the next one of the rarest kind
 * (communicator, function and size; no send) that comes at regular distances, such as the last
 * gradients; else, as nothing is known of what the program repeats, from each collective to the
 * next. With which collective a round begins does not matter: what is once in a step is once in any
 * stretch of as many collectives.
 */
#ifndef PITOT_ANALYSIS_RANK_ROUNDS_H
#define PITOT_ANALYSIS_RANK_ROUNDS_H

#include "analysis/collectives.h"
#include "base/vec.h"

enum round_kind { ROUND_COLLECTIVE, ROUND_REPETITION, ROUND_STEP, ROUND_KINDS };

/* A collective that is compared, and since when. */
struct compared_match {
	uint64_t start_ns, end_ns; /* by the common clock */
	uint32_t match; /* item of matches */
};

struct rank_round {
	uint64_t end_ns; /* of its last collective; ascending */
	uint64_t span_ns; /* time of its collectives: excluding pauses */
};

struct rank_rounds {
	VEC(struct rank_round) items;
	enum round_kind kind;
	uint64_t start_ns, span_ns; /* of all of them; 0: there are none */
};

/*
 * Divides the collectives, which it sorts. step_ns: time of a step, or 0. 0 or -ENOMEM; the caller
 * releases out->items in either case.
 */
int rank_rounds_find(const struct collectives *c, struct compared_match *compared, size_t count,
		     uint64_t step_ns, struct rank_rounds *out) MUST_USE;

#endif
