#include "agent/step_ranges.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/search.h"

#define RECENT_NS (2 * NS_PER_S)

static void add_work(struct step_range *range, const struct step_work *work)
{
	if (work->start_ns < range->start_ns || work->start_ns >= range->end_ns)
		return;
	range->work++;
	range->work_ns += work->duration_ns;
}

/* Ids of ranges are those of the process, levels those of a thread in a domain. */
static bool has_key_of(const struct step_range *range, const struct step_range *other)
{
	return range->key == other->key &&
	       (!(range->key & STEP_LEVEL) ||
		(range->thread == other->thread && range->domain == other->domain));
}

/* An open range with that key has lost its end: how long it took is unknown. */
static void forget_open(struct step_ranges *s, const struct step_range *range)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->items.count; i++) {
		const struct step_range *old = &s->items.data[i];

		if (old->is_closed || !has_key_of(old, range))
			s->items.data[kept++] = *old;
	}
	s->forgotten += s->items.count - kept;
	s->items.count = kept;
}

void step_ranges_open(struct step_ranges *s, const struct step_range *range)
{
	struct step_range new = *range;
	size_t at;

	forget_open(s, range);
	at = s->items.count;
	if (s->items.count >= STEP_RANGES_MAX || vec_push(&s->items, new) < 0) {
		s->forgotten++;
		return;
	}
	while (at > 0 && s->items.data[at - 1].start_ns > new.start_ns)
		at--;
	memmove(&s->items.data[at + 1], &s->items.data[at],
		(s->items.count - 1 - at) * sizeof(new));
	new.end_ns = UINT64_MAX;
	new.is_closed = new.is_complete = false;
	for (size_t i = 0; i < s->recent.count; i++)
		add_work(&new, &s->recent.data[i]);
	s->items.data[at] = new;
}

/* Work that began after the end, but was read before it was known, is not the step's. */
static void take_back(struct step_ranges *s, struct step_range *range)
{
	for (size_t i = 0; i < s->recent.count; i++) {
		const struct step_work *work = &s->recent.data[i];

		if (work->start_ns < range->end_ns || work->start_ns < range->start_ns)
			continue;
		range->work--;
		range->work_ns -= work->duration_ns;
	}
}

void step_ranges_close(struct step_ranges *s, const struct step_range *end)
{
	for (size_t i = s->items.count; i-- > 0;) {
		struct step_range *range = &s->items.data[i];

		if (range->is_closed || !has_key_of(range, end) || range->start_ns > end->end_ns)
			continue;
		range->end_ns = end->end_ns;
		range->is_closed = true;
		take_back(s, range);
		return;
	}
}

ORDER(by_start, struct step_work, UP(start_ns))

static void keep_recent(struct step_ranges *s, const struct step_work *work, size_t count)
{
	size_t kept = 0;

	for (size_t i = 0; i < count; i++)
		s->newest_ns = MAX(s->newest_ns, work[i].start_ns);
	for (size_t i = 0; i < s->recent.count; i++)
		if (s->recent.data[i].start_ns + RECENT_NS >= s->newest_ns)
			s->recent.data[kept++] = s->recent.data[i];
	s->recent.count = kept;
	for (size_t i = 0; i < count; i++)
		if (work[i].start_ns + RECENT_NS >= s->newest_ns)
			(void)!vec_push(&s->recent, work[i]);
}

void step_ranges_add_work(struct step_ranges *s, const struct step_work *work, size_t count)
{
	VEC(struct step_work) sorted = VEC_INIT;
	size_t first = 0;

	if (s->items.count && vec_reserve(&sorted, count) == 0 && count) {
		memcpy(sorted.data, work, count * sizeof(*work));
		sorted.count = count;
		vec_sort(&sorted, by_start);
	}
	for (size_t i = 0; i < s->items.count; i++) { /* by start, as the work is */
		struct step_range *range = &s->items.data[i];

		while (first < sorted.count && sorted.data[first].start_ns < range->start_ns)
			first++;
		for (size_t k = first; k < sorted.count && sorted.data[k].start_ns < range->end_ns;
		     k++)
			add_work(range, &sorted.data[k]);
	}
	vec_release(&sorted);
	keep_recent(s, work, count);
}

int step_ranges_take(struct step_ranges *s, struct step_range *out)
{
	for (size_t i = 0; i < s->items.count; i++) {
		if (!s->items.data[i].is_complete)
			continue;
		*out = s->items.data[i];
		s->items.count--;
		memmove(&s->items.data[i], &s->items.data[i + 1],
			(s->items.count - i) * sizeof(*out));
		return 1;
	}
	return 0;
}

void step_ranges_end_batch(struct step_ranges *s)
{
	for (size_t i = 0; i < s->items.count; i++)
		s->items.data[i].is_complete = s->items.data[i].is_closed;
}

void step_ranges_release(struct step_ranges *s)
{
	vec_release(&s->items);
	vec_release(&s->recent);
	*s = (struct step_ranges){ 0 };
}
