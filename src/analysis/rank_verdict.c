/* rank_verdict.c: what bounds a job of several ranks, by how late each of them was. */
#include "analysis/rank_verdict.h"

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

/* Hiccups of two ranks. */
#define JOB_HICCUPS (2 * RANK_HICCUPS)
/* There is at most one hiccup in so many collectives: a window of few steps has none. */
#define HICCUP_COLLECTIVES 10

/* Whether one place makes ranks late in turn: the sum over all ranks. */
static bool find_turns(const struct rank_times *t)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->cause_count; i++)
		if (rank_place_equal(t->causes[i].place, t->causes[0].place))
			sum += t->causes[i].late_ns;
	return sum > t->late_ns / 3 * 2;
}

/* A rank, in all of its restarts: items of ranks with equal numbers follow each other. */
struct late_rank {
	uint32_t first, end;
	uint64_t late_ns, hiccup_ns[RANK_HICCUPS];
};

void rank_hiccups_add(uint64_t *hiccups, size_t count, uint64_t ns)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t before = hiccups[i];

		if (ns <= before)
			continue;
		hiccups[i] = ns;
		ns = before;
	}
}

static uint64_t without_hiccups(uint64_t late_ns, const uint64_t *hiccups, size_t count)
{
	for (size_t i = 0; i < count; i++)
		late_ns -= MIN(late_ns, hiccups[i]);
	return late_ns;
}

/* Sums up the items of a rank, from `first` on. */
static struct late_rank sum_restarts(const struct collectives *c, const struct rank_times *t,
				     uint32_t first)
{
	struct late_rank r = { .first = first, .end = first };

	for (; r.end < t->count && c->ranks[r.end].number == c->ranks[first].number; r.end++) {
		r.late_ns += t->items[r.end].late_ns;
		for (size_t i = 0; i < RANK_HICCUPS; i++)
			rank_hiccups_add(r.hiccup_ns, RANK_HICCUPS, t->items[r.end].hiccup_ns[i]);
	}
	return r;
}

/* Finds the rank or the place that makes the others wait; JOB_ALIKE: there is none. */
static enum job_kind find_late(const struct collectives *c, struct rank_times *t)
{
	uint64_t most = 0, sum = 0, all = 0, hiccups[JOB_HICCUPS] = { 0 };
	uint32_t late = 0, late_end = 0;
	size_t single = MIN(RANK_HICCUPS, t->compared / HICCUP_COLLECTIVES);

	for (uint32_t i = 0; i < t->count;) {
		struct late_rank r = sum_restarts(c, t, i);
		uint64_t ns = without_hiccups(r.late_ns, r.hiccup_ns, single);

		sum += ns;
		all += r.late_ns;
		for (size_t k = 0; k < RANK_HICCUPS; k++)
			rank_hiccups_add(hiccups, JOB_HICCUPS, r.hiccup_ns[k]);
		if (ns > most) {
			most = ns;
			late = i;
			late_end = r.end;
		}
		i = r.end;
	}
	all = without_hiccups(all, hiccups, 2 * single);
	if (MAX(all, most) <= t->span_ns / 100 * JOB_LATE_PERCENT)
		return JOB_ALIKE;
	if (most <= sum / 3 * 2 || most <= t->span_ns / 100 * JOB_LATE_PERCENT) {
		t->cause = find_turns(t) ? t->causes : NULL;
		return all > t->late_ns / 3 ? JOB_TURNS : JOB_ALIKE;
	}
	t->rank = late;
	for (size_t i = t->cause_count; i-- > 0;)
		if (t->causes[i].rank >= late && t->causes[i].rank < late_end)
			t->cause = &t->causes[i];
	return JOB_RANK;
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

static enum job_kind decide(const struct collectives *c, struct rank_times *t)
{
	enum job_kind kind;

	if (!c->mixed && find_hung(c, t))
		return JOB_HUNG;
	if (!t->compared || c->uncertainty_ns == UINT64_MAX || c->mixed)
		return JOB_UNKNOWN;
	kind = find_late(c, t);
	/* Delays that the clocks do not show could be as long as the uncertainty. */
	if (kind == JOB_ALIKE &&
	    most_uncertain(t) * c->uncertainty_ns > t->span_ns / 100 * JOB_LATE_PERCENT)
		return JOB_UNKNOWN;
	if (kind == JOB_ALIKE && rank_times_sum(t, RANK_TRANSFER) > rank_times_total(t) / 2)
		return JOB_COMMUNICATION;
	return kind;
}

void rank_verdict_find(const struct collectives *c, struct rank_times *t)
{
	t->kind = decide(c, t);
}
