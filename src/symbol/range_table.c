/* range_table.c: cuts nested ranges into pieces, and finds the piece of an address. */
#include "symbol/range_table.h"

#include "base/search.h"

int range_table_add(struct range_table *t, struct range range)
{
	if (range.start >= range.end)
		return 0;
	return vec_push(&t->ranges, range);
}

/* Outer ranges come before the ranges inside of them. */
ORDER(outer_first, struct range, UP(start) ?: DOWN(end) ?: DOWN(order) ?: DOWN(value))

/* Most tables are filled in order. */
static void sort(struct range *ranges, size_t count)
{
	size_t i = 1;

	while (i < count && outer_first(&ranges[i - 1], &ranges[i]) <= 0)
		i++;
	if (i < count)
		qsort(ranges, count, sizeof(*ranges), outer_first);
}

struct cutter {
	struct range_table *t;
	VEC(uint32_t) open; /* indexes of ranges at the current position, innermost last */
};

/* Starts a piece. The arrays are large enough: two pieces per range, and a last one. */
static void append_piece(struct range_table *t, uint64_t start, uint32_t value)
{
	if (t->count && t->starts[t->count - 1] == start)
		t->count--;
	if (t->count ? t->values[t->count - 1] == value : value == RANGE_NONE)
		return;
	t->starts[t->count] = start;
	t->values[t->count++] = value;
}

/* Closes the ranges that end at or before `position`. */
static void close_until(struct cutter *c, uint64_t position)
{
	const struct range *ranges = c->t->ranges.data;

	while (c->open.count && ranges[c->open.data[c->open.count - 1]].end <= position) {
		uint64_t end = ranges[c->open.data[--c->open.count]].end;

		/* Ranges around it that ended before are closed as well. */
		while (c->open.count && ranges[c->open.data[c->open.count - 1]].end <= end)
			c->open.count--;
		append_piece(c->t, end,
			     c->open.count ? ranges[c->open.data[c->open.count - 1]].value
					   : RANGE_NONE);
	}
}

int range_table_finish(struct range_table *t)
{
	struct cutter c = { .t = t };
	size_t count = t->ranges.count;

	if (count == 0)
		return 0;
	if (count > UINT32_MAX / 2)
		return -ENOMEM;
	sort(t->ranges.data, count);
	t->starts = malloc((2 * count + 1) * sizeof(*t->starts));
	t->values = malloc((2 * count + 1) * sizeof(*t->values));
	if (!t->starts || !t->values)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++) {
		close_until(&c, t->ranges.data[i].start);
		append_piece(t, t->ranges.data[i].start, t->ranges.data[i].value);
		if (vec_push(&c.open, (uint32_t)i) < 0) {
			vec_release(&c.open);
			return -ENOMEM;
		}
	}
	close_until(&c, UINT64_MAX);
	vec_release(&c.open);
	vec_release(&t->ranges);
	return 0;
}

void range_table_release(struct range_table *t)
{
	vec_release(&t->ranges);
	free(t->starts);
	free(t->values);
	*t = (struct range_table)RANGE_TABLE_INIT;
}

uint32_t range_table_find(const struct range_table *t, uint64_t address)
{
	const uint64_t *first = t->starts;
	size_t count = t->count;

	if (!count || address < *first)
		return RANGE_NONE;
	/* Invariant: the piece is in first[0 … count). */
	while (count > 1) {
		size_t half = count / 2;

		first += first[half] <= address ? half : 0;
		count -= half;
	}
	return t->values[first - t->starts];
}
