/*
 * cupti_clock.h: converts CUPTI's time to CLOCK_MONOTONIC. Collector thread only.
 *
 * CUPTI's time is CLOCK_REALTIME unless a timestamp callback is registered, which gives zero kernel
 * times on CUPTI 12.6 to 13.0. So pairs (cuptiGetTimestamp, CLOCK_MONOTONIC) are read while
 * recording, and a time is converted with the offset interpolated between the two pairs around it.
 *
 * A pair whose offset jumps by more than a millisecond tells of a clock that was set: it is
 * counted, and the pairs before and after it are runs that have nothing to do with each other. A
 * time belongs to the latest run that reaches it, and between runs or beyond all of them to the one
 * with the nearest pair. After a clock was set back the same times come twice: they are taken for
 * the later ones, because records come soon.
 */
#ifndef PITOT_CAPTURE_CUDA_CUPTI_CLOCK_H
#define PITOT_CAPTURE_CUDA_CUPTI_CLOCK_H

#include <stdbool.h>

#include "base/compiler.h"

void cupti_clock_reset(void);
/* Adds a pair of times of one moment. */
void cupti_clock_add(uint64_t cupti_ns, uint64_t monotonic_ns);
/* Without any pair the time comes back as it is. 0 stays 0. */
uint64_t cupti_clock_convert(uint64_t cupti_ns);
/*
 * Both ends of something. A clock that was set in between, or the runs of pairs, do not change how
 * long it took.
 */
void cupti_clock_convert_span(uint64_t start, uint64_t end, uint64_t *start_ns, uint64_t *end_ns);
/* The latest pair's CUPTI time. */
uint64_t cupti_clock_last(void);
/* Jumps since the last call. */
uint64_t cupti_clock_steps(void);

#endif
