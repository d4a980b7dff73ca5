/*
 * pace.h: how fast work follows on work, and whether it begins slowly: loading modules, choosing
 * algorithms, filling caches. A program that runs for hours spends no time with that, a recording
 * of a few steps most of it.
 */
#ifndef PITOT_ANALYSIS_WARMUP_H
#define PITOT_ANALYSIS_WARMUP_H

#include <stddef.h>
#include <stdint.h>

#define PACE_POINTS 512

/* Every stride-th start, in order of time. All zero: nothing yet. */
struct pace {
	uint64_t starts_ns[PACE_POINTS];
	uint64_t pieces; /* of work so far */
	uint64_t stride; /* a power of two */
	size_t count;
};

/* The next piece of work. */
void pace_add(struct pace *p, uint64_t start_ns);

/* A time without work that counts as no time. */
struct pace_pause {
	uint64_t start_ns, length_ns;
};

/* Work that began slowly: `pieces` of it took length_ns, without pauses. 0 pieces: no such. */
struct start_up {
	uint64_t pieces, length_ns;
	uint64_t end_ns; /* start of the first piece after it */
};

/*
 * A start-up is the part of the first half of the pieces that takes longest beyond twice the pace
 * of the second half, if that is more than half of the whole time and PACE_MIN_NS.
 */
#define PACE_MIN_NS 10000000
struct start_up pace_start_up(const struct pace *p, const struct pace_pause *pauses, size_t count);

#endif
