/* section_peers.c: how much ranks sent to each other, as a matrix if they are few. */
#include "base/search.h"
#include "report/section.h"

#include <stdio.h>

#include "analysis/collectives.h"
#include "analysis/peer_traffic.h"
#include "base/human.h"
#include "report/section_html.h"
#include "report/words.h"

#define MATRIX_RANKS 12 /* of more ranks, pairs are listed */

static const char *pattern_name(unsigned pattern)
{
	static const char *const names[PEER_PATTERNS] = {
		[PEERS_NONE] = "none",
		[PEERS_PAIRS] = "pairs",
		[PEERS_RING] = "ring",
		[PEERS_PIPELINE] = "pipeline",
		[PEERS_ALL_TO_ALL] = "all to all",
		[PEERS_OTHER] = "other",
	};

	return names[pattern];
}

static const char *pattern_text(const struct peer_traffic *p)
{
	static const char *const texts[PEER_PATTERNS][2] = {
		[PEERS_PAIRS] = { "a pair", "pairs" },
		[PEERS_RING] = { "a ring", "rings" },
		[PEERS_PIPELINE] = { "a pipeline", "pipelines" },
		[PEERS_ALL_TO_ALL] = { "all to all", "all to all in groups" },
		[PEERS_OTHER] = { "no simple pattern", "no simple pattern" },
	};

	return texts[p->pattern][p->groups > 1];
}

static uint32_t number_of(const struct report_view *v, uint32_t rank)
{
	return v->report->collectives->ranks[rank].number;
}

static void add_title(const struct report_view *v)
{
	const struct peer_traffic *p = v->report->peer_traffic;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	uint64_t sends = 0;

	for (size_t i = 0; i < p->count; i++)
		sends += p->items[i].count;
	sentence_add(&text, WORDS(pattern_text(p)), WORDS(": "), COUNTED_AS(sends, "send"),
		     WORDS(", "));
	human_bytes(&text, p->bytes);
	report_title(v, "sends", strbuf_text(&text));
}

/* A row for each sender, a column for each receiver. */
static void add_matrix(const struct report_view *v, const uint32_t *ranks, size_t count)
{
	const struct peer_traffic *p = v->report->peer_traffic;
	struct text_column columns[MATRIX_RANKS + 1] = { LEFT("from \\ to") };
	_cleanup_table_ struct text_table t = { .columns = columns,
						.column_count = count + 1,
						.fixed = true };
	char heads[MATRIX_RANKS][16];
	uint64_t most = 0;
	size_t next = 0;

	for (size_t i = 0; i < count; i++) {
		snprintf(heads[i], sizeof(heads[i]), "%u", number_of(v, ranks[i]));
		columns[i + 1] = (struct text_column)RIGHT(heads[i]);
	}
	for (size_t i = 0; i < p->count; i++)
		most = MAX(most, p->items[i].bytes);
	for (size_t from = 0; from < count; from++) {
		text_table_add(&t, heads[from]);
		for (size_t to = 0; to < count; to++) {
			const struct peer_pair *pair = &p->items[next];
			_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

			if (next == p->count || pair->from != ranks[from] ||
			    pair->to != ranks[to]) {
				text_table_add(&t, from == to ? "" : "-");
				continue;
			}
			next++;
			human_bytes(&text, pair->bytes);
			if (v->html)
				html_heat(&t, strbuf_text(&text),
					  (double)pair->bytes / (double)MAX(most, 1));
			else
				text_table_add(&t, strbuf_text(&text));
		}
	}
	report_table(v, &t);
}

ORDER(compare_pairs, const struct peer_pair *,
      ORDER_OF((*b)->bytes, (*a)->bytes) ?: ORDER_OF(*a, *b))

