#include "compare/determinism.h"

#include <stdlib.h>

#include "base/map.h"

#define EDITS_MAX 4000u /* inserted and deleted steps that are counted for one sequence */

/* --- kernels in any order --- */

static int count_kernels(const struct launch_order *o, struct map *counts, uint64_t one)
{
	for (size_t i = 0; i < o->streams.count; i++)
		for (size_t k = 0; k < o->streams.data[i].steps.count; k++) {
			const struct launch_step *s = &o->streams.data[i].steps.data[k];
			uint64_t *count;

			if (o->report.causes.tasks.data[s->task].kind != GPU_WORK_kernel)
				continue;
			count = map_at(counts, s->what, 0);
			if (!count)
				return -ENOMEM;
			*count += one;
		}
	return 0;
}

/* Each kind of kernel once: adds what one run has more of, and marks it as seen. */
static void add_up(struct determinism *d, const struct launch_order *o, struct map *counts)
{
	for (size_t i = 0; i < o->streams.count; i++)
		for (size_t k = 0; k < o->streams.data[i].steps.count; k++) {
			uint64_t more = 0;

			if (!map_remove(counts, o->streams.data[i].steps.data[k].what, &more))
				continue;
			if ((int64_t)more > 0)
				d->only_a += more;
			else
				d->only_b += -more;
		}
}

static int compare_kernels(struct determinism *d)
{
	struct map counts = MAP_INIT;
	int code = count_kernels(d->a, &counts, 1);

	if (code >= 0)
		code = count_kernels(d->b, &counts, UINT64_MAX);
	if (code >= 0) {
		add_up(d, d->a, &counts);
		add_up(d, d->b, &counts);
	}
	map_release(&counts);
	d->levels[LEVEL_kernels] = d->only_a || d->only_b ? LEVEL_DIFFERENT : LEVEL_SAME;
	return code;
}

/* --- sequences --- */

static bool is_equal(const struct launch_step *a, const struct launch_step *b, bool waits)
{
	return a->what == b->what && (!waits || a->waits == b->waits);
}

/*
 * Counts the fewest steps to insert and delete, after `at`, by Myers' greedy algorithm: its d-th
 * pass finds how far each diagonal gets with d edits.
 */
static int count_edits(const struct launch_sequence *a, const struct launch_sequence *b,
		       struct order_difference *out, bool waits)
{
	int64_t n = (int64_t)(a->steps.count - out->at), m = (int64_t)(b->steps.count - out->at);
	const struct launch_step *x = a->steps.data + out->at, *y = b->steps.data + out->at;
	_cleanup_free_ int64_t *far = calloc(2 * EDITS_MAX + 3, sizeof(*far));
	int64_t *at = far ? far + EDITS_MAX + 1 : NULL, edits;

	if (!far)
		return -ENOMEM;
	for (edits = 0; edits <= EDITS_MAX; edits++)
		for (int64_t k = -edits; k <= edits; k += 2) {
			int64_t i = k == -edits || (k != edits && at[k - 1] < at[k + 1])
					    ? at[k + 1]
					    : at[k - 1] + 1,
				j = i - k;

			while (i < n && j < m && j >= 0 && is_equal(&x[i], &y[j], waits)) {
				i++;
				j++;
			}
			at[k] = i;
			if (i >= n && j >= m) {
				out->deleted = (uint64_t)(edits + n - m) / 2;
				out->inserted = (uint64_t)(edits - n + m) / 2;
				return 0;
			}
		}
	out->is_limited = true;
	out->deleted = out->inserted = EDITS_MAX / 2;
	return 0;
}

static int compare_sequence(struct determinism *d, enum determinism_level level, size_t index,
			    const struct launch_sequence *a, const struct launch_sequence *b)
{
	static const struct launch_sequence none = { 0 };
	struct order_difference found = { .level = level, .sequence = index };
	bool waits = level == LEVEL_dependencies;
	size_t both;

	a = a ? a : &none;
	b = b ? b : &none;
	both = MIN(a->steps.count, b->steps.count);
	while (found.at < both &&
	       is_equal(&a->steps.data[found.at], &b->steps.data[found.at], waits))
		found.at++;
	if (found.at == a->steps.count && found.at == b->steps.count)
		return 0;
	d->levels[level] = LEVEL_DIFFERENT;
	if (count_edits(a, b, &found, waits) < 0)
		return -ENOMEM;
	return vec_push(&d->differences, found);
}

static int compare_all(struct determinism *d, enum determinism_level level,
		       const struct launch_sequence *a, size_t a_count,
		       const struct launch_sequence *b, size_t b_count)
{
	int code = 0;

	for (size_t i = 0; i < MAX(a_count, b_count) && code >= 0; i++)
		code = compare_sequence(d, level, i, i < a_count ? &a[i] : NULL,
					i < b_count ? &b[i] : NULL);
	return code;
}

int determinism_init(struct determinism *d, struct launch_order *a, struct launch_order *b)
{
	int code;

	*d = (struct determinism){ .a = a, .b = b, .reached = -1 };
	code = compare_kernels(d);
	if (code >= 0)
		code = compare_all(d, LEVEL_threads, a->threads.data, a->threads.count,
				   b->threads.data, b->threads.count);
	for (enum determinism_level level = LEVEL_streams; level <= LEVEL_dependencies && code >= 0;
	     level++)
		code = compare_all(d, level, a->streams.data, a->streams.count, b->streams.data,
				   b->streams.count);
	if (code >= 0)
		code = compare_all(d, LEVEL_allocations, &a->allocations, 1, &b->allocations, 1);
	if (!a->has_allocations && !b->has_allocations)
		d->levels[LEVEL_allocations] = LEVEL_UNKNOWN;
	while (d->reached + 1 < LEVEL_COUNT && d->levels[d->reached + 1] == LEVEL_SAME)
		d->reached++;
	return code;
}

void determinism_release(struct determinism *d)
{
	vec_release(&d->differences);
}
