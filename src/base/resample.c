#include "base/resample.h"

#include <stdlib.h>

#include "base/search.h"

/* Steele, Lea and Flood's splitmix64. */
uint64_t resample_random(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	return z ^ z >> 31;
}

void resample_bounds(double *values, size_t count, double *low, double *high)
{
	qsort(values, count, sizeof(*values), order_double);
	*low = values[count / 40];
	*high = values[count - 1 - count / 40];
}
