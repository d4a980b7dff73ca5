/*
 * host_clock.c: times are centred before anything is multiplied: nanoseconds since the start of a
 * host squared do not fit a double.
 */
#include "ranks/host_clock.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/search.h"

#define BINS 20
#define SPANS 8 /* of time, each with its own bounds, because the fitted rate has an error, too */
#define SPAN_MEETINGS 25
#define BIN_MEETINGS 5 /* at least: so that a median removes outliers */

/* Times of a damaged recording are arbitrary: sums and differences wrap. */
static int64_t plus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t minus(int64_t a, int64_t b)
{
	return (int64_t)((uint64_t)a - (uint64_t)b);
}

static uint64_t magnitude(int64_t a)
{
	return a < 0 ? -(uint64_t)a : (uint64_t)a;
}

static int64_t end_difference(const struct host_meeting *m)
{
	return (int64_t)(m->host.median_end_ns - m->reference.median_end_ns);
}

ORDER(compare_meetings, struct host_meeting, UP(reference.median_end_ns))

/* The median of the differences of ends, minus `base`, and the mean of their times. */
static void find_bin(const struct host_meeting *m, size_t count, int64_t *scratch, uint64_t center,
		     double *time, double *difference)
{
	double times = 0;

	for (size_t i = 0; i < count; i++) {
		scratch[i] = minus(end_difference(&m[i]), end_difference(m));
		times += (double)(int64_t)(m[i].reference.median_end_ns - center);
	}
	qsort(scratch, count, sizeof(*scratch), order_i64);
	*time = times / (double)count;
	*difference = (double)scratch[count / 2];
}

/* A line by least squares through the medians of bins; the offset is relative to `base`. */
static struct host_clock_piece fit_line(const struct host_meeting *m, size_t count,
					int64_t *scratch)
{
	struct host_clock_piece line = { .until_ns = UINT64_MAX };
	uint64_t first = m->reference.median_end_ns;
	int64_t base = end_difference(m);
	size_t bins = MIN(MAX(count / BIN_MEETINGS, 1), BINS);
	double t[BINS], d[BINS], mean_t = 0, mean_d = 0, tt = 0, td = 0;

	line.center_ns = first + (m[count - 1].reference.median_end_ns - first) / 2;
	for (size_t b = 0; b < bins; b++) {
		size_t from = count * b / bins, to = count * (b + 1) / bins;

		find_bin(m + from, to - from, scratch, line.center_ns, &t[b], &d[b]);
		d[b] += (double)minus(end_difference(&m[from]), base);
		mean_t += t[b] / (double)bins;
		mean_d += d[b] / (double)bins;
	}
	for (size_t b = 0; b < bins; b++) {
		tt += (t[b] - mean_t) * (t[b] - mean_t);
		td += (t[b] - mean_t) * (d[b] - mean_d);
	}
	line.rate = tt > 0 ? td / tt : 0;
	line.offset_ns = plus(base, llround(mean_d - line.rate * mean_t));
	return line;
}

static int64_t offset_at(const struct host_clock_piece *line, uint64_t reference_ns)
{
	double since = (double)(int64_t)(reference_ns - line->center_ns);

	return plus(line->offset_ns, llround(line->rate * since));
}

/* The offset minus the line is within [*low, *high]. */
static void find_bounds(const struct host_meeting *m, size_t count,
			const struct host_clock_piece *line, int64_t *low, int64_t *high)
{
	*low = INT64_MIN;
	*high = INT64_MAX;
	for (size_t i = 0; i < count; i++) {
		const struct host_times *r = &m[i].reference, *h = &m[i].host;
		int64_t offset = offset_at(line, r->median_end_ns);

		*low = MAX(*low, minus((int64_t)(h->last_start_ns - r->first_end_ns), offset));
		*high = MIN(*high, minus((int64_t)(h->first_end_ns - r->last_start_ns), offset));
	}
}

/* The split after which two lines fit best, by the sum of absolute residuals of the ends. */
static size_t find_step(const struct host_meeting *m, size_t count)
{
	uint64_t largest = 0;
	size_t at = count / 2;

	/* A step is the largest change from one half of a neighbourhood to the other. */
	for (size_t i = HOST_CLOCK_MEETINGS_MIN; i + HOST_CLOCK_MEETINGS_MIN <= count; i++) {
		int64_t before = 0, after = 0;

		for (size_t k = 0; k < HOST_CLOCK_MEETINGS_MIN; k++) {
			before = plus(before,
				      minus(end_difference(&m[i - 1 - k]), end_difference(m)));
			after = plus(after, minus(end_difference(&m[i + k]), end_difference(m)));
		}
		if (magnitude(minus(after, before)) > largest) {
			largest = magnitude(minus(after, before));
			at = i;
		}
	}
	return at;
}

