#include "compare/samples.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/resample.h"
#include "base/search.h"

static double median_of_sorted(const double *sorted, size_t count)
{
	return count ? (sorted[(count - 1) / 2] + sorted[count / 2]) / 2 : 0;
}

int sample_median(struct sample s, double *out)
{
	_cleanup_free_ double *sorted = s.count ? malloc(s.count * sizeof(*sorted)) : NULL;

	*out = 0;
	if (!s.count)
		return 0;
	if (!sorted)
		return -ENOMEM;
	memcpy(sorted, s.values, s.count * sizeof(*sorted));
	qsort(sorted, s.count, sizeof(*sorted), order_double);
	*out = median_of_sorted(sorted, s.count);
	return 0;
}

/* --- ranks --- */

struct ranked {
	double value;
	uint32_t twice; /* the midrank */
	bool first; /* of sample a */
};

ORDER(by_ranked_value, struct ranked, UP(value))

/* Ranks both samples together. Returns the sum of t^3 - t over ties of t values. */
static double rank_both(struct sample a, struct sample b, struct ranked *all)
{
	size_t count = a.count + b.count, end;
	double ties = 0;

	for (size_t i = 0; i < count; i++)
		all[i] = (struct ranked){ i < a.count ? a.values[i] : b.values[i - a.count], 0,
					  i < a.count };
	qsort(all, count, sizeof(*all), by_ranked_value);
	for (size_t i = 0; i < count; i = end) {
		double tied;

		for (end = i + 1; end < count && all[end].value <= all[i].value; end++)
			;
		for (size_t k = i; k < end; k++)
			all[k].twice = (uint32_t)(i + 1 + end);
		tied = (double)(end - i);
		ties += tied * tied * tied - tied;
	}
	return ties;
}

/* The share of all choices of n of the ranks whose sum is as far from the middle as `sum`. */
static int exact_p(const struct ranked *all, size_t n, size_t count, uint64_t sum, double *p)
{
	size_t width = (count + 1) * count + 1; /* the sum of all ranks, twice, is the last */
	double *ways = calloc((n + 1) * width, sizeof(*ways)), total = 0, far = 0;
	double middle = (double)n * (double)(count + 1), distance = fabs((double)sum - middle);

	if (!ways)
		return -ENOMEM;
	ways[0] = 1;
	for (size_t i = 0; i < count; i++)
		for (size_t k = MIN(i + 1, n); k > 0; k--)
			for (size_t s = width - 1; s >= all[i].twice; s--)
				ways[k * width + s] += ways[(k - 1) * width + s - all[i].twice];
	for (size_t s = 0; s < width; s++) {
		total += ways[n * width + s];
		far += fabs((double)s - middle) >= distance ? ways[n * width + s] : 0;
	}
	*p = far / total;
	free(ways);
	return 0;
}

static double normal_p(size_t n, size_t m, uint64_t sum, double ties)
{
	double count = (double)(n + m), product = (double)n * (double)m;
	double distance = fabs((double)sum / 2 - (double)n * (count + 1) / 2) - 0.5;
	double variance = product / 12 * (count + 1 - ties / (count * (count - 1)));

	return variance > 0 ? MIN(erfc(MAX(distance, 0) / sqrt(2 * variance)), 1) : 1;
}

static int test(struct sample a, struct sample b, double *p)
{
	size_t count = a.count + b.count;
	struct ranked *all;
	uint64_t sum = 0;
	double ties;
	int rc = 0;

	*p = 1;
	if (!a.count || !b.count)
		return 0;
	if (a.count > b.count)
		return test(b, a, p);
	all = malloc(count * sizeof(*all));
	if (!all)
		return -ENOMEM;
	ties = rank_both(a, b, all);
	for (size_t i = 0; i < count; i++)
		sum += all[i].first ? all[i].twice : 0;
	if (a.count * b.count <= SAMPLES_EXACT)
		rc = exact_p(all, a.count, count, sum, p);
	else
		*p = normal_p(a.count, b.count, sum, ties);
	free(all);
	return rc;
}

