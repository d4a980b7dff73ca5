/*
 * resample.h: intervals by resampling (bootstrap): values of samples that are drawn again with
 * replacement. The same seed gives the same ones.
 */
#ifndef PITOT_BASE_RESAMPLE_H
#define PITOT_BASE_RESAMPLE_H

#include <stddef.h>
#include <stdint.h>

/* The next number of a sequence; *state: a seed before the first one. */
uint64_t resample_random(uint64_t *state);
/* Sorts the values, at least one, and sets the bounds within which 95 % of them lie. */
void resample_bounds(double *values, size_t count, double *low, double *high);

#endif