/* The pairs with most bytes. */
static void add_pairs(const struct report_view *v)
{
	static const struct text_column columns[] = { RIGHT("from"), RIGHT("to"), RIGHT("size"),
						      RIGHT("sends") };
	const struct peer_traffic *p = v->report->peer_traffic;
	_cleanup_free_ const struct peer_pair **order = calloc(p->count, sizeof(*order));
	_cleanup_table_ struct text_table t = TEXT_TABLE_INIT(columns);

	v->out->failed |= !order;
	for (size_t i = 0; order && i < p->count; i++)
		order[i] = &p->items[i];
	if (order)
		qsort(order, p->count, sizeof(*order), compare_pairs);
	for (size_t i = 0; order && i < MIN(p->count, v->top); i++) {
		text_table_addf(&t, "%u", number_of(v, order[i]->from));
		text_table_addf(&t, "%u", number_of(v, order[i]->to));
		text_table_bytes(&t, order[i]->bytes);
		text_table_count(&t, order[i]->count);
	}
	report_table(v, &t);
}

/* Lists up to MATRIX_RANKS ranks that send or receive, in their order; returns their number. */
static size_t find_ranks(const struct peer_traffic *p, uint32_t ranks[MATRIX_RANKS])
{
	size_t count = 0;

	for (size_t i = 0; i < 2 * p->count; i++) {
		uint32_t rank = i % 2 ? p->items[i / 2].to : p->items[i / 2].from;
		size_t at = 0;

		while (at < count && ranks[at] < rank)
			at++;
		if (at < count && ranks[at] == rank)
			continue;
		if (count == MATRIX_RANKS)
			return count + 1;
		for (size_t k = count++; k > at; k--)
			ranks[k] = ranks[k - 1];
		ranks[at] = rank;
	}
	return count;
}

static void print(const struct report_view *v)
{
	const struct peer_traffic *p = v->report->peer_traffic;
	_cleanup_strbuf_ struct strbuf rest = STRBUF_INIT;
	uint32_t ranks[MATRIX_RANKS];
	size_t count = find_ranks(p, ranks);

	if (!v->report->options.collectives || (!p->count && !p->unknown))
		return;
	if (p->count)
		add_title(v);
	else
		report_title(v, "sends", "between which ranks is unknown");
	if (count > MATRIX_RANKS)
		add_pairs(v);
	else if (count)
		add_matrix(v, ranks, count);
	if (p->unknown)
		sentence_add(
			&rest, COUNTED_AS(p->unknown, "send"),
			WORDS(" not included: captured into CUDA graphs, of unknown size, or to "
			      "ranks that were not recorded\n"));
	if (p->collectives)
		sentence_add(&rest, COUNTED_AS(p->collectives, "collective"),
			     WORDS(" not included: NCCL does not tell between which ranks their "
				   "data goes\n"));
	report_paragraph(v, 2, strbuf_text(&rest));
}

ROW_READ(read_from, struct peer_pair, out->n = number_of(v, row->from))
ROW_READ(read_to, struct peer_pair, out->n = number_of(v, row->to))

static const struct field pair_fields[] = {
	FIELD("from", NULL, ID, .value = read_from),
	FIELD("to", NULL, ID, .value = read_to),
	FIELD("bytes", NULL, BYTES, MEMBER(struct peer_pair, bytes)),
	FIELD("count", NULL, COUNT, MEMBER(struct peer_pair, count)),
};

static const struct field fields[] = {
	FIELD("pattern", NULL, CHOICE, MEMBER(struct peer_traffic, pattern), .names = pattern_name),
	FIELD("groups", NULL, COUNT, MEMBER(struct peer_traffic, groups)),
	LIST("pairs", ITEMS(struct peer_traffic, items, count), pair_fields),
	FIELD("unknown", NULL, COUNT, MEMBER(struct peer_traffic, unknown)),
	FIELD("collectives", NULL, COUNT, MEMBER(struct peer_traffic, collectives)),
};

const struct section section_peers = {
	.key = "sends",
	RESULT(peer_traffic),
	FIELDS(fields),
	.text = print,
};
