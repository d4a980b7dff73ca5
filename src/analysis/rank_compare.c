/*
 * rank_compare.c: before each collective, the rank with most time of its own among the last is
 * late. It is compared with the median of the others, so that several ranks can be late at once.
 */
#include "analysis/rank_compare.h"

#include <errno.h>
#include <string.h>

#include "base/search.h"

/*
 * Where the hosts of the others limit their pace, too, a place makes a rank late only if its host
 * spends this much more time there than the others, in percent, in the whole recording. If its host
 * is only slower at what all do, all are bound by that.
 */
#define HOST_LATE_PERCENT 150

/* By how much a rank was late at a collective. */
struct charge {
	uint64_t time_ns, ns;
	size_t before; /* the rank's charge before it, by its index from 1 on; 0: none */
};

struct comparing {
	struct rank_intervals *intervals;
	const struct collectives *collectives;
	struct rank_times *out;
	VEC(struct side) sides; /* of what is compared */
	VEC(struct compared_match) compared;
	VEC(struct charge) charges;
	size_t *charged; /* by rank: its latest charge, from 1 on */
	uint64_t *values; /* room for one of each rank */
	GROUPS(struct late_cause) causes; /* key: rank, place */
};

/* A rank in what is compared: its intervals are next to each other. */
struct side {
	const struct rank_interval *all;
	size_t count;
	uint32_t rank;
	uint64_t own_ns, gpu_ns, early_ns; /* sums */
};

/*
 * The intervals before a collective, one of each rank; or all of a pair of ranks between sends:
 * stages of a pipeline do equal work at different times, so that only its sum can be compared.
 */
struct comparison {
	const struct side *sides, *late;
	size_t count;
	uint64_t late_ns; /* that the others lost */
	double part; /* of that, what is not yet counted at collectives with other ranks */
	bool by_host; /* the hosts of the others limit their pace, so hosts are compared */
};

typedef uint64_t side_value(const struct comparing *x, const struct side *side,
			    struct rank_place place);

/* The median of the other ranks: a few that are late, too, do not count. */
static uint64_t others_median(const struct comparing *x, const struct comparison *c,
			      side_value *value, struct rank_place place)
{
	uint64_t *values = x->values;
	size_t count = 0;

	for (size_t i = 0; i < c->count; i++)
		if (&c->sides[i] != c->late)
			values[count++] = value(x, &c->sides[i], place);
	qsort(values, count, sizeof(*values), order_u64);
	return values[(count - 1) / 2] / 2 + values[count / 2] / 2;
}

static uint64_t time_in(const struct comparing *x, const struct rank_shares *shares,
			struct rank_place place)
{
	for (size_t i = shares->first; i < shares->first + shares->count; i++)
		if (rank_place_equal(x->intervals->shares.data[i].place, place))
			return x->intervals->shares.data[i].ns;
	return 0;
}

static uint64_t gpu_time(const struct comparing *x, const struct side *side,
			 struct rank_place place)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < side->count; i++)
		sum += time_in(x, &side->all[i].gpu, place);
	return sum;
}

static uint64_t host_time(const struct comparing *x, const struct side *side,
			  struct rank_place place)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < side->count; i++)
		sum += time_in(x, &side->all[i].host, place);
	return sum;
}

static uint64_t host_total(const struct comparing *x, const struct side *side,
			   struct rank_place place)
{
	uint64_t item;

	return map_get(&x->intervals->host_totals.index, rank_place_key(side->rank, place), &item)
		       ? x->intervals->host_totals.items.data[item].ns
		       : 0;
}

static uint64_t own_time(const struct comparing *x, const struct side *side,
			 struct rank_place place)
{
	(void)x;
	(void)place;
	return side->own_ns;
}

static uint64_t early_time(const struct comparing *x, const struct side *side,
			   struct rank_place place)
{
	(void)x;
	(void)place;
	return side->early_ns;
}

/* Whether the late rank's host spends much more time in a place than the others. */
static bool is_own_place(const struct comparing *x, const struct comparison *c,
			 struct rank_place place)
{
	return host_total(x, c->late, place) / HOST_LATE_PERCENT >=
	       others_median(x, c, host_total, place) / 100;
}

#define EXCESS_MAX 256

/* What a rank did longer than the others, by place. */
struct excess {
	struct rank_share items[EXCESS_MAX];
	size_t count;
	uint64_t sum_ns;
};

/* Whether a rank of a pair was longer in a state than the other, in all of its places. */
static bool is_longer(const struct comparing *x, const struct comparison *c, uint8_t state)
{
	uint64_t sums[2] = { 0 };

	for (size_t i = 0; i < 2; i++)
		for (size_t v = 0; v < c->sides[i].count; v++) {
			const struct rank_shares *gpu = &c->sides[i].all[v].gpu;

			for (size_t s = gpu->first; s < gpu->first + gpu->count; s++)
				if (x->intervals->shares.data[s].place.state == state)
					sums[&c->sides[i] == c->late] +=
						x->intervals->shares.data[s].ns;
		}
	return sums[true] > sums[false];
}

