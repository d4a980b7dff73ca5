#include "analysis/peer_traffic.h"

#include <errno.h>

#include "analysis/collectives.h"
#include "analysis/groups.h"
#include "analysis/report.h"

#define NO_RANK UINT64_MAX

struct tally {
	const struct report *report;
	struct map ranks; /* process -> item of collectives.ranks, NO_RANK: several */
	struct map members; /* hash and rank of a communicator -> item of collectives.ranks */
	GROUPS(struct peer_pair) pairs; /* key: sender, receiver */
	struct peer_traffic *out;
};

static uint64_t member_key(uint64_t hash, uint32_t rank)
{
	return hash_u64(hash ^ hash_u64(rank + UINT64_C(1)));
}

/* A process with several GPUs does not tell which one a communicator is about. */
static int find_ranks(struct tally *x)
{
	const struct collectives *c = x->report->collectives;

	for (size_t i = 0; i < c->rank_count; i++) {
		uint64_t *item = map_at(&x->ranks, c->ranks[i].process, i);

		if (!item)
			return -ENOMEM;
		if (*item != i)
			*item = NO_RANK;
	}
	return 0;
}

static uint64_t rank_of(const struct map *map, uint64_t key)
{
	uint64_t rank;

	return map_get(map, key, &rank) ? rank : NO_RANK;
}

static int find_members(struct tally *x)
{
	const struct communicator_columns *c = communicator_columns(x->report->trace);

	for (struct row_walk w = selection_rows(&x->report->selection, TABLE_communicator);
	     row_walk_next(&w);) {
		uint64_t rank = rank_of(&x->ranks, w.process);

		if (rank != NO_RANK && column_has(c->valid.rank, w.row) &&
		    map_put(&x->members, member_key(c->hash[w.row], c->rank[w.row]), rank) < 0)
			return -ENOMEM;
	}
	return 0;
}

static int add_send(struct tally *x, const struct row_walk *w)
{
	const struct collective_columns *c = collective_columns(x->report->trace);
	uint32_t communicator = c->communicator[w->row];
	uint64_t from = rank_of(&x->ranks, w->process), to = NO_RANK;
	struct peer_pair *pair;

	if (column_has(c->valid.communicator, w->row) && communicator != TRACE_NO_ROW &&
	    column_has(c->valid.peer, w->row))
		to = rank_of(&x->members,
			     member_key(communicator_columns(x->report->trace)->hash[communicator],
					c->peer[w->row]));
	if (from == to && from != NO_RANK) /* a copy on one GPU */
		return 0;
	if (from == NO_RANK || to == NO_RANK || !column_has(c->valid.bytes, w->row) ||
	    (column_has(c->valid.captured, w->row) && c->captured[w->row])) {
		x->out->unknown++;
		return 0;
	}
	pair = groups_at(&x->pairs, from << 32 | to, .from = (uint32_t)from, .to = (uint32_t)to);
	if (!pair)
		return -ENOMEM;
	pair->bytes += c->bytes[w->row];
	pair->count++;
	x->out->bytes += c->bytes[w->row];
	return 0;
}

static int add_rows(struct tally *x)
{
	const struct collective_columns *c = collective_columns(x->report->trace);
	int rc = 0;

	for (struct row_walk w = selection_rows(&x->report->selection, TABLE_collective);
	     rc >= 0 && row_walk_next(&w);) {
		if (!selection_has_time(&x->report->selection, true, c->time_ns[w.row]))
			continue;
		if (c->function[w.row] == collective_function_send)
			rc = add_send(x, &w);
		else
			x->out->collectives += c->function[w.row] != collective_function_recv;
	}
	return rc;
}

ORDER(compare_pairs, struct peer_pair, UP(from) ?: UP(to))

static int run(struct report *r, void *result)
{
	struct tally x = { .report = r,
			   .ranks = MAP_INIT,
			   .members = MAP_INIT,
			   .pairs = GROUPS_INIT,
			   .out = result };
	int rc = find_ranks(&x);

	if (rc >= 0)
		rc = find_members(&x);
	if (rc >= 0)
		rc = add_rows(&x);
	groups_take(&x.pairs, compare_pairs, &x.out->items, &x.out->count);
	map_release(&x.ranks);
	map_release(&x.members);
	return rc < 0 ? rc
		      : peer_pattern_find(x.out->items, x.out->count, r->collectives->rank_count,
					  &x.out->pattern, &x.out->groups);
}

const struct analysis analysis_peer_traffic = {
	.size = sizeof(struct peer_traffic),
	.run = run,
	.owned = { OWNS(struct peer_traffic, items) },
	.reads_others = true,
};
