/*
 * cupti_clock.h: converts CUPTI's time to CLOCK_MONOTONIC, on the collector's thread.
 *
 * CUPTI's time is CLOCK_REALTIME unless a timestamp callback is registered, with which CUPTI 12.6
 * to 13.0 return kernel times of zero. Therefore pairs of cuptiGetTimestamp and CLOCK_MONOTONIC are
 * read while recording, and a time is converted with the offset interpolated between the two pairs
 * around it.
 *
 * If a pair's offset differs by more than a millisecond from the previous one, a clock was set. The
 * step is counted, and it separates two independent runs of pairs. A time belongs to the latest run
 * that reaches it; a time between runs or beyond all of them belongs to the run with the nearest
 * pair. After a clock was set back the same times occur twice: they are taken for the later ones,
 * because records come soon.
 */
#ifndef PITOT_CAPTURE_CUDA_CUPTI_CLOCK_H
#define PITOT_CAPTURE_CUDA_CUPTI_CLOCK_H

#include <stdbool.h>

#include "base/compiler.h"

void cupti_clock_reset(void);
/* Adds a pair: the times of one moment on both clocks. */
void cupti_clock_add(uint64_t cupti_ns, uint64_t monotonic_ns);
/* Converts a time. Without any pair it is returned unchanged; 0 stays 0. */
uint64_t cupti_clock_convert(uint64_t cupti_ns);
/*
 * Converts start and end of an operation, and preserves its duration even if a clock was set in
 * between or the two lie in different runs.
 */
void cupti_clock_convert_span(uint64_t start, uint64_t end, uint64_t *start_ns, uint64_t *end_ns);
/* Returns the latest pair's CUPTI time. */
uint64_t cupti_clock_last(void);
/* Returns the number of steps since the last call. */
uint64_t cupti_clock_steps(void);

#endif
