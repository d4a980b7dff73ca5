/*
 * clock_pairs.h: pairs of CUPTI's time and CLOCK_MONOTONIC, read where a call may hang, used by the collector: to convert times
 * (cupti_clock.h), and once a second as a row of `clock`.
 */
#ifndef PITOT_CAPTURE_CUDA_CLOCK_PAIRS_H
#define PITOT_CAPTURE_CUDA_CLOCK_PAIRS_H

#include "capture/cuda/vendor.h"
#include "capture/ring.h"
#include "format/writer.h"

/*
 * Reads a pair, the narrowest of three attempts, into the calling thread's ring. false when CUPTI gives no time; then
 * CLOCK_REALTIME is taken for its, so that its records are not off by decades.
 */
bool clock_pairs_read(const struct cupti *cupti);

/* The handler of RING_CUPTI_CLOCK. */
uint64_t clock_pairs_event(struct writer *w, const struct ring *r, uint64_t position);

/* Collector's thread, or the child of a fork. */
void clock_pairs_reset(void);

#endif
