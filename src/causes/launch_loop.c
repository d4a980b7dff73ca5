#include "causes/launch_loop.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/search.h"

#define CONTEXT 4u /* items by which a place is known */
#define SAME_PERCENT 80u /* of the places of a pass, to be the same as another one */
#define ALIKE_PERCENT 90u /* of the items of a pass in any order, to be like it */
#define LONGER_PERCENT 130u
#define PASSES_PERCENT 80u /* of the stretches between the first pass and the last one */
#define ITEMS_PERCENT 50u /* of the items from the first pass on, in passes */
#define DISTANCE_PERCENT 10u /* by which distances of anchors differ */
#define ANCHORS_MAX 64u /* compared; each costs a look at all items */
#define RUNS_PERCENT 80u /* of the runs of passes between breaks, of equal length */
#define FEW_PASSES 20u /* between breaks */
#define LEAST_PASSES 5u /* between breaks, to be more than a part of a step */
#define SOME_PERCENT 25u /* of the items from the first pass on */
#define SHORT_BREAK 3u /* passes long, at most */

/* The places that look alike: places[first[p]] to places[first[p + 1]]. */
struct places {
	uint32_t *at, *first;
	size_t count;
};

struct anchor {
	uint64_t before_ns; /* in which nothing was launched, before all of its places */
	uint32_t distance; /* median, of its places */
	uint32_t place, regular;
};

/* How often each number occurs in a usual pass. */
struct tally {
	uint32_t *numbers; /* of each item, below `kinds` */
	uint32_t *usual, *seen; /* by number */
	size_t kinds;
};

struct finder {
	const struct launch_item *items;
	uint32_t count;
	struct places places;
	VEC(struct anchor) anchors; /* the best of each distance, the shortest first */
	struct tally items_by, places_by;
	uint32_t usual_length;
	VEC(uint32_t) lengths; /* reused */
};

static uint64_t context_of(const struct finder *f, uint32_t i)
{
	uint64_t hash = 0;

	for (uint32_t k = 0; k < CONTEXT && k <= i; k++)
		hash = hash_u64(hash + f->items[i - k].what + 1);
	return hash;
}

/* Gives equal keys equal numbers. 0 or -ENOMEM. */
static int tally_init(struct tally *t, const struct finder *f, bool by_context)
{
	struct map map = MAP_INIT;
	uint64_t number = 1;

	t->numbers = calloc(f->count + 1u, sizeof(*t->numbers));
	for (uint32_t i = 0; i < f->count && t->numbers && number; i++) {
		number = map_number(&map, by_context ? context_of(f, i) : f->items[i].what);
		t->numbers[i] = (uint32_t)number - 1;
	}
	t->kinds = map.count;
	map_release(&map);
	t->usual = calloc(t->kinds + 1, sizeof(*t->usual));
	t->seen = calloc(t->kinds + 1, sizeof(*t->seen));
	return number && t->numbers && t->usual && t->seen ? 0 : -ENOMEM;
}

static void tally_release(struct tally *t)
{
	free(t->numbers);
	free(t->usual);
	free(t->seen);
}

/* Sorts the places by context. 0 or -ENOMEM. */
static int index_places(struct finder *f)
{
	struct places *p = &f->places;

	p->count = f->places_by.kinds;
	p->at = calloc(f->count + 1u, sizeof(*p->at));
	p->first = calloc(p->count + 2, sizeof(*p->first));
	if (!p->at || !p->first)
		return -ENOMEM;
	for (uint32_t i = 0; i < f->count; i++)
		p->first[f->places_by.numbers[i] + 2]++;
	for (size_t k = 1; k <= p->count; k++)
		p->first[k + 1] += p->first[k];
	for (uint32_t i = 0; i < f->count; i++) /* moves each `first` to the next one */
		p->at[p->first[f->places_by.numbers[i] + 1]++] = i;
	return 0;
}

static int compare_u32(const void *a, const void *b)
{
	return ORDER_OF(*(const uint32_t *)a, *(const uint32_t *)b);
}

/* Sorts f->lengths. */
static uint32_t median_length(struct finder *f)
{
	vec_sort(&f->lengths, compare_u32);
	return f->lengths.data[f->lengths.count / 2];
}

static uint32_t tolerance(uint32_t length)
{
	return MAX(length * (uint64_t)DISTANCE_PERCENT / 100, 1u);
}

