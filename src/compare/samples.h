/*
 * samples.h: what a difference between two small samples is worth, such as a quantity of the runs
 * of two sides.
 *
 * If a sample has fewer than SAMPLES_FEW values, the test is Student's t, in which an assumed
 * spread counts like SAMPLES_ASSUMED further degrees of freedom, because the values' own spread is
 * hardly known or not at all: two pairs of nearly equal values may be chance. Intervals are those
 * of t, and the estimate is the difference of means.
 *
 * Else the test is Mann-Whitney's U (Wilcoxon's rank sum) with midranks, two-sided. While n * m is
 * at most SAMPLES_EXACT it is exact, also with ties: by the number of ways to choose n of the ranks
 * that are there with each sum. Beyond, it is the normal approximation with corrections for ties
 * and continuity. Intervals are percentile bootstraps of the difference of medians, and of it by
 * the median of a.
 */
#ifndef PITOT_COMPARE_SAMPLES_H
#define PITOT_COMPARE_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"

#define SAMPLES_FEW 5u /* the least with which the exact p can be below 0.01 */
#define SAMPLES_ASSUMED 4u
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
	double a, b; /* medians, or means if a sample is small; 0 of an empty sample */
	double ratio; /* (b - a) / a; NAN if a is 0 */
	/* 95 % intervals of the ratio and of b - a. NAN if a sample is empty, or both medians are
	 * 0; of the ratio also if a, or a resampled median of it, is 0. */
	double low, high;
	double change_low, change_high;
	double shift; /* Hodges and Lehmann's estimate of b - a; NAN beyond SAMPLES_EXACT */
	double p; /* two-sided; 1 if a sample is empty */
	/* Of a small sample: the standard error of b - a and its degrees of freedom; else 0. */
	double error;
	unsigned freedom;
	double spread; /* standard deviation of the values; NAN if each sample has at most one */
};

/* The mean of the middle two if the count is even; 0 of an empty sample. -ENOMEM: *out is 0. */
int sample_median(struct sample s, double *out) MUST_USE;

/*
 * Compares b with a. `assumed`: standard deviation of values, of which few are known. The same
 * samples and seed give the same interval. 0 or -ENOMEM.
 */
int sample_compare(struct sample a, struct sample b, double assumed, uint64_t seed,
		   struct sample_difference *out) MUST_USE;

/* The change whose p would be this one, of a small sample. */
double sample_least_change(const struct sample_difference *d, double p);
/*
 * With how many values on each side the change, if it is what it seems, has a smaller p in four of
 * five samples; SAMPLES_FEW to `most`, as of values whose spread is not known.
 */
size_t sample_count_needed(const struct sample_difference *d, double p, size_t most);

/*
 * Benjamini and Hochberg (1995): sets adjusted[i] to the smallest false discovery rate at which
 * p[i] is called a difference. 0 or -ENOMEM.
 */
int sample_adjust(const double *p, size_t count, double *adjusted) MUST_USE;

#endif
