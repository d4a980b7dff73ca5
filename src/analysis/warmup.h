/*
 * warmup.h: detects a slow start-up from the pace of the work: loading modules, choosing
 * algorithms, filling caches. This is negligible in a program that runs for hours, but may be most
 * of a recording of a few steps.
 */
#ifndef PITOT_ANALYSIS_WARMUP_H
#define PITOT_ANALYSIS_WARMUP_H

#include <stddef.h>
#include <stdint.h>

#define PACE_POINTS 512

/* A sample of the start times of work: every stride-th, in order of time. All zero: empty. */
struct pace {
	uint64_t starts_ns[PACE_POINTS];
	uint64_t pieces; /* number of pieces of work so far */
	uint64_t stride; /* a power of two */
	size_t count;
};

/* Adds the next piece of work. */
void pace_add(struct pace *p, uint64_t start_ns);

/* A time without work that is excluded. */
struct pace_pause {
	uint64_t start_ns, length_ns;
};

/* A slow start-up: the first `pieces` took length_ns, excluding pauses. 0 pieces: there is none. */
struct start_up {
	uint64_t pieces, length_ns;
	uint64_t end_ns; /* start of the first piece after it */
};

/*
 * The start-up ends at the piece of the first half up to which the time exceeds twice the pace of
 * the second half the most, if that excess is more than half of the whole time and PACE_MIN_NS.
 */
#define PACE_MIN_NS 10000000
struct start_up pace_start_up(const struct pace *p, const struct pace_pause *pauses, size_t count);

#endif
