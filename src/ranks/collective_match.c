#include "ranks/collective_match.h"

#include <errno.h>
#include <stdlib.h>

#include "base/search.h"

ORDER(compare_parts, struct collective_part,
      UP(communicator) ?: UP(function) ?: UP(sequence) ?: UP(rank) ?: UP(start_ns))
ORDER(compare_ranks, struct communicator_rank, UP(communicator) ?: UP(rank))

static bool same_key(const struct collective_part *a, const struct collective_part *b)
{
	return a->communicator == b->communicator && a->function == b->function &&
	       a->sequence == b->sequence;
}

struct matching {
	const struct collective_part *parts;
	size_t count;
	const struct communicator_rank *ranks;
	size_t rank_count;
	const struct rank_window *windows;
	struct collective_matches *out;
};

static void compare_with_first(const struct collective_part *first,
			       const struct collective_part *part, struct collective_match *m)
{
	m->repeated |= part->rank == part[-1].rank;
	m->differs |= !part->inferred && !first->inferred &&
		      (part->count != first->count || part->datatype != first->datatype ||
		       part->root != first->root);
}

/* The first item of a communicator, or the number of items. */
static size_t find_communicator(const struct matching *x, uint64_t communicator)
{
	size_t low = sorted_prefix(x->rank_count, i, x->ranks[i].communicator < communicator);

	return low < x->rank_count && x->ranks[low].communicator == communicator ? low
										 : x->rank_count;
}

/* Why a rank of the communicator has no part in a match. */
static enum absence why_absent(const struct matching *x, const struct collective_match *m,
			       uint32_t rank)
{
	const struct rank_window *window = &x->windows[rank];
	uint64_t last_start = 0, first_end = UINT64_MAX;
	bool ended = false;

	for (size_t i = m->first; i < m->first + m->parts; i++) {
		last_start = MAX(last_start, x->parts[i].start_ns);
		if (!x->parts[i].end_ns)
			continue;
		ended = true;
		first_end = MIN(first_end, x->parts[i].end_ns);
	}
	if (last_start >= window->end_ns || (ended && first_end <= window->start_ns))
		return ABSENT_OUTSIDE;
	return ended ? ABSENT_LOST : ABSENT_HUNG;
}

/* Parts of a match and items of its communicator are both ordered by rank. */
static int find_absent(const struct matching *x, struct collective_match *m, size_t from)
{
	const struct collective_part *part = &x->parts[m->first], *end = part + m->parts;
	uint64_t communicator = part->communicator;
	uint32_t recorded = 0, size = 0;

	for (size_t i = from; i < x->rank_count && x->ranks[i].communicator == communicator; i++) {
		struct absent_rank absent = { .match = (uint32_t)x->out->items.count,
					      .rank = x->ranks[i].rank };

		size = MAX(size, x->ranks[i].size);
		if (i > from && x->ranks[i - 1].rank == absent.rank)
			continue;
		recorded++;
		while (part < end && part->rank < absent.rank)
			part++;
		if (part < end && part->rank == absent.rank)
			continue;
		absent.why = why_absent(x, m, absent.rank);
		m->absent[absent.why]++;
		if (absent.why != ABSENT_OUTSIDE && vec_push(&x->out->absent, absent) < 0)
			return -ENOMEM;
	}
	m->absent[ABSENT_UNRECORDED] = size > recorded ? size - recorded : 0;
	return 0;
}

static int add_matches(struct matching *x)
{
	size_t ranks = x->rank_count;

	for (size_t i = 0; i < x->count;) {
		const struct collective_part *first = &x->parts[i];
		struct collective_match m = { .first = i, .parts = 1 };

		if (!i || first->communicator != first[-1].communicator)
			ranks = find_communicator(x, first->communicator);
		while (++i < x->count && same_key(first, &x->parts[i])) {
			compare_with_first(first, &x->parts[i], &m);
			m.parts++;
		}
		if (find_absent(x, &m, ranks) < 0 || vec_push(&x->out->items, m) < 0)
			return -ENOMEM;
	}
	return 0;
}

int collectives_match(struct collective_part *parts, size_t count, struct communicator_rank *ranks,
		      size_t rank_count, const struct rank_window *windows,
		      struct collective_matches *out)
{
	struct matching x = { .parts = parts,
			      .count = count,
			      .ranks = ranks,
			      .rank_count = rank_count,
			      .windows = windows,
			      .out = out };

	*out = (struct collective_matches){ VEC_INIT, VEC_INIT };
	if (count)
		qsort(parts, count, sizeof(*parts), compare_parts);
	if (rank_count)
		qsort(ranks, rank_count, sizeof(*ranks), compare_ranks);
	return add_matches(&x);
}

bool collective_is_whole(const struct collective_part *parts, const struct collective_match *m)
{
	if (m->repeated || m->differs || m->impossible)
		return false;
	for (unsigned i = 0; i < ABSENCES; i++)
		if (m->absent[i])
			return false;
	for (size_t i = m->first; i < m->first + m->parts; i++)
		if (!parts[i].end_ns)
			return false;
	return true;
}

size_t collectives_check_times(const struct collective_part *parts, struct collective_matches *m,
			       uint64_t uncertainty_ns)
{
	size_t count = 0;

	for (size_t i = 0; i < m->items.count; i++) {
		struct collective_match *match = &m->items.data[i];
		uint64_t last_start = 0, first_end = UINT64_MAX;

		match->impossible = false;
		if (!parts[match->first].mutual || !collective_is_whole(parts, match))
			continue;
		for (size_t p = match->first; p < match->first + match->parts; p++) {
			last_start = MAX(last_start, parts[p].start_ns);
			first_end = MIN(first_end, parts[p].end_ns);
		}
		match->impossible =
			last_start > first_end && last_start - first_end > uncertainty_ns;
		count += match->impossible;
	}
	return count;
}

void collectives_release(struct collective_matches *m)
{
	vec_release(&m->items);
	vec_release(&m->absent);
}