/* Sums up the GPU's time of the late rank by place. */
static void sum_places(const struct comparing *x, const struct side *late, struct excess *out)
{
	for (size_t i = 0; i < late->count; i++) {
		const struct rank_shares *gpu = &late->all[i].gpu;

		for (size_t s = gpu->first; s < gpu->first + gpu->count; s++) {
			const struct rank_share *share = &x->intervals->shares.data[s];
			size_t at = 0;

			while (at < out->count &&
			       !rank_place_equal(out->items[at].place, share->place))
				at++;
			if (at == EXCESS_MAX)
				continue;
			if (at == out->count)
				out->items[out->count++] = (struct rank_share){ share->place, 0 };
			out->items[at].ns += share->ns;
		}
	}
}

static void find_excess(const struct comparing *x, const struct comparison *c, struct excess *out)
{
	out->count = 0;
	out->sum_ns = 0;
	sum_places(x, c->late, out);
	for (size_t i = 0; i < out->count; i++) {
		struct rank_share *share = &out->items[i];
		uint64_t others = others_median(x, c, gpu_time, share->place);

		/* Two stages have equal work in different places. */
		if (c->late->all->pair && !is_longer(x, c, share->place.state))
			others = share->ns;
		/* The others' GPUs may have waited while their hosts were there. */
		if (c->by_host && share->place.state == RANK_HOST)
			others = is_own_place(x, c, share->place)
					 ? MAX(others, others_median(x, c, host_time, share->place))
					 : share->ns;
		share->ns -= MIN(share->ns, others);
		out->sum_ns += share->ns;
	}
}

/* In how many intervals of a rank its GPU spent time in a place. */
static uint64_t visits(const struct comparing *x, const struct side *side, struct rank_place place)
{
	uint64_t count = 0;

	for (size_t i = 0; i < side->count; i++)
		count += time_in(x, &side->all[i].gpu, place) != 0;
	return count;
}

/* Divides the time by which a rank was late among what it did longer than the others. */
static int add_causes(struct comparing *x, const struct comparison *c, const struct excess *excess)
{
	size_t largest = SIZE_MAX;
	uint64_t most = 0;

	for (size_t i = 0; i < excess->count; i++) {
		const struct rank_share *share = &excess->items[i];
		struct late_cause *cause;

		if (!share->ns)
			continue;
		cause = groups_at(&x->causes, rank_place_key(c->late->rank, share->place),
				  .rank = c->late->rank, .place = share->place);
		if (!cause)
			return -ENOMEM;
		cause->late_ns += (uint64_t)(c->part * (double)c->late_ns * (double)share->ns /
					     (double)excess->sum_ns);
		cause->excess_ns += (uint64_t)(c->part * (double)share->ns);
		if (c->late->all->pair)
			cause->count +=
				(uint64_t)(c->part * (double)visits(x, c->late, share->place));
		if (share->ns > most) {
			most = share->ns;
			largest = (size_t)(cause - x->causes.items.data);
		}
	}
	if (largest != SIZE_MAX && !c->late->all->pair && c->part > 0.5)
		x->causes.items.data[largest].count++;
	return 0;
}

/*
 * By how much more time of its own one rank of a pair needs. The difference up to each send goes up
 * and down with the phases of the pipeline; from its mean in the first half to that in the second,
 * it grows by half of the whole.
 */
static int64_t pair_difference(const struct side *a, const struct side *b)
{
	size_t half = a->count / 2;
	double means[2] = { 0 }, difference = 0;

	for (size_t i = 0; i < 2 * half; i++) {
		difference += (double)a->all[i].own_ns - (double)b->all[i].own_ns;
		means[i >= half] += difference / (double)half;
	}
	return (int64_t)(2 * (means[1] - means[0]));
}

/* By how much the late rank's own time exceeds that of the others. */
static uint64_t late_by(const struct comparing *x, struct comparison *c)
{
	uint64_t own_ns = others_median(x, c, own_time, (struct rank_place){ 0 });

	if (c->late->all->pair)
		return (uint64_t)MAX(
			pair_difference(c->late, c->late == c->sides ? c->late + 1 : c->sides), 0);
	for (size_t i = 0; i < c->count; i++)
		c->by_host |= &c->sides[i] != c->late && c->sides[i].own_ns > c->sides[i].gpu_ns;
	return c->late->own_ns - MIN(c->late->own_ns, own_ns);
}

