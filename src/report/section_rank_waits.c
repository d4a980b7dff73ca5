/* section_rank_waits.c: when ranks waited for each other, and which for which, as heat maps. */
#include "report/section.h"

#include <stdio.h>

#include "analysis/collectives.h"
#include "analysis/rank_waits.h"
#include "base/human.h"
#include "report/words.h"

#define GROUP(member) MEMBER(struct rank_wait_group, member)
#define PAIR(member) MEMBER(struct rank_wait_pair, member)

static const struct rank_waits *waits_of(const struct report_view *v)
{
	return v->report->rank_waits;
}

static uint32_t number_of(const struct report_view *v, uint32_t rank)
{
	return v->report->collectives->ranks[rank].number;
}

/* "3", "4-7" */
static void add_ranks(const struct report_view *v, const struct rank_wait_group *g,
		      struct strbuf *out)
{
	uint32_t first = number_of(v, g->first), last = number_of(v, g->end - 1);

	strbuf_addf(out, first == last ? "%u" : "%u-%u", first, last);
}

/* A cell of a heat map, of which `whole` is the darkest. */
struct cell {
	uint64_t ns, whole;
};

typedef struct cell cell_at(const struct rank_waits *w, const struct rank_wait_group *g,
			    unsigned column);

static struct cell time_cell(const struct rank_waits *w, const struct rank_wait_group *g,
			     unsigned column)
{
	uint64_t length_ns = rank_waits_span(w, column + 1) - rank_waits_span(w, column);

	return (struct cell){ g->span_ns[column], length_ns * (g->end - g->first) };
}

static struct cell pair_cell(const struct rank_waits *w, const struct rank_wait_group *g,
			     unsigned column)
{
	return (struct cell){ g->for_ns[column], w->most_ns };
}

static void add_cells(const struct report_view *v, const struct rank_wait_group *g, cell_at *at,
		      unsigned columns, struct strbuf *out)
{
	for (unsigned i = 0; i < columns; i++) {
		struct cell cell = at(waits_of(v), g, i);

		strbuf_adds(out, text_shade(v->bars, cell.ns, cell.whole));
	}
}

static const char *time_head(const struct report_view *v)
{
	return v->html ? NULL : "when";
}

/* Of two ranks the pairs say all; a page has a picture. */
ROW_IF(is_needless, struct rank_wait_group, v->html || waits_of(v)->group_count < 3)

/* Rows of text end with a sign that is no shade: blanks at the end would be cut. */
ROW_READ(read_times, struct rank_wait_group,
	 add_cells(v, row, time_cell, RANK_WAITS_SPANS, &out->text);
	 strbuf_addc(&out->text, '|'))
ROW_READ(read_awaited_ranks, struct rank_wait_group,
	 add_cells(v, row, pair_cell, (unsigned)waits_of(v)->group_count, &out->text);
	 strbuf_addc(&out->text, '|'))
ROW_READ(read_ranks, struct rank_wait_group, add_ranks(v, row, &out->text))
ROW_READ(read_first, struct rank_wait_group, out->n = number_of(v, row->first))
ROW_READ(read_last, struct rank_wait_group, out->n = number_of(v, row->end - 1))
ROW_READ(read_count, struct rank_wait_group, out->n = row->end - row->first)
ROW_READ(read_share, struct rank_wait_group, out->n = row->ns;
	 out->whole = waits_of(v)->length_ns * (row->end - row->first))
ROW_READ(read_waiting, struct rank_wait_pair, out->n = number_of(v, row->waiting))
ROW_READ(read_awaited, struct rank_wait_pair, out->n = number_of(v, row->awaited))

static const struct field group_fields[] = {
	FIELD(NULL, "ranks", TEXT, .value = read_ranks),
	FIELD(NULL, "waiting", SHARE, .value = read_share),
	{ .head_of = time_head, .unit = UNIT_TEXT, .value = read_times, LEFT_COLUMN },
	FIELD("first_rank", NULL, ID, .value = read_first),
	FIELD("last_rank", NULL, ID, .value = read_last),
	FIELD("ranks", NULL, COUNT, .value = read_count),
	FIELD("wait_ns", NULL, NS, GROUP(ns)),
	FIELD("span_ns", NULL, NUMBERS, NUMBERS(struct rank_wait_group, span_ns)),
};

static const struct field awaited_fields[] = {
	FIELD(NULL, "ranks", TEXT, .value = read_ranks),
	FIELD(NULL, "waited for, in order of rank", TEXT, .value = read_awaited_ranks, LEFT_COLUMN),
	FIELD("first_rank", NULL, ID, .value = read_first),
	FIELD("last_rank", NULL, ID, .value = read_last),
	FIELD("for_ns", NULL, NUMBERS, NUMBERS(struct rank_wait_group, for_ns), .trim = true),
};

