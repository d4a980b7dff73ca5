/* rank_verdict.c: what bounds a job of several ranks, by how late each of them was. */
#include "analysis/rank_verdict.h"

#include <errno.h>
#include <math.h>

#include "base/search.h"

uint64_t rank_times_sum(const struct rank_times *t, enum rank_state state)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->count; i++)
		sum += t->items[i].state_ns[state];
	return sum;
}

uint64_t rank_times_total(const struct rank_times *t)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < RANK_STATES; i++)
		sum += rank_times_sum(t, (enum rank_state)i);
	return sum;
}

bool rank_times_late_known(const struct rank_times *t)
{
	return t->waits_known && t->compared &&
	       !(t->kind == JOB_UNKNOWN && t->uncertain == t->compared);
}

/* Whether one place makes ranks late in turn: the sum over all ranks. */
static bool find_turns(const struct rank_times *t)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->cause_count; i++)
		if (rank_place_equal(t->causes[i].place, t->causes[0].place))
			sum += t->causes[i].late_ns;
	return sum > t->late_ns / 3 * 2;
}

/* A rank with all of its restarts: items of ranks with equal numbers follow each other. */
struct late_rank {
	uint32_t first, end;
	uint64_t late_ns;
};

static struct late_rank find_latest(const struct collectives *c, const struct rank_times *t)
{
	struct late_rank latest = { 0 };

	for (uint32_t i = 0; i < t->count;) {
		struct late_rank r = { .first = i, .end = i };

		for (; r.end < t->count && c->ranks[r.end].number == c->ranks[i].number; r.end++)
			r.late_ns += t->items[r.end].late_ns;
		if (r.late_ns > latest.late_ns)
			latest = r;
		i = r.end;
	}
	return latest;
}

/* Finds what the delays of a rank, and of all ranks, prove. */
static int find_evidence(struct rank_times *t, struct late_rank latest)
{
	const struct rank_round *all = t->rounds.items.data;
	size_t count = t->rounds.items.count;
	_cleanup_free_ struct late_round *rounds = calloc(count + 1, sizeof(*rounds));

	if (!rounds)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		rounds[i].span_ns = all[i].span_ns;
	for (size_t i = 0; i < t->delays.count; i++) {
		const struct rank_delay *d = &t->delays.data[i];
		size_t round = sorted_prefix(count, k, all[k].end_ns < d->time_ns);

		rounds[round].all_ns += d->ns;
		if (d->rank >= latest.first && d->rank < latest.end)
			rounds[round].own_ns += d->ns;
	}
	t->late_rounds = 0;
	for (size_t i = 0; i < count; i++)
		t->late_rounds += rounds[i].own_ns > rounds[i].span_ns / 100 * JOB_LATE_PERCENT;
	return late_evidence_find(rounds, count, &t->evidence);
}

uint64_t rank_times_round_ns(const struct rank_times *t, double share)
{
	double ns = share * (double)t->span_ns / (double)MAX(t->rounds.items.count, 1);

	return (uint64_t)fmin(ns, 1e18);
}

bool rank_times_is_long(const struct rank_times *t, double share)
{
	return share * 100 > JOB_LATE_PERCENT &&
	       (t->rounds.kind == ROUND_COLLECTIVE || share * 100 >= JOB_LATE_MUCH_PERCENT ||
		rank_times_round_ns(t, share) >= JOB_LATE_NS);
}

/* Finds the rank or the place that makes the others wait; JOB_ALIKE: there is none. */
static int find_late(const struct collectives *c, struct rank_times *t, enum job_kind *kind)
{
	struct late_rank latest = find_latest(c, t);
	const struct late_evidence *e = &t->evidence;
	int rc = find_evidence(t, latest);

	t->latest = latest.first;
	*kind = JOB_ALIKE;
	if (rc < 0 || !rank_times_is_long(t, late_share_proven(&e->all)))
		return rc;
	if (e->part.value <= 2.0 / 3 || late_share_proven(&e->part) <= 0.5 ||
	    !rank_times_is_long(t, late_share_proven(&e->own))) {
		t->cause = find_turns(t) ? t->causes : NULL;
		*kind = JOB_TURNS;
		return 0;
	}
	t->rank = latest.first;
	for (size_t i = t->cause_count; i-- > 0;)
		if (t->causes[i].rank >= latest.first && t->causes[i].rank < latest.end)
			t->cause = &t->causes[i];
	*kind = JOB_RANK;
	return 0;
}

/* Nobody has hung who is only late when the recording ends. */
#define HUNG_NS 1000000000
#define HUNG_INTERVALS 10

/* Finds the first collective to which a rank did not come while others waited long for it. */
static bool find_hung(const struct collectives *c, struct rank_times *t)
{
	uint64_t enough_ns = HUNG_NS;

	if (t->compared)
		enough_ns = MAX(enough_ns, t->span_ns / t->compared * HUNG_INTERVALS);
	for (size_t i = 0; i < c->matches.absent.count; i++) {
		const struct absent_rank *absent = &c->matches.absent.data[i];
		const struct collective_match *m = &c->matches.items.data[absent->match];
		uint64_t waited_ns = 0;

		/* By the clock of each host that waits: those of several may not agree. */
		for (size_t p = m->first; p < m->first + m->parts; p++) {
			const struct collective_part *part = &c->parts.data[p];
			uint64_t end_ns = c->ranks[part->rank].end_ns;

			waited_ns = MAX(waited_ns, end_ns - MIN(end_ns, part->start_ns));
		}
		if (absent->why != ABSENT_HUNG || waited_ns < enough_ns)
			continue;
		t->rank = absent->rank;
		t->hung = m;
		t->hung_ns = waited_ns;
		return true;
	}
	return false;
}

/* Of one rank: those of other ranks are at the same time. */
static uint64_t most_uncertain(const struct rank_times *t)
{
	uint64_t most = 0;

	for (size_t i = 0; i < t->count; i++)
		most = MAX(most, t->items[i].uncertain);
	return most;
}

static int decide(const struct collectives *c, struct rank_times *t, enum job_kind *kind)
{
	int rc;

	if (!c->mixed && find_hung(c, t)) {
		*kind = JOB_HUNG;
		return 0;
	}
	*kind = JOB_UNKNOWN;
	if (!t->compared || c->uncertainty_ns == UINT64_MAX || c->mixed)
		return 0;
	rc = find_late(c, t, kind);
	/* Delays that the clocks do not show could be as long as the uncertainty. */
	if (*kind == JOB_ALIKE &&
	    most_uncertain(t) * c->uncertainty_ns > t->span_ns / 100 * JOB_LATE_PERCENT)
		*kind = JOB_UNKNOWN;
	else if (*kind == JOB_ALIKE && rank_times_sum(t, RANK_TRANSFER) > rank_times_total(t) / 2)
		*kind = JOB_COMMUNICATION;
	return rc;
}

int rank_verdict_find(const struct collectives *c, struct rank_times *t)
{
	return decide(c, t, &t->kind);
}
