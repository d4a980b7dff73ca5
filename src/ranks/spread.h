/*
 * spread.h: which of several ranks differs from the others in a measure, by robust z-scores: the
 * distance to the median by the median absolute deviation, which a few ranks that differ much do
 * not move. Values that are not finite are unknown.
 */
#ifndef PITOT_RANKS_SPREAD_H
#define PITOT_RANKS_SPREAD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/compiler.h"

#define SPREAD_VALUES_MIN 4 /* of fewer values none is an outlier */
#define SPREAD_OUTLIER 3.5 /* score from which on a value is one */

struct spread {
	size_t known;
	double median; /* NaN: no value is known */
	double deviation; /* by which a score counts; 0: all distances are infinite */
};

/* 0 or -ENOMEM. */
int spread_find(const double *values, size_t count, struct spread *out) MUST_USE;
/* Makes values outliers only if they differ by more than `least`, however equal the others are. */
void spread_limit(struct spread *s, double least);
/* The robust z-score of a value; NaN if it or the median is unknown. */
double spread_score(const struct spread *s, double value);
bool spread_is_outlier(const struct spread *s, double value);

#endif