/* Measures the distances of a context's places. distance 0: they are not regular. 0 or -ENOMEM. */
static int measure_anchor(struct finder *f, uint32_t place, struct anchor *out)
{
	const uint32_t *at = f->places.at + f->places.first[place];
	uint32_t count = f->places.first[place + 1] - f->places.first[place];

	*out = (struct anchor){ .place = place };
	f->lengths.count = 0;
	for (uint32_t i = 1; i < count; i++)
		if (vec_push(&f->lengths, at[i] - at[i - 1]) < 0)
			return -ENOMEM;
	if (f->lengths.count < LOOP_PASSES_MIN - 1)
		return 0;
	out->distance = median_length(f);
	for (uint32_t i = 0; i < count; i++) {
		uint32_t length = i ? at[i] - at[i - 1] : 0;

		out->regular += i && length + tolerance(out->distance) >= out->distance &&
				length <= out->distance + tolerance(out->distance);
		out->before_ns += at[i] ? f->items[at[i]].at_ns - f->items[at[i] - 1].at_ns : 0;
	}
	if (out->regular * UINT64_C(100) < (count - 1) * (uint64_t)PASSES_PERCENT)
		out->distance = 0;
	return 0;
}

ORDER(shortest_first, struct anchor, UP(distance) ?: DOWN(regular) ?: DOWN(before_ns) ?: UP(place))

/* Of each distance the most regular anchor remains or, of several, that after the longest waits. */
static int find_anchors(struct finder *f)
{
	size_t kept = 0;

	for (uint32_t place = 0; place < f->places.count; place++) {
		struct anchor a;

		if (measure_anchor(f, place, &a) < 0 ||
		    (a.distance && vec_push(&f->anchors, a) < 0))
			return -ENOMEM;
	}
	vec_sort(&f->anchors, shortest_first);
	for (size_t i = 0; i < f->anchors.count; i++)
		if (!kept || f->anchors.data[i].distance != f->anchors.data[kept - 1].distance)
			f->anchors.data[kept++] = f->anchors.data[i];
	f->anchors.count = kept;
	return 0;
}

/* How many numbers of a usual pass this one has. */
static uint32_t count_equal(struct tally *t, struct loop_pass pass)
{
	uint32_t equal = 0;

	for (uint32_t i = pass.first; i < pass.end; i++)
		equal += t->seen[t->numbers[i]]++ < t->usual[t->numbers[i]];
	for (uint32_t i = pass.first; i < pass.end; i++)
		t->seen[t->numbers[i]] = 0;
	return equal;
}

static bool is_part(uint64_t part, uint64_t whole, unsigned percent)
{
	return part * 100 >= whole * percent;
}

static bool has_mark(const struct finder *f, struct loop_pass pass)
{
	for (uint32_t i = pass.first; i < pass.end; i++)
		if (f->items[i].is_marked)
			return true;
	return false;
}

/* From a place of the anchor to the next; as long as usual behind the last one, if that exists. */
static struct loop_pass stretch(const struct finder *f, const struct anchor *a, uint32_t i)
{
	const uint32_t *at = f->places.at + f->places.first[a->place];
	uint32_t count = f->places.first[a->place + 1] - f->places.first[a->place];
	uint64_t end = i + 1 < count ? at[i + 1] : at[i] + (uint64_t)a->distance;

	return (struct loop_pass){ at[i], end > f->count ? at[i] : (uint32_t)end };
}

static void count_usual(struct tally *t, struct loop_pass usual)
{
	memset(t->usual, 0, t->kinds * sizeof(*t->usual));
	for (uint32_t i = usual.first; i < usual.end; i++)
		t->usual[t->numbers[i]]++;
}

/* Finds a stretch of the median length, in the middle of them. */
static void find_usual(struct finder *f, const struct anchor *a)
{
	uint32_t count = f->places.first[a->place + 1] - f->places.first[a->place], i = 0;
	struct loop_pass usual = stretch(f, a, count / 2);

	for (; usual.end - usual.first != a->distance && i < count; i++)
		usual = stretch(f, a, (count / 2 + i) % count);
	f->usual_length = usual.end - usual.first;
	count_usual(&f->items_by, usual);
	count_usual(&f->places_by, usual);
}

/* How breaks recur; run: passes between two of them. */
struct recurrence {
	size_t breaks;
	uint32_t run, break_items; /* medians */
	bool is_regular;
};

/* 0 or -ENOMEM. Runs before the first break and after the last one may have been cut. */
static int find_recurrence(struct finder *f, const struct launch_loop *l, struct recurrence *out)
{
	uint32_t equal = 0;

	*out = (struct recurrence){ 0 };
	f->lengths.count = 0;
	for (size_t i = 1; i < l->passes.count; i++) {
		uint32_t gap = l->passes.data[i].first - l->passes.data[i - 1].end;

		if (gap && vec_push(&f->lengths, gap) < 0)
			return -ENOMEM;
	}
	out->breaks = f->lengths.count;
	if (out->breaks < 2)
		return 0;
	out->break_items = median_length(f);
	f->lengths.count = 0;
	for (size_t i = 1, since = 0; i < l->passes.count; i++) {
		if (l->passes.data[i].first == l->passes.data[i - 1].end)
			continue;
		if (since && vec_push(&f->lengths, (uint32_t)(i - since)) < 0)
			return -ENOMEM;
		since = i;
	}
	out->run = median_length(f);
	for (size_t i = 0; i < f->lengths.count; i++)
		equal += f->lengths.data[i] == out->run;
	out->is_regular = is_part(equal, f->lengths.count, RUNS_PERCENT);
	return 0;
}

