#include "analysis/stats.h"

#include <stdlib.h>

static void swap(uint32_t *a, uint32_t *b)
{
	uint32_t t = *a;

	*a = *b;
	*b = t;
}

static uint32_t median_of_three(uint32_t a, uint32_t b, uint32_t c)
{
	return MAX(MIN(a, b), MIN(MAX(a, b), c));
}

/*
 * Quickselect. Equal values, which durations are full of, stay in the middle part: both scans stop
 * at the pivot's value, so the parts stay balanced. The pivot is the median of three values at
 * places that a mixed counter picks, so that no recording can be made that is slow on purpose.
 */
uint32_t stats_select(uint32_t *values, size_t count, size_t k)
{
	size_t low = 0, high = count - 1;
	uint64_t mix = count;

	while (low < high) {
		size_t span = high - low + 1, i = low, j = high;
		uint32_t pivot;

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

static int compare(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* By nearest rank. */
static size_t rank_of(const struct durations *d, unsigned percent)
{
	size_t count = d->small.count + d->large.count;

	return (size_t)(((unsigned __int128)count * percent + 99) / 100) - 1;
}

/* The value at position k; what stands before position `from` is no greater. The large ones are sorted. */
static uint64_t value_at(struct durations *d, size_t from, size_t k)
{
	return k < d->small.count
		       ? stats_select(d->small.data + from, d->small.count - from, k - from)
		       : d->large.data[k - d->small.count];
}

struct duration_stats durations_stats(struct durations *d)
{
	struct duration_stats s = { .count = d->small.count + d->large.count,
				    .min_ns = UINT64_MAX };

	if (!s.count)
		return (struct duration_stats){ 0 };
	for (size_t i = 0; i < d->small.count; i++) {
		s.total_ns += d->small.data[i];
		s.min_ns = MIN(s.min_ns, d->small.data[i]);
		s.max_ns = MAX(s.max_ns, d->small.data[i]);
	}
	for (size_t i = 0; i < d->large.count; i++)
		s.total_ns += d->large.data[i];
	if (d->large.count) {
		qsort(d->large.data, d->large.count, sizeof(*d->large.data), compare);
		s.min_ns = MIN(s.min_ns, d->large.data[0]);
		s.max_ns = d->large.data[d->large.count - 1];
	}
	s.median_ns = value_at(d, 0, rank_of(d, 50));
	s.p99_ns = value_at(d, rank_of(d, 50), rank_of(d, 99));
	return s;
}

void durations_release(struct durations *d)
{
	vec_release(&d->small);
	vec_release(&d->large);
}

uint64_t stats_mean_ns(const struct duration_stats *s)
{
	return s->count ? s->total_ns / s->count : 0;
}
