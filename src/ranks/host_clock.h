/*
 * host_clock.h: how far the clock of a host is ahead of that of a reference host, from collectives
 * in which ranks of both hosts took part.
 *
 * In a collective whose result depends on every rank, no rank ends before every rank has started.
 * That bounds the offset from both sides without any assumption. The estimate is a line through the
 * differences of the ends, of which the rate is fitted, too: clocks of two hosts drift apart by
 * microseconds per second. The uncertainty is the farther one of the two bounds of the estimate,
 * so it also covers a systematic difference of the ends, which more data would not remove.
 *
 * A clock that was stepped has a line for each part of the time; if there is no line that is within
 * all bounds, the method is `none`.
 *
 * A limit of the offset that is known otherwise, such as from those who synchronize the clocks,
 * makes the uncertainty smaller, and is all there is if there are too few collectives.
 */
#ifndef PITOT_RANKS_HOST_CLOCK_H
#define PITOT_RANKS_HOST_CLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

/* A collective on one host, by the clock of the host. */
struct host_times {
	uint64_t last_start_ns; /* of its ranks */
	uint64_t first_end_ns, median_end_ns;
};

struct host_meeting {
	struct host_times reference, host;
};

#define HOST_CLOCK_PIECES 8
#define HOST_CLOCK_MEETINGS_MIN 3

struct host_clock_piece {
	uint64_t until_ns; /* of the reference's clock; UINT64_MAX for the last piece */
	uint64_t center_ns; /* of the reference's clock */
	int64_t offset_ns; /* host minus reference, at the centre */
	double rate; /* by how many ns the offset grows per ns */
};

struct host_clock {
	struct host_clock_piece pieces[HOST_CLOCK_PIECES];
	unsigned count; /* 0: unknown */
	uint64_t uncertainty_ns;
	uint64_t meetings;
	bool by_limit; /* known from the limit, as there are too few meetings for a line */
};

/*
 * Sorts the meetings by time. limit_ns: the offset is at most that, by other knowledge, which the
 * meetings may disprove; UINT64_MAX: unknown. 1 if the clock is known, else 0: too few meetings
 * without a limit, or a contradiction. -ENOMEM.
 */
int host_clock_fit(struct host_meeting *meetings, size_t count, uint64_t limit_ns,
		   struct host_clock *out) MUST_USE;

/* Converts a time of the host to one of the reference. */
uint64_t host_clock_convert(const struct host_clock *c, uint64_t host_ns);

#endif