static int find_shift(struct sample a, struct sample b, double *shift)
{
	double *all;

	*shift = NAN;
	if (!a.count || !b.count || a.count * b.count > SAMPLES_EXACT)
		return 0;
	all = malloc(a.count * b.count * sizeof(*all));
	if (!all)
		return -ENOMEM;
	for (size_t i = 0; i < a.count * b.count; i++)
		all[i] = b.values[i % b.count] - a.values[i / b.count];
	qsort(all, a.count * b.count, sizeof(*all), order_double);
	*shift = median_of_sorted(all, a.count * b.count);
	free(all);
	return 0;
}

/* --- bootstrap --- */

/*
 * The median of a sample drawn with replacement. How often each of the sorted values was drawn is
 * enough for it.
 */
static double resampled_median(const double *sorted, size_t count, uint32_t *drawn, uint64_t *state)
{
	size_t seen = 0, i = 0;
	double low;

	memset(drawn, 0, count * sizeof(*drawn));
	for (size_t k = 0; k < count; k++)
		drawn[(uint64_t)((unsigned __int128)resample_random(state) * count >> 64)]++;
	while (seen + drawn[i] <= (count - 1) / 2)
		seen += drawn[i++];
	low = sorted[i];
	while (seen + drawn[i] <= count / 2)
		seen += drawn[i++];
	return (low + sorted[i]) / 2;
}

static int find_intervals(struct sample a, struct sample b, uint64_t seed,
			  struct sample_difference *out)
{
	size_t resamples =
		a.count + b.count > SAMPLES_LARGE ? SAMPLES_RESAMPLES_LARGE : SAMPLES_RESAMPLES;
	_cleanup_free_ double *sorted =
		malloc((a.count + b.count + 2 * resamples) * sizeof(*sorted));
	_cleanup_free_ uint32_t *drawn = malloc((MAX(a.count, b.count) + 1) * sizeof(*drawn));
	double *changes = sorted + a.count + b.count, *ratios = changes + resamples;
	bool has_ratios = out->a != 0;
	int rc = sorted && drawn ? 0 : -ENOMEM;

	if (rc == 0 && a.count && b.count && (out->a != 0 || out->b != 0)) {
		memcpy(sorted, a.values, a.count * sizeof(*sorted));
		memcpy(sorted + a.count, b.values, b.count * sizeof(*sorted));
		qsort(sorted, a.count, sizeof(*sorted), order_double);
		qsort(sorted + a.count, b.count, sizeof(*sorted), order_double);
		for (size_t i = 0; i < resamples; i++) {
			double of_a = resampled_median(sorted, a.count, drawn, &seed);

			changes[i] =
				resampled_median(sorted + a.count, b.count, drawn, &seed) - of_a;
			has_ratios &= of_a != 0;
			ratios[i] = has_ratios ? changes[i] / of_a : 0;
		}
		resample_bounds(changes, resamples, &out->change_low, &out->change_high);
		if (has_ratios)
			resample_bounds(ratios, resamples, &out->low, &out->high);
	}
	return rc;
}

/* --- few values --- */

/* Two-sided, by the finite series for whole degrees of freedom (Abramowitz and Stegun, 26.7). */
static double student_p(double t, unsigned freedom)
{
	double angle = atan(t / sqrt(freedom)), cosine = cos(angle), sum = 0;
	double term = freedom % 2 ? cosine : 1;

	for (unsigned k = freedom % 2 + 1; k < freedom; k += 2) {
		sum += term;
		term *= cosine * cosine * k / (k + 1);
	}
	sum *= sin(angle);
	return MAX(1 - (freedom % 2 ? (angle + sum) * M_2_PI : sum), 0);
}

static double student_t(double p, unsigned freedom)
{
	double low = 0, high = 1e6;

	for (unsigned i = 0; i < 80; i++) {
		double middle = (low + high) / 2;

		if (student_p(middle, freedom) > p)
			low = middle;
		else
			high = middle;
	}
	return high;
}

