#include "analysis/stats.h"

#include <stdlib.h>

#include "base/search.h"

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
 * Quickselect. Both scans stop at the pivot's value, so the parts remain balanced with many equal
 * values, which are common among durations. The pivot is the median of three pseudo-random values,
 * so no recording can be constructed that is slow on purpose.
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
		/* values at low … j are at most the pivot, at j + 1 … high at least the pivot */
		if (i == j && k == i)
			return values[k];
		if (k <= j)
			high = j;
		else
			low = j + 1;
	}
	return values[k];
}

int durations_reserve(struct durations *d)
{
	size_t kept = 0;

	if (d->small.count < DURATIONS_COUNTED_NS)
		return vec_reserve(&d->small, 1);
	d->counts = calloc(DURATIONS_COUNTED_NS, sizeof(*d->counts));
	if (!d->counts)
		return -ENOMEM;
	for (size_t i = 0; i < d->small.count; i++)
		if (d->small.data[i] < DURATIONS_COUNTED_NS)
			d->counts[d->small.data[i]]++;
		else
			d->small.data[kept++] = d->small.data[i];
	d->small.count = kept;
	return 0;
}

/* Index of a percentile, by nearest rank. */
static size_t rank_of(uint64_t count, unsigned percent)
{
	return (size_t)(((unsigned __int128)count * percent + 99) / 100) - 1;
}

/* The k-th smallest of the counted values. */
static uint64_t counted_at(const struct durations *d, size_t k)
{
	uint32_t ns = 0;

	while (k >= d->counts[ns])
		k -= d->counts[ns++];
	return ns;
}

/*
 * The k-th smallest value. `counted` values are in the counters; values before index `from` are
 * known not to be greater. The large values are sorted.
 */
static uint64_t value_at(struct durations *d, size_t counted, size_t from, size_t k)
{
	if (k < counted)
		return counted_at(d, k);
	from = MAX(from, counted) - counted;
	k -= counted;
	return k < d->small.count
		       ? stats_select(d->small.data + from, d->small.count - from, k - from)
		       : d->large.data[k - d->small.count];
}

static void add_equal(struct duration_stats *s, uint64_t ns, uint64_t count)
{
	s->count += count;
	s->total_ns += count * ns;
	s->min_ns = MIN(s->min_ns, ns);
	s->max_ns = MAX(s->max_ns, ns);
}

struct duration_stats durations_stats(struct durations *d)
{
	struct duration_stats s = { .min_ns = UINT64_MAX };
	size_t counted, median;

	for (uint32_t ns = 0; d->counts && ns < DURATIONS_COUNTED_NS; ns++)
		if (d->counts[ns])
			add_equal(&s, ns, d->counts[ns]);
	counted = s.count;
	for (size_t i = 0; i < d->small.count; i++)
		add_equal(&s, d->small.data[i], 1);
	for (size_t i = 0; i < d->large.count; i++)
		add_equal(&s, d->large.data[i], 1);
	if (!s.count)
		return (struct duration_stats){ 0 };
	vec_sort(&d->large, order_u64);
	median = rank_of(s.count, 50);
	s.median_ns = value_at(d, counted, 0, median);
	s.p99_ns = value_at(d, counted, median, rank_of(s.count, 99));
	return s;
}

void durations_release(struct durations *d)
{
	free(d->counts);
	d->counts = NULL;
	vec_release(&d->small);
	vec_release(&d->large);
}

uint64_t stats_mean_ns(const struct duration_stats *s)
{
	return s->count ? s->total_ns / s->count : 0;
}