static const struct field pair_fields[] = {
	FIELD("rank", "rank", ID, .value = read_waiting),
	FIELD("wait_ns", "waited", NS, PAIR(ns)),
	FIELD("count", "times", COUNT, PAIR(count)),
	FIELD("for_rank", "for rank", ID, .value = read_awaited),
};

static const struct field fields[] = {
	FIELD("length_ns", NULL, NS, MEMBER(struct rank_waits, length_ns)),
	LIST("groups", ITEMS(struct rank_waits, groups, group_count), group_fields, .all = true),
	LIST("awaited", ITEMS(struct rank_waits, groups, group_count), awaited_fields, .all = true,
	     .hidden = is_needless),
	LIST("pairs", ITEMS(struct rank_waits, pairs, pair_count), pair_fields),
};

static bool is_shown(const struct report_view *v)
{
	return v->report->options.collectives && waits_of(v)->pair_count;
}

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct rank_waits *w = waits_of(v);

	sentence_add(out, WORDS("in "), DURATION(w->length_ns), WORDS(", "),
		     DURATION(rank_waits_span(w, 1)), WORDS(v->html ? " a cell" : " a column"));
}

/* --- pictures --- */

#define LABEL_WIDTH 80
#define MAP_WIDTH 860
#define ROW_HEIGHT 14

/* Appends a row of a heat map; cells of equal shade are one rectangle. */
static void draw_row(const struct report_view *v, const struct rank_wait_group *g, cell_at *at,
		     unsigned columns, unsigned y)
{
	unsigned begin = 0, shade = 0;

	for (unsigned i = 0; i <= columns; i++) {
		struct cell cell = i < columns ? at(waits_of(v), g, i) : (struct cell){ 0 };
		unsigned now = cell.whole ? (unsigned)((unsigned __int128)MIN(cell.ns, cell.whole) *
						       20 / cell.whole)
					  : 0;

		now += !now && cell.ns;
		if (i == columns || now != shade) {
			if (shade)
				strbuf_addf(v->out,
					    "<rect x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%u\""
					    " fill-opacity=\".%02u\"/>",
					    LABEL_WIDTH + (double)MAP_WIDTH * begin / columns, y,
					    (double)MAP_WIDTH * (i - begin) / columns,
					    ROW_HEIGHT - 1, MIN(shade * 5, 99u));
			begin = i;
			shade = now;
		}
	}
}

static void draw_map(const struct report_view *v, const char *title, cell_at *at, unsigned columns)
{
	const struct rank_waits *w = waits_of(v);
	unsigned height = (unsigned)w->group_count * ROW_HEIGHT;

	strbuf_addf(v->out,
		    "<p>%s</p><svg viewBox=\"0 0 %u %u\" width=\"100%%\" role=\"img\" "
		    "aria-label=\"%s\" font-size=\"11\" fill=\"var(--warm)\">",
		    title, LABEL_WIDTH + MAP_WIDTH, height, title);
	for (unsigned i = 0; i < w->group_count; i++) {
		_cleanup_strbuf_ struct strbuf ranks = STRBUF_INIT;

		add_ranks(v, &w->groups[i], &ranks);
		strbuf_addf(v->out,
			    "<text x=\"%u\" y=\"%u\" text-anchor=\"end\" "
			    "fill=\"currentColor\">%s</text>",
			    LABEL_WIDTH - 8, (i + 1) * ROW_HEIGHT - 3, strbuf_text(&ranks));
		draw_row(v, &w->groups[i], at, columns, i * ROW_HEIGHT);
	}
	strbuf_addf(v->out,
		    "<rect x=\"%u\" y=\"0\" width=\"%u\" height=\"%u\" fill=\"none\" "
		    "stroke=\"currentColor\" stroke-opacity=\".3\"/></svg>\n",
		    LABEL_WIDTH, MAP_WIDTH, height);
}

static void draw(const struct report_view *v)
{
	size_t count = waits_of(v)->group_count;

	draw_map(v, "ranks from top to bottom, time from left to right", time_cell,
		 RANK_WAITS_SPANS);
	if (count > 2)
		draw_map(v,
			 "ranks that waited from top to bottom, ranks that they waited for from "
			 "left "
			 "to right",
			 pair_cell, (unsigned)count);
}

const struct section section_rank_waits = {
	.key = "rank_waits",
	.title = "waiting of ranks",
	RESULT(rank_waits),
	FIELDS(fields),
	.shown = is_shown,
	.computed = is_shown,
	.remark = add_remark,
	.picture = draw,
};