static int collect_passes(struct finder *f, const struct anchor *a, struct launch_loop *l,
			  bool *marked)
{
	uint32_t count = f->places.first[a->place + 1] - f->places.first[a->place], same = 0;

	find_usual(f, a);
	l->passes.count = 0;
	*marked = true;
	for (uint32_t i = 0; i < count; i++) {
		struct loop_pass pass = stretch(f, a, i);
		bool is_same =
			is_part(count_equal(&f->places_by, pass), f->usual_length, SAME_PERCENT);

		if (!is_part(f->usual_length * (uint64_t)LONGER_PERCENT, pass.end - pass.first,
			     100 * 100) ||
		    !(is_same ||
		      is_part(count_equal(&f->items_by, pass), f->usual_length, ALIKE_PERCENT)))
			continue;
		same += is_same;
		*marked &= has_mark(f, pass);
		if (vec_push(&l->passes, pass) < 0)
			return -ENOMEM;
	}
	if (!is_part(same, l->passes.count, 50)) /* the same items, but by chance */
		l->passes.count = 0;
	return 0;
}

/* Whether passes have this part of the items from the first one on. */
static bool is_covered(const struct finder *f, const struct launch_loop *l, unsigned percent)
{
	uint64_t inside = 0;

	if (l->passes.count < LOOP_PASSES_MIN)
		return false;
	for (size_t i = 0; i < l->passes.count; i++)
		inside += l->passes.data[i].end - l->passes.data[i].first;
	return is_part(inside, f->count - l->passes.data[0].first, percent);
}

/* LOOP_IRREGULAR: no loop, or a part of a longer one. */
static enum loop_result classify(const struct finder *f, const struct anchor *a,
				 const struct launch_loop *l, const struct recurrence *r,
				 bool marked)
{
	bool most = is_covered(f, l, ITEMS_PERCENT) &&
		    is_part(l->passes.count, l->passes.count + l->breaks, PASSES_PERCENT),
	     is_short = r->break_items <= SHORT_BREAK * (uint64_t)a->distance,
	     are_few = r->run < FEW_PASSES;

	if (!marked)
		return most ? LOOP_UNMARKED : LOOP_IRREGULAR;
	if (!r->is_regular || (!are_few && !is_short && most))
		return most ? LOOP_FOUND : LOOP_IRREGULAR;
	if ((are_few && is_short) || r->run < LEAST_PASSES)
		return LOOP_IRREGULAR;
	return is_covered(f, l, SOME_PERCENT) ? LOOP_NESTED : LOOP_IRREGULAR;
}

/*
 * Beside a loop that may be meant, another one is accepted (steps beside validations), but not one
 * around it: that is as long as a run of the inner loop with its break.
 */
static int try_anchors(struct finder *f, struct launch_loop *l)
{
	enum loop_result best = LOOP_IRREGULAR;
	uint64_t around = UINT64_MAX;

	for (size_t i = 0; i < MIN(f->anchors.count, ANCHORS_MAX); i++) {
		const struct anchor *a = &f->anchors.data[i];
		struct recurrence r;
		bool marked;

		if (a->distance + UINT64_C(1) >= around)
			break;
		if (collect_passes(f, a, l, &marked) < 0 || find_recurrence(f, l, &r) < 0)
			return -ENOMEM;
		l->breaks = r.breaks;
		l->result = classify(f, a, l, &r, marked);
		if (l->result == LOOP_FOUND)
			return 0;
		best = MAX(best, l->result);
		if (l->result == LOOP_NESTED)
			around = MIN(around, r.run * (uint64_t)a->distance + r.break_items);
	}
	l->result = best;
	l->passes.count = l->breaks = 0;
	return 0;
}

int launch_loop_find(struct launch_loop *l, const struct launch_item *items, uint32_t count)
{
	struct finder f = { .items = items, .count = count };
	int code = 0;

	*l = (struct launch_loop){ .result = LOOP_SHORT };
	if (count >= LOOP_PASSES_MIN) {
		code = tally_init(&f.items_by, &f, false);
		if (code >= 0)
			code = tally_init(&f.places_by, &f, true);
		if (code >= 0)
			code = index_places(&f);
		if (code >= 0)
			code = find_anchors(&f);
		if (code >= 0)
			code = try_anchors(&f, l);
	}
	free(f.places.at);
	free(f.places.first);
	tally_release(&f.items_by);
	tally_release(&f.places_by);
	vec_release(&f.anchors);
	vec_release(&f.lengths);
	return code;
}

void launch_loop_release(struct launch_loop *l)
{
	vec_release(&l->passes);
}
