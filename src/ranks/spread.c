#include "ranks/spread.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/search.h"

/* The median absolute deviation of normally distributed values, by their standard deviation. */
#define MAD_OF_NORMAL 0.6745

static double median_of(double *values, size_t count)
{
	qsort(values, count, sizeof(*values), order_double);
	return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

int spread_find(const double *values, size_t count, struct spread *out)
{
	_cleanup_free_ double *known = calloc(count + 1, sizeof(*known));

	*out = (struct spread){ .median = NAN };
	if (!known)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		if (isfinite(values[i]))
			known[out->known++] = values[i];
	if (out->known) {
		out->median = median_of(known, out->known);
		for (size_t i = 0; i < out->known; i++)
			known[i] = fabs(known[i] - out->median);
		out->deviation = median_of(known, out->known) / MAD_OF_NORMAL;
	}
	return 0;
}

void spread_limit(struct spread *s, double least)
{
	s->deviation = fmax(s->deviation, least / SPREAD_OUTLIER);
}

double spread_score(const struct spread *s, double value)
{
	double distance = value - s->median;

	return distance == 0 ? 0 : distance / s->deviation;
}

bool spread_is_outlier(const struct spread *s, double value)
{
	return s->known >= SPREAD_VALUES_MIN && fabs(spread_score(s, value)) > SPREAD_OUTLIER;
}
