/*
 * clock_pairs.h: pairs of CUPTI's time and CLOCK_MONOTONIC, read where a call may hang, used by the
 * collector: to convert times (cupti_clock.h), and once a second as a row of `clock`.
 */
#ifndef PITOT_CAPTURE_CUDA_CLOCK_PAIRS_H
#define PITOT_CAPTURE_CUDA_CLOCK_PAIRS_H

#include "capture/cuda/vendor.h"
#include "format/writer.h"

/*
 * Reads a pair, the narrowest of three attempts. false when CUPTI gives no time; then
 * CLOCK_REALTIME is taken for its, so that its records are not off by decades. On one thread at a
 * time.
 */
bool clock_pairs_read(const struct cupti *cupti);

/* Uses the pairs that have been read. Returns CLOCK_MONOTONIC of the latest. Collector's thread. */
uint64_t clock_pairs_drain(struct writer *w);

/* Collector's thread, or the child of a fork. */
void clock_pairs_reset(void);

#endif