/* Fits a line, or several where one contradicts the bounds. False: there are none that fit. */
static bool fit(const struct host_meeting *m, size_t count, int64_t *scratch,
		struct host_clock *out)
{
	struct host_clock_piece line;
	size_t spans = MIN(MAX(count / SPAN_MEETINGS, 1), SPANS), step;
	int64_t low, high;

	if (count < HOST_CLOCK_MEETINGS_MIN || out->count == HOST_CLOCK_PIECES)
		return false;
	line = fit_line(m, count, scratch);
	find_bounds(m, count, &line, &low, &high);
	if (low <= high) {
		/* The offset is within the bounds, so the line is moved to them. */
		int64_t moved = MAX(low, MIN(high, 0));

		line.offset_ns = plus(line.offset_ns, moved);
		for (size_t i = 0; i < spans; i++) {
			size_t from = count * i / spans;

			find_bounds(m + from, count * (i + 1) / spans - from, &line, &low, &high);
			out->uncertainty_ns =
				MAX(out->uncertainty_ns, MAX(magnitude(high), magnitude(low)));
		}
		out->pieces[out->count++] = line;
		return true;
	}
	step = find_step(m, count);
	if (!fit(m, step, scratch, out))
		return false;
	out->pieces[out->count - 1].until_ns = m[step].reference.last_start_ns;
	return fit(m + step, count - step, scratch, out);
}

/* The clock by the limit alone, as far as the meetings do not bound it more. */
static bool fit_limit(const struct host_meeting *m, size_t count, uint64_t limit_ns,
		      struct host_clock *out)
{
	struct host_clock_piece line = { .until_ns = UINT64_MAX };
	int64_t low, high, limit = (int64_t)limit_ns;

	if (limit_ns > INT64_MAX)
		return false;
	find_bounds(m, count, &line, &low, &high);
	low = MAX(low, -limit);
	high = MIN(high, limit);
	line.offset_ns = MAX(low, MIN(high, 0));
	out->pieces[0] = line;
	out->uncertainty_ns =
		MAX(magnitude(high - line.offset_ns), magnitude(low - line.offset_ns));
	out->count = low <= high;
	out->by_limit = true;
	return out->count;
}

/* The limit makes the uncertainty of a line smaller, unless the line is beyond it. */
static void add_limit(const struct host_meeting *m, size_t count, uint64_t limit_ns,
		      struct host_clock *c)
{
	uint64_t first = magnitude(offset_at(c->pieces, m[0].reference.median_end_ns));
	uint64_t last = magnitude(offset_at(c->pieces, m[count - 1].reference.median_end_ns));

	if (c->count == 1 && MAX(first, last) <= limit_ns && limit_ns <= INT64_MAX)
		c->uncertainty_ns = MIN(c->uncertainty_ns, MAX(first, last) + limit_ns);
}

int host_clock_fit(struct host_meeting *meetings, size_t count, uint64_t limit_ns,
		   struct host_clock *out)
{
	_cleanup_free_ int64_t *scratch = NULL;

	*out = (struct host_clock){ .meetings = count };
	if (count < HOST_CLOCK_MEETINGS_MIN && fit_limit(meetings, count, limit_ns, out))
		return 1;
	*out = (struct host_clock){ .meetings = count };
	if (count < HOST_CLOCK_MEETINGS_MIN)
		return 0;
	scratch = malloc(count * sizeof(*scratch));
	if (!scratch)
		return -ENOMEM;
	qsort(meetings, count, sizeof(*meetings), compare_meetings);
	if (!fit(meetings, count, scratch, out))
		*out = (struct host_clock){ .meetings = count };
	else
		add_limit(meetings, count, limit_ns, out);
	return out->count > 0;
}

uint64_t host_clock_convert(const struct host_clock *c, uint64_t host_ns)
{
	uint64_t reference_ns = host_ns;

	for (unsigned i = 0; i < c->count; i++) {
		const struct host_clock_piece *p = &c->pieces[i];

		/* The rate is far below 1, so the second round is exact to a nanosecond. */
		reference_ns = host_ns - (uint64_t)p->offset_ns;
		for (int round = 0; round < 2; round++)
			reference_ns = host_ns - (uint64_t)offset_at(p, reference_ns);
		if (reference_ns < p->until_ns)
			break;
	}
	return reference_ns;
}
