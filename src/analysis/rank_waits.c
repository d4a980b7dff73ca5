#include "analysis/rank_waits.h"

#include <errno.h>

#include "analysis/groups.h"
#include "analysis/report.h"
#include "ranks/collective_wait.h"

struct wait {
	uint64_t start_ns, end_ns;
	uint32_t rank;
};

struct mapping {
	const struct collectives *collectives;
	struct rank_waits *out;
	uint32_t *last; /* of one match */
	GROUPS(struct rank_wait_pair) pairs; /* key: both ranks */
	VEC(struct wait) waits;
};

uint64_t rank_waits_span(const struct rank_waits *w, unsigned span)
{
	return (uint64_t)((unsigned __int128)w->length_ns * span / RANK_WAITS_SPANS);
}

static struct rank_wait_group *group_of(const struct rank_waits *w, size_t ranks, uint32_t rank)
{
	/* The inverse of the bounds of make_groups(). */
	return &w->groups[((uint64_t)rank * w->group_count + w->group_count - 1) / ranks];
}

static int make_groups(struct rank_waits *out, size_t ranks)
{
	out->group_count = MIN(ranks, RANK_WAITS_GROUPS);
	out->groups = calloc(out->group_count + 1, sizeof(*out->groups));
	if (!out->groups)
		return -ENOMEM;
	for (size_t i = 0; i < out->group_count; i++) {
		out->groups[i].first = (uint32_t)(ranks * i / out->group_count);
		out->groups[i].end = (uint32_t)(ranks * (i + 1) / out->group_count);
	}
	return 0;
}

/* Adds what a part of a match waited in the window. */
static int add_wait(struct mapping *x, const struct collective_part *p,
		    const struct collective_part *last)
{
	size_t ranks = x->collectives->rank_count;
	struct rank_waits *out = x->out;
	uint64_t end_ns = out->start_ns + out->length_ns;
	struct wait wait = { MAX(p->start_ns, out->start_ns),
			     MIN(MIN(last->start_ns, p->end_ns), end_ns), p->rank };
	struct rank_wait_pair *pair;

	if (wait.end_ns <= wait.start_ns)
		return 0;
	pair = groups_at(&x->pairs, (uint64_t)p->rank << 32 | last->rank, .waiting = p->rank,
			 .awaited = last->rank);
	if (!pair)
		return -ENOMEM;
	pair->ns += wait.end_ns - wait.start_ns;
	pair->count++;
	group_of(out, ranks, p->rank)->for_ns[group_of(out, ranks, last->rank) - out->groups] +=
		wait.end_ns - wait.start_ns;
	return vec_push(&x->waits, wait);
}

static int add_match(struct mapping *x, const struct collective_match *m)
{
	const struct collectives *c = x->collectives;
	const struct collective_part *parts = c->parts.data;
	int rc = 0;

	if (m->parts < 2 || !collective_is_whole(parts, m))
		return 0;
	collective_find_needs(parts, m, x->last);
	collective_find_last(parts, m, x->last, c->uncertainty_ns, x->last);
	for (uint32_t i = 0; i < m->parts && rc >= 0; i++)
		if (x->last[i] != m->first + i)
			rc = add_wait(x, &parts[m->first + i], &parts[x->last[i]]);
	return rc;
}

/* Divides a time among the spans. */
static void add_time(const struct rank_waits *w, struct rank_wait_group *g, uint64_t start_ns,
		     uint64_t end_ns)
{
	unsigned span = (unsigned)((unsigned __int128)start_ns * RANK_WAITS_SPANS / w->length_ns);

	g->ns += end_ns - start_ns;
	for (; start_ns < end_ns && span < RANK_WAITS_SPANS; span++) {
		uint64_t until_ns = MIN(rank_waits_span(w, span + 1), end_ns);

		if (until_ns <= start_ns)
			continue;
		g->span_ns[span] += until_ns - start_ns;
		start_ns = until_ns;
	}
}

ORDER(compare_waits, struct wait, UP(rank) ?: UP(start_ns))
ORDER(compare_pairs, struct rank_wait_pair, DOWN(ns) ?: UP(waiting) ?: UP(awaited))

/* A rank that waits in several collectives at once waits once. */
static void add_times(struct mapping *x)
{
	uint64_t until_ns = 0;

	vec_sort(&x->waits, compare_waits);
	for (size_t i = 0; i < x->waits.count; i++) {
		const struct wait *w = &x->waits.data[i];
		uint64_t start_ns = w->start_ns;

		if (i && w->rank == w[-1].rank)
			start_ns = MAX(start_ns, until_ns);
		else
			until_ns = 0;
		if (w->end_ns > start_ns)
			add_time(x->out, group_of(x->out, x->collectives->rank_count, w->rank),
				 start_ns - x->out->start_ns, w->end_ns - x->out->start_ns);
		until_ns = MAX(until_ns, w->end_ns);
	}
}

int rank_waits_find(const struct collectives *c, const struct rank_times *t, struct rank_waits *out)
{
	const struct rank_rounds *rounds = &t->rounds;
	struct mapping x = { .collectives = c, .out = out, .pairs = GROUPS_INIT };
	int rc;

	*out = (struct rank_waits){ 0 };
	if (!t->waits_known || !rounds->items.count)
		return 0;
	out->start_ns = rounds->start_ns;
	out->length_ns = rounds->items.data[rounds->items.count - 1].end_ns - rounds->start_ns;
	if (!out->length_ns)
		return 0;
	x.last = calloc(c->rank_count + 1, sizeof(*x.last));
	rc = x.last ? make_groups(out, c->rank_count) : -ENOMEM;
	for (size_t i = 0; i < c->matches.items.count && rc >= 0; i++)
		rc = add_match(&x, &c->matches.items.data[i]);
	if (rc >= 0)
		add_times(&x);
	for (size_t i = 0; i < out->group_count; i++)
		for (size_t k = 0; k < out->group_count; k++)
			out->most_ns = MAX(out->most_ns, out->groups[i].for_ns[k]);
	groups_take(&x.pairs, compare_pairs, &out->pairs, &out->pair_count);
	vec_release(&x.waits);
	free(x.last);
	return rc;
}

static int run(struct report *r, void *result)
{
	return r->options.collectives ? rank_waits_find(r->collectives, r->rank_times, result) : 0;
}

const struct analysis analysis_rank_waits = {
	.size = sizeof(struct rank_waits),
	.run = run,
	.owned = { OWNS(struct rank_waits, groups), OWNS(struct rank_waits, pairs) },
	.reads_others = true,
};
