/*
 * late_evidence.h: whether delays are a habit of a rank or chance, by resampling.
 *
 * A round is what a program repeats, such as a step. As many rounds as there are, drawn with
 * replacement a thousand times, each add up to other delays; 95 % of these are in the interval, as
 * shares of the recorded time, which a pause in one of the rounds thus does not move. A few long
 * delays are drawn often in some of them and never in others, so that their interval begins near 0:
 * hiccups need no rule of their own. Beyond LATE_ROUNDS_MOST rounds, neighbours are drawn together.
 */
#ifndef PITOT_RANKS_LATE_EVIDENCE_H
#define PITOT_RANKS_LATE_EVIDENCE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define LATE_ROUNDS_LEAST 5u /* of fewer rounds no interval is known */
#define LATE_ROUNDS_MOST 512u

struct late_round {
	uint64_t span_ns;
	uint64_t all_ns; /* that ranks delayed the others by */
	uint64_t own_ns; /* of it, by the rank in question */
};

struct late_share {
	double value;
	double low, high; /* NAN: there are too few rounds */
};

struct late_evidence {
	struct late_share all, own; /* of the time; 0 if there is none */
	struct late_share part; /* of all delays, the rank's own; 0 if there are none */
};

/* What is proven of a share: all of it if no interval is known. */
static inline double late_share_proven(const struct late_share *s)
{
	return isnan(s->low) ? s->value : s->low;
}

/* The same rounds give the same intervals. 0 or -ENOMEM. */
int late_evidence_find(const struct late_round *rounds, size_t count,
		       struct late_evidence *out) MUST_USE;

#endif
