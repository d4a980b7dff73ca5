#include "analysis/rank_rounds.h"

#include <errno.h>

#include "analysis/groups.h"
#include "base/search.h"

#define REPETITIONS_LEAST 5u

/* Collectives that are alike, by their order. */
struct kind_of {
	uint64_t number;
	size_t first, last, longest; /* longest: distance from one to the next */
};

struct span {
	uint64_t start_ns, end_ns;
};

ORDER(compare_starts, struct compared_match, UP(start_ns))
ORDER(compare_ends, struct compared_match, UP(end_ns) ?: UP(match))

static int find_kinds(const struct collectives *c, const struct compared_match *compared,
		      size_t count, struct kind_of *rarest)
{
	GROUPS(struct kind_of) kinds = GROUPS_INIT;
	int rc = 0;

	for (size_t i = 0; i < count && rc >= 0; i++) {
		const struct collective_part *p =
			&c->parts.data[c->matches.items.data[compared[i].match].first];
		uint64_t key =
			hash_u64(hash_u64(p->communicator ^ hash_u64(p->count)) + p->function);
		struct kind_of *k;

		if (p->function == collective_function_send) /* of which a step has many */
			continue;
		k = groups_at(&kinds, key, .first = i, .last = i);
		if (!k) {
			rc = -ENOMEM;
			break;
		}
		k->longest = MAX(k->longest, i - k->last);
		k->last = i;
		k->number++;
	}
	for (size_t i = 0; i < kinds.items.count; i++) {
		const struct kind_of *k = &kinds.items.data[i];
		/* The first and the last round may be incomplete. */
		size_t longest = MAX(k->longest, MAX(k->first, count - 1 - k->last));
		bool regular = k->number >= REPETITIONS_LEAST &&
			       2 * longest * (k->number - 1) <= 3 * (k->last - k->first);

		if (regular && (!rarest->number || k->number < rarest->number))
			*rarest = *k;
	}
	groups_release(&kinds);
	return rc;
}

/* How many collectives are a round. */
static int find_length(const struct collectives *c, const struct compared_match *compared,
		       size_t count, uint64_t step_ns, struct rank_rounds *out, size_t *length)
{
	double in_step = (double)count * (double)step_ns / (double)MAX(out->span_ns, 1);
	struct kind_of rarest = { 0 };
	int rc;

	*length = 1;
	if (in_step >= 1 && in_step <= (double)count) {
		*length = (size_t)(in_step + 0.5);
		out->kind = ROUND_STEP;
		return 0;
	}
	rc = find_kinds(c, compared, count, &rarest);
	if (rarest.number) {
		*length = (rarest.last - rarest.first + (rarest.number - 1) / 2) /
			  (rarest.number - 1);
		out->kind = *length > 1 ? ROUND_REPETITION : ROUND_COLLECTIVE;
	}
	return rc;
}

/* Joins the times of the collectives. Returns their number, in order; they do not overlap. */
static size_t join_times(struct compared_match *compared, size_t count, struct span *spans,
			 struct rank_rounds *out)
{
	size_t joined = 0;

	qsort(compared, count, sizeof(*compared), compare_starts);
	for (size_t i = 0; i < count; i++) {
		const struct compared_match *m = &compared[i];
		struct span *last = joined ? &spans[joined - 1] : NULL;

		if (last && m->start_ns <= last->end_ns)
			last->end_ns = MAX(last->end_ns, m->end_ns);
		else
			spans[joined++] = (struct span){ m->start_ns, m->end_ns };
	}
	out->start_ns = spans->start_ns;
	for (size_t i = 0; i < joined; i++)
		out->span_ns += spans[i].end_ns - spans[i].start_ns;
	return joined;
}

/* Adds a round that ends at a time. *span is the first one that is not yet over. */
static int add_round(struct rank_rounds *out, struct span **span, const struct span *end,
		     uint64_t end_ns)
{
	struct rank_round round = { .end_ns = end_ns };

	for (; *span < end && (*span)->start_ns < end_ns; ++*span) {
		uint64_t until_ns = MIN((*span)->end_ns, end_ns);

		round.span_ns += until_ns - (*span)->start_ns;
		(*span)->start_ns = until_ns;
		if (until_ns < (*span)->end_ns)
			break;
	}
	return vec_push(&out->items, round);
}

int rank_rounds_find(const struct collectives *c, struct compared_match *compared, size_t count,
		     uint64_t step_ns, struct rank_rounds *out)
{
	struct span *spans = calloc(count + 1, sizeof(*spans)), *span = spans;
	size_t joined, length = 1;
	int rc = spans ? 0 : -ENOMEM;

	*out = (struct rank_rounds){ .kind = ROUND_COLLECTIVE };
	if (rc < 0 || !count)
		goto out;
	joined = join_times(compared, count, spans, out);
	qsort(compared, count, sizeof(*compared), compare_ends);
	rc = find_length(c, compared, count, step_ns, out, &length);
	for (size_t from = 0; from < count && rc >= 0; from += length) {
		size_t to = from + 2 * length > count ? count : from + length; /* a rest is added */

		rc = add_round(out, &span, spans + joined, compared[to - 1].end_ns);
		if (to == count)
			break;
	}
out:
	free(spans);
	return rc;
}
