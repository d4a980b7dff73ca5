#include "analysis/stats.h"

static void swap(uint64_t *a, uint64_t *b)
{
	uint64_t t = *a;

	*a = *b;
	*b = t;
}

static uint64_t median_of_three(uint64_t a, uint64_t b, uint64_t c)
{
	return MAX(MIN(a, b), MIN(MAX(a, b), c));
}

/*
 * Quickselect. Equal values, which durations are full of, stay in the middle part: both scans stop
 * at the pivot's value, so the parts stay balanced. The pivot is the median of three values at
 * places that a mixed counter picks, so that no recording can be made that is slow on purpose.
 */
uint64_t stats_select(uint64_t *values, size_t count, size_t k)
{
	size_t low = 0, high = count - 1;
	uint64_t mix = count;

	while (low < high) {
		size_t span = high - low + 1, i = low, j = high;
		uint64_t pivot;

		mix = mix * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		pivot = median_of_three(values[low + (mix >> 33) % span], values[low + span / 2],
					values[low + (mix >> 13) % span]);
		for (;;) {
			while (values[i] < pivot)
				i++;
			while (values[j] > pivot)
				j--;
			if (i >= j)
				break;
			swap(&values[i++], &values[j--]);
		}
		/* low … j is at most the pivot, j + 1 … high is at least the pivot. */
		if (i == j && k == i)
			return values[k];
		if (k <= j)
			high = j;
		else
			low = j + 1;
	}
	return values[k];
}

static size_t rank_of(size_t count, unsigned percent)
{
	return (size_t)(((unsigned __int128)count * percent + 99) / 100) - 1;
}

struct duration_stats stats_of(uint64_t *values, size_t count)
{
	struct duration_stats s = { .count = count };

	if (!count)
		return s;
	s.min_ns = UINT64_MAX;
	for (size_t i = 0; i < count; i++) {
		s.total_ns += values[i];
		s.min_ns = MIN(s.min_ns, values[i]);
		s.max_ns = MAX(s.max_ns, values[i]);
	}
	s.median_ns = stats_select(values, count, rank_of(count, 50));
	s.p99_ns = stats_select(values, count, rank_of(count, 99));
	return s;
}

uint64_t stats_mean_ns(const struct duration_stats *s)
{
	return s->count ? s->total_ns / s->count : 0;
}
