/*
 * collective_match.h: which parts of collectives, each recorded by one rank, are the same
 * collective.
 *
 * Parts with an equal key (communicator, function, sequence number) are one collective: NCCL counts
 * per communicator and function, and equally on all ranks. Keys of parts without NCCL's numbers are
 * made up by the caller from names and order; such parts are `inferred`. Times are on one common
 * clock, or nearly: only check_times and the reasons for absence use them.
 */
#ifndef PITOT_RANKS_COLLECTIVE_MATCH_H
#define PITOT_RANKS_COLLECTIVE_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/vec.h"

/* What one rank did in a collective: one kernel, even if it carries several (`fused`). */
struct collective_part {
	uint64_t communicator; /* hash, or a number for a guess */
	uint64_t sequence;
	uint64_t start_ns, end_ns; /* of the kernel; end 0: it never ended */
	uint64_t count; /* elements */
	uint32_t rank; /* index of the recorded rank */
	uint32_t kernel; /* row of table kernel */
	uint32_t row; /* its first row of table collective; UINT32_MAX: none */
	uint32_t size; /* of the communicator; 0: unknown */
	uint32_t datatype; /* any number that is equal for equal types */
	int32_t root; /* -1: none */
	int32_t member; /* its own number in the communicator; -1: unknown */
	uint16_t fused; /* number of collectives of the kernel */
	uint8_t function; /* any number that is equal for equal functions */
	bool mutual; /* every rank's result depends on every rank */
	bool inferred; /* the key is a guess, and count, datatype and root are unknown */
	bool covered; /* other work ran on the rank's GPU when the kernel ended */
};

/* A rank in a communicator. */
struct communicator_rank {
	uint64_t communicator;
	uint32_t rank; /* index of the recorded rank */
	uint32_t size; /* of the communicator, including ranks that were not recorded */
};

/* When a rank was recorded. */
struct rank_window {
	uint64_t start_ns, end_ns;
};

enum absence {
	ABSENT_HUNG, /* was recorded, but never came, and the others never went on */
	ABSENT_OUTSIDE, /* was not yet or no longer recorded */
	ABSENT_LOST, /* took part, for the others went on; its part is missing */
	ABSENT_UNRECORDED, /* the communicator has more ranks than were recorded */
	ABSENCES,
};

struct collective_match {
	size_t first; /* of its parts, which are ordered by rank */
	uint32_t parts;
	uint32_t absent[ABSENCES]; /* number of other ranks of the communicator */
	bool differs; /* the parts have different counts, types or roots */
	bool repeated; /* a rank has several parts: two runs, or a restarted rank */
	bool impossible; /* mutual, and a part ended before another one started: check_times */
};

/* A rank that others wait for, or whose part is missing. */
struct absent_rank {
	uint32_t match, rank;
	enum absence why; /* HUNG or LOST */
};

struct collective_matches {
	VEC(struct collective_match) items; /* by key */
	VEC(struct absent_rank) absent;
};

/*
 * Sorts the parts by key and rank, and groups them. `windows` has one item per rank; `ranks` is
 * sorted, too. 0 or -ENOMEM; release *out in either case.
 */
int collectives_match(struct collective_part *parts, size_t count, struct communicator_rank *ranks,
		      size_t rank_count, const struct rank_window *windows,
		      struct collective_matches *out) MUST_USE;
/*
 * Marks impossible matches: no rank can end a mutual collective more than `uncertainty_ns` before
 * the last one has started it. Returns their number.
 */
size_t collectives_check_times(const struct collective_part *parts, struct collective_matches *m,
			       uint64_t uncertainty_ns);
void collectives_release(struct collective_matches *m);

/* Whether times of the match can be compared: all parts are there, each once, and all ended. */
bool collective_is_whole(const struct collective_part *parts, const struct collective_match *m);

#endif
