#include "ranks/peer_pattern.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/search.h"

/* A rank, and what is known of its group if the rank is the group's root. */
struct node {
	size_t parent; /* towards the root of its group */
	uint32_t sends,
		receives; /* number of ranks to which it sends, and from which it receives */
	uint32_t links; /* number of ranks with which it exchanges anything */
	size_t nodes, link_sum, send_sum; /* of the group */
	bool branches; /* the group has a rank with more than two links */
	bool turns; /* … or one that sends to one of two neighbours and receives from none */
};

static size_t root_of(struct node *nodes, size_t i)
{
	while (nodes[i].parent != i)
		i = nodes[i].parent = nodes[nodes[i].parent].parent;
	return i;
}

ORDER(compare_pairs, struct peer_pair,
      ORDER_OF(MIN(a->from, a->to), MIN(b->from, b->to))
	      ?: ORDER_OF(MAX(a->from, a->to), MAX(b->from, b->to)))

/* Counts the links of each rank; a pair and its reverse are one link. */
static void add_links(struct node *nodes, const struct peer_pair *sorted, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct peer_pair *p = &sorted[i];

		nodes[p->from].sends++;
		nodes[p->to].receives++;
		nodes[root_of(nodes, p->from)].parent = root_of(nodes, p->to);
		if (i && !compare_pairs(p, p - 1))
			continue;
		nodes[p->from].links++;
		nodes[p->to].links++;
	}
}

static enum peer_pattern pattern_of(const struct node *g)
{
	size_t links = g->link_sum / 2;
	bool one_way = g->send_sum == links, both_ways = g->send_sum == 2 * links;

	if (g->nodes == 2)
		return both_ways ? PEERS_PAIRS : PEERS_PIPELINE;
	if (both_ways && links == g->nodes * (g->nodes - 1) / 2)
		return PEERS_ALL_TO_ALL;
	if (g->branches || (one_way && g->turns) || !(one_way || both_ways))
		return PEERS_OTHER;
	return links == g->nodes ? PEERS_RING : PEERS_PIPELINE;
}

int peer_pattern_find(const struct peer_pair *pairs, size_t count, size_t ranks,
		      enum peer_pattern *pattern, size_t *groups)
{
	_cleanup_free_ struct node *nodes = calloc(ranks + 1, sizeof(*nodes));
	_cleanup_free_ struct peer_pair *sorted = calloc(count + 1, sizeof(*sorted));

	*pattern = PEERS_NONE;
	*groups = 0;
	for (size_t i = 0; sorted && i < count; i++)
		sorted[i] = pairs[i];
	for (size_t i = 0; nodes && i < ranks; i++)
		nodes[i].parent = i;
	if (nodes && sorted) {
		qsort(sorted, count, sizeof(*sorted), compare_pairs);
		add_links(nodes, sorted, count);
	}
	for (size_t i = 0; nodes && i < ranks; i++) {
		struct node *n = &nodes[i], *root = &nodes[root_of(nodes, i)];

		root->nodes++;
		root->link_sum += n->links;
		root->send_sum += n->sends;
		root->branches |= n->links > 2;
		root->turns |= n->links == 2 && (n->sends != 1 || n->receives != 1);
	}
	for (size_t i = 0; nodes && sorted && i < ranks; i++) {
		enum peer_pattern found;

		if (nodes[i].parent != i || nodes[i].nodes < 2)
			continue;
		found = pattern_of(&nodes[i]);
		*pattern = *groups && found != *pattern ? PEERS_OTHER : found;
		++*groups;
	}
	return nodes && sorted ? 0 : -ENOMEM;
}