static double mean_of(struct sample s)
{
	double sum = 0;

	for (size_t i = 0; i < s.count; i++)
		sum += s.values[i];
	return s.count ? sum / (double)s.count : 0;
}

static double squares_of(struct sample s, double mean)
{
	double sum = 0;

	for (size_t i = 0; i < s.count; i++)
		sum += (s.values[i] - mean) * (s.values[i] - mean);
	return sum;
}

#define OWN_MIN 3u /* degrees of freedom, below which a small spread is no evidence */

static void compare_few(struct sample a, struct sample b, double assumed,
			struct sample_difference *out)
{
	double mean_a = mean_of(a), mean_b = mean_of(b), change = mean_b - mean_a, variance;
	double squares = squares_of(a, mean_a) + squares_of(b, mean_b);
	unsigned own = (unsigned)(a.count + b.count - 2);

	out->a = mean_a;
	out->b = mean_b;
	out->freedom = SAMPLES_ASSUMED + own;
	out->spread = own ? sqrt(squares / own) : NAN;
	variance = (SAMPLES_ASSUMED * assumed * assumed + squares) / out->freedom;
	if (own < OWN_MIN)
		variance = MAX(variance, assumed * assumed);
	out->error = sqrt(variance * (1 / (double)a.count + 1 / (double)b.count));
	if (out->error > 0)
		out->p = student_p(fabs(change) / out->error, out->freedom);
	else
		out->p = change != 0 ? 0 : 1;
	if (mean_a == 0 && mean_b == 0)
		return;
	out->change_low = change - sample_least_change(out, 0.05);
	out->change_high = change + sample_least_change(out, 0.05);
	if (mean_a > 0) {
		out->low = out->change_low / mean_a;
		out->high = out->change_high / mean_a;
	}
}

double sample_least_change(const struct sample_difference *d, double p)
{
	return d->error * student_t(p, d->freedom);
}

size_t sample_count_needed(const struct sample_difference *d, double p, size_t most)
{
	static const double power = 0.8416; /* of four in five samples, in standard errors */
	size_t count = SAMPLES_FEW;

	while (count < most && d->spread * sqrt(2 / (double)count) *
					       (student_t(p, (unsigned)(2 * count - 2)) + power) >
				       fabs(d->b - d->a))
		count++;
	return count;
}

int sample_compare(struct sample a, struct sample b, double assumed, uint64_t seed,
		   struct sample_difference *out)
{
	size_t least = MIN(a.count, b.count);
	bool is_few = least && least < SAMPLES_FEW;
	int rc;

	*out = (struct sample_difference){ .p = 1,
					   .low = NAN,
					   .high = NAN,
					   .change_low = NAN,
					   .change_high = NAN,
					   .spread = NAN };
	if (is_few)
		compare_few(a, b, assumed, out);
	rc = is_few ? 0 : sample_median(a, &out->a);
	if (rc == 0 && !is_few)
		rc = sample_median(b, &out->b);
	out->ratio = out->a != 0 ? (out->b - out->a) / out->a : NAN;
	if (rc == 0 && !is_few)
		rc = test(a, b, &out->p);
	if (rc == 0)
		rc = find_shift(a, b, &out->shift);
	return rc < 0 || is_few ? rc : find_intervals(a, b, seed, out);
}

/* --- many tests --- */

struct p_value {
	double p;
	size_t index;
};

ORDER(by_p, struct p_value, UP(p))

int sample_adjust(const double *p, size_t count, double *adjusted)
{
	_cleanup_free_ struct p_value *sorted = malloc((count + 1) * sizeof(*sorted));
	double least = 1;

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		sorted[i] = (struct p_value){ p[i], i };
	qsort(sorted, count, sizeof(*sorted), by_p);
	for (size_t i = count; i-- > 0;) {
		least = MIN(least, sorted[i].p * (double)count / (double)(i + 1));
		adjusted[sorted[i].index] = least;
	}
	return 0;
}
