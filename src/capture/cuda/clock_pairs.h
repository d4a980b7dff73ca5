/*
 * clock_pairs.h: pairs of CUPTI's time and CLOCK_MONOTONIC. They are read where a call may hang;
 * the collector converts times with them (cupti_clock.h), and writes one a second to `clock`.
 */
#ifndef PITOT_CAPTURE_CUDA_CLOCK_PAIRS_H
#define PITOT_CAPTURE_CUDA_CLOCK_PAIRS_H

#include "capture/cuda/vendor.h"
#include "format/writer.h"

/*
 * Reads a pair, the narrowest of three attempts. Returns false if CUPTI returns no time; then its
 * time is assumed to be CLOCK_REALTIME, so that its records are not off by decades. One thread at a
 * time.
 */
bool clock_pairs_read(const struct cupti *cupti);

/* Uses the pairs read so far. Returns CLOCK_MONOTONIC of the latest. Collector's thread. */
uint64_t clock_pairs_drain(struct writer *w);

/* Forgets all pairs. Collector's thread, or the child of a fork. */
void clock_pairs_reset(void);

#endif
