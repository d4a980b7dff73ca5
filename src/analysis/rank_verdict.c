/* rank_verdict.c: what bounds a job of several ranks, by how late each of them was. */
#include "analysis/rank_times.h"

/* Whether one place makes ranks late in turn: the sum over all ranks. */
static bool find_turns(struct rank_times *t)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < t->cause_count; i++)
		if (rank_place_equal(t->causes[i].place, t->causes[0].place))
			sum += t->causes[i].late_ns;
	return sum > t->late_ns / 2;
}

static uint64_t without_hiccups(const struct rank_time *time)
{
	uint64_t ns = time->late_ns;

	for (size_t i = 0; i < RANK_HICCUPS; i++)
		ns -= time->hiccup_ns[i];
	return ns;
}

/* Finds the rank or the place that makes the others wait; JOB_ALIKE: there is none. */
static enum job_kind find_late(struct rank_times *t)
{
	uint64_t most = 0, sum = 0;

	for (size_t i = 0; i < t->count; i++) {
		uint64_t ns = without_hiccups(&t->items[i]);

		sum += ns;
		if (ns > most) {
			most = ns;
			t->rank = (uint32_t)i;
		}
	}
	if (sum <= t->span_ns / 100 * JOB_LATE_PERCENT)
		return JOB_ALIKE;
	if (most <= sum / 3 * 2) {
		/* Hiccups alternate between ranks, too. */
		t->cause = t->causes;
		return sum > t->late_ns / 3 && find_turns(t) ? JOB_TURNS : JOB_ALIKE;
	}
	for (size_t i = t->cause_count; i-- > 0;)
		if (t->causes[i].rank == t->rank)
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
		uint64_t since_ns = UINT64_MAX;

		for (size_t p = m->first; p < m->first + m->parts; p++)
			since_ns = MIN(since_ns, c->parts.data[p].start_ns);
		if (absent->why != ABSENT_HUNG || c->end_ns < since_ns ||
		    c->end_ns - since_ns < enough_ns)
			continue;
		t->rank = absent->rank;
		t->hung = m;
		t->hung_ns = c->end_ns - since_ns;
		return true;
	}
	return false;
}

static enum job_kind decide(const struct collectives *c, struct rank_times *t)
{
	enum job_kind kind;

	if (!c->mixed && find_hung(c, t))
		return JOB_HUNG;
	if (!t->compared || c->uncertainty_ns == UINT64_MAX || c->mixed)
		return JOB_UNKNOWN;
	kind = find_late(t);
	/* Delays that the clocks do not show could be as long as the uncertainty. */
	if (kind == JOB_ALIKE &&
	    t->uncertain * c->uncertainty_ns > t->span_ns / 100 * JOB_LATE_PERCENT)
		return JOB_UNKNOWN;
	if (kind == JOB_ALIKE && rank_times_sum(t, RANK_TRANSFER) > rank_times_total(t) / 2)
		return JOB_COMMUNICATION;
	return kind;
}

void rank_verdict_find(const struct collectives *c, struct rank_times *t)
{
	t->kind = decide(c, t);
}