/* By how much a rank was already late since a time, at collectives with other ranks. */
static uint64_t charged_since(const struct comparing *x, uint32_t rank, uint64_t since_ns)
{
	uint64_t sum = 0;

	for (size_t i = x->charged[rank]; i && x->charges.data[i - 1].time_ns > since_ns;
	     i = x->charges.data[i - 1].before)
		sum += x->charges.data[i - 1].ns;
	return sum;
}

/* A pair is late by the sum over all of its sends, so that each of them has an equal part. */
static int add_delays(struct rank_times *out, const struct side *late, uint64_t ns)
{
	for (size_t i = 0; i < late->count; i++) {
		struct rank_delay delay = { late->all[i].last_ns,
					    ns / late->count + (i < ns % late->count), late->rank };

		if (vec_push(&out->delays, delay) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Charges the late rank with what it was not charged with in the same time. */
static int charge(struct comparing *x, struct comparison *c)
{
	const struct rank_interval *first = c->late->all;
	uint32_t rank = c->late->rank;
	uint64_t since_ns = first->pair ? 0 : x->intervals->last_ns[first->previous];
	uint64_t charged = charged_since(x, rank, since_ns);
	struct charge new = { first->last_ns, c->late_ns - MIN(c->late_ns, charged),
			      x->charged[rank] };

	c->part = (double)new.ns / (double)c->late_ns;
	if (!new.ns)
		return 0;
	if (vec_push(&x->charges, new) < 0)
		return -ENOMEM;
	x->charged[rank] = x->charges.count;
	x->out->items[rank].late_ns += new.ns;
	x->out->late_ns += new.ns;
	return add_delays(x->out, c->late, new.ns) < 0 ? -ENOMEM : 1;
}

/* The rank with most time of its own, of those that came last or as good as last. */
static const struct side *find_late(const struct comparing *x, const struct side *sides,
				    size_t count)
{
	const struct side *late = NULL;

	if (sides->all->pair)
		return sides + (pair_difference(&sides[0], &sides[1]) < 0);
	for (size_t i = 0; i < count; i++)
		if (sides[i].early_ns <= x->collectives->uncertainty_ns &&
		    (!late || sides[i].own_ns > late->own_ns))
			late = &sides[i];
	return late;
}

/* For how long the others waited. Where not all need each other, few of them may have. */
static uint64_t waited_for(const struct comparing *x, const struct comparison *c)
{
	const struct collective_match *m = &x->collectives->matches.items.data[c->late->all->match];
	uint64_t most_ns = 0;

	if (x->collectives->parts.data[m->first].mutual || c->late->all->pair)
		return others_median(x, c, early_time, (struct rank_place){ 0 });
	for (size_t i = 0; i < c->count; i++)
		most_ns = MAX(most_ns, c->sides[i].early_ns);
	return most_ns;
}

/* Finds the late rank, and by how much and why it was late. */
static int compare_sides(struct comparing *x, const struct side *sides, size_t count)
{
	struct comparison c = { .sides = sides,
				.late = find_late(x, sides, count),
				.count = count };
	struct excess excess;
	int rc;

	c.late_ns = MIN(late_by(x, &c), waited_for(x, &c));
	if (!c.late_ns)
		return 0;
	find_excess(x, &c, &excess);
	c.late_ns = MIN(c.late_ns, excess.sum_ns);
	rc = c.late_ns ? charge(x, &c) : 0;
	return rc > 0 ? add_causes(x, &c, &excess) : rc;
}

/* Own work without transfers, which are the collectives'. */
static uint64_t own_work(const struct rank_interval *v)
{
	return v->own_ns - MIN(v->transfer_ns, v->own_ns);
}

/* Lists the ranks whose own work before a collective is longer than that of the median rank. */
static int add_paces(struct comparing *x, const struct rank_interval *all, size_t count)
{
	uint64_t median_ns;

	for (size_t i = 0; i < count; i++)
		x->values[i] = own_work(&all[i]);
	qsort(x->values, count, sizeof(*x->values), order_u64);
	median_ns = x->values[(count - 1) / 2];
	for (size_t i = 0; i < count; i++) {
		struct rank_pace pace = { own_work(&all[i]), median_ns, all[i].match,
					  all[i].previous, all[i].rank };

		if (pace.own_ns > median_ns + x->collectives->uncertainty_ns &&
		    vec_push(&x->out->paces, pace) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* Compares the ranks in intervals of one group. */
static int compare_group(struct comparing *x, const struct rank_interval *all, size_t count)
{
	uint64_t early_ns = 0;

	if (x->intervals->paces && !all->pair && add_paces(x, all, count) < 0)
		return -ENOMEM;
	x->sides.count = 0;
	for (size_t i = 0; i < count; i++) {
		struct side new = { .all = &all[i], .rank = all[i].rank }, *side;

		if ((!i || all[i - 1].rank != all[i].rank) && vec_push(&x->sides, new) < 0)
			return -ENOMEM;
		side = &x->sides.data[x->sides.count - 1];
		side->count++;
		side->own_ns += all[i].own_ns;
		side->gpu_ns += all[i].gpu.ns;
		side->early_ns += all[i].early_ns;
		early_ns = MAX(early_ns, all[i].early_ns);
	}
	return early_ns > x->collectives->uncertainty_ns
		       ? compare_sides(x, x->sides.data, x->sides.count)
		       : 0;
}

/* Counts a collective whose ranks all have an interval before it. */
static int count_match(struct comparing *x, const struct rank_interval *all, size_t count)
{
	const struct rank_interval *late = all;
	uint64_t early_ns = 0, last_ns = all->last_ns;
	struct compared_match compared = { MIN(x->intervals->last_ns[all->previous], last_ns),
					   last_ns, all->match };

	for (size_t i = 0; i < count; i++) {
		x->out->items[all[i].rank].collectives++;
		early_ns = MAX(early_ns, all[i].early_ns);
		if (all[i].arrived_ns > late->arrived_ns)
			late = &all[i];
	}
	x->out->compared++;
	if (early_ns > x->collectives->uncertainty_ns) {
		x->out->items[late->rank].last++;
	} else {
		x->out->uncertain++;
		for (size_t i = 0; i < count; i++)
			x->out->items[all[i].rank].uncertain++;
	}
	return vec_push(&x->compared, compared);
}

ORDER(compare_matches, struct rank_interval, UP(match) ?: UP(rank))
ORDER(compare_groups, struct rank_interval, UP(order_ns) ?: UP(group) ?: UP(rank) ?: UP(last_ns))

static bool same_group(const struct rank_interval *a, const struct rank_interval *b)
{
	return a->order_ns == b->order_ns && a->group == b->group;
}

/* Keeps the intervals of collectives to which all ranks came from the same one before. */
static int filter_intervals(struct comparing *x)
{
	struct rank_interval *v = x->intervals->items.data;
	size_t count = x->intervals->items.count, kept = 0;
	int rc = 0;

	vec_sort(&x->intervals->items, compare_matches);
	for (size_t from = 0, to; from < count && rc >= 0; from = to) {
		bool equal = true;

		for (to = from; to < count && v[to].match == v[from].match; to++)
			equal &= v[to].previous == v[from].previous;
		if (!equal || to - from != x->collectives->matches.items.data[v[from].match].parts)
			continue;
		rc = count_match(x, v + from, to - from);
		memmove(v + kept, v + from, (to - from) * sizeof(*v));
		kept += to - from;
	}
	x->intervals->items.count = kept;
	return rc;
}

static int compare_all(struct comparing *x)
{
	const struct rank_interval *v = x->intervals->items.data;
	int rc = filter_intervals(x);
	size_t count = x->intervals->items.count;

	if (rc >= 0)
		rc = rank_rounds_find(x->collectives, x->compared.data, x->compared.count,
				      x->intervals->step_ns, &x->out->rounds);
	x->out->start_ns = x->out->rounds.start_ns;
	x->out->span_ns = x->out->rounds.span_ns;
	vec_sort(&x->intervals->items, compare_groups);
	for (size_t from = 0, to; from < count && rc >= 0; from = to) {
		for (to = from; to < count && same_group(&v[from], &v[to]);)
			to++;
		rc = compare_group(x, v + from, to - from);
	}
	/* Groups of ranks can each have a late one at the same time. */
	x->out->late_ns = MIN(x->out->late_ns, x->out->span_ns);
	return rc;
}

ORDER(compare_causes, struct late_cause, DOWN(late_ns) ?: UP(rank) ?: UP(place.text))

int rank_intervals_compare(struct rank_intervals *v, const struct collectives *c,
			   struct rank_times *out)
{
	struct comparing x = {
		.intervals = v, .collectives = c, .out = out, .causes = GROUPS_INIT
	};
	int rc;

	x.charged = calloc(c->rank_count + 1, sizeof(*x.charged));
	x.values = calloc(c->rank_count + 1, sizeof(*x.values));
	rc = x.charged && x.values ? compare_all(&x) : -ENOMEM;
	groups_take(&x.causes, compare_causes, &out->causes, &out->cause_count);
	free(x.charged);
	free(x.values);
	vec_release(&x.sides);
	vec_release(&x.compared);
	vec_release(&x.charges);
	return rc;
}

void rank_intervals_release(struct rank_intervals *v)
{
	groups_release(&v->host_totals);
	vec_release(&v->items);
	vec_release(&v->shares);
	free(v->last_ns);
}
