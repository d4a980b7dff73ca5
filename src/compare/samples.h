/*
 * samples.h: what a difference between two small samples is worth, such as a quantity of the runs
 * of two sides.
 *
 * The test is Mann-Whitney's U (Wilcoxon's rank sum) with midranks, two-sided. While n * m is at
 * most SAMPLES_EXACT it is exact, also with ties: by the number of ways to choose n of the ranks
 * that are there with each sum. Beyond, it is the normal approximation with corrections for ties
 * and continuity. Intervals are percentile bootstraps of the difference of
 * medians, and of it by the median of a.
 */
#ifndef PITOT_COMPARE_SAMPLES_H
#define PITOT_COMPARE_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define SAMPLES_EXACT 400u
#define SAMPLES_RESAMPLES 10000u
/* Of large samples, whose intervals need no more. */
#define SAMPLES_RESAMPLES_LARGE 1000u
#define SAMPLES_LARGE 200u

struct sample {
	const double *values; /* finite */
	size_t count;
};

struct sample_difference {
	double a, b; /* medians; 0 of an empty sample */
	double ratio; /* (b - a) / a; NAN if a is 0 */
	/* 95 % intervals of the ratio and of b - a. NAN if a side has less than two values, or both
	 * medians are 0; of the ratio also if a resampled median of a is 0. */
	double low, high;
	double change_low, change_high;
	double shift; /* Hodges and Lehmann's estimate of b - a; NAN beyond SAMPLES_EXACT */
	double p; /* two-sided; 1 if a sample is empty */
};

/* The mean of the middle two if the count is even; 0 of an empty sample. -ENOMEM: *out is 0. */
int sample_median(struct sample s, double *out) MUST_USE;

/*
 * Compares b with a. The same samples and seed give the same interval. 0 or -ENOMEM.
 */
int sample_compare(struct sample a, struct sample b, uint64_t seed,
		   struct sample_difference *out) MUST_USE;

/*
 * Benjamini and Hochberg (1995): sets adjusted[i] to the smallest false discovery rate at which
 * p[i] is called a difference. 0 or -ENOMEM.
 */
int sample_adjust(const double *p, size_t count, double *adjusted) MUST_USE;

#endif
