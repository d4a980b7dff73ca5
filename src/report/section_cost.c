/* section_cost.c: what Pitot itself cost. */
#include "report/section.h"

#include "analysis/cost.h"
#include "report/words.h"

/* Appends "callbacks 12.3 ms (1,002,000 x 12 ns)". */
static void add_cost(struct strbuf *line, const struct cost *c, enum cost_kind kind,
		     const char *text)
{
	const struct cost_sum *sum = &c->kinds[kind];

	if (!sum->any)
		return;
	sentence_add(line, WORDS(line->length ? ", " : ""), WORDS(text), WORDS(" "),
		     DURATION(sum->total_ns));
	if (kind == cost_kind_callback && sum->count)
		sentence_add(line, WORDS(" ("), NUMBER(sum->count), WORDS(" x "),
			     DURATION(sum->total_ns / sum->count), WORDS(")"));
	if (sum->bytes)
		sentence_add(line, WORDS(" for "), BYTES(sum->bytes));
}

static void print(const struct report_view *v)
{
	const struct cost *c = v->report->cost;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	add_cost(&line, c, cost_kind_callback, "callbacks");
	add_cost(&line, c, cost_kind_setup, "set-up");
	add_cost(&line, c, cost_kind_replay, "measured launches");
	add_cost(&line, c, cost_kind_exit, "exit");
	add_cost(&line, c, cost_kind_buffer_request, "buffer requests");
	add_cost(&line, c, cost_kind_collector, "collector (own thread)");
	add_cost(&line, c, cost_kind_sampler, "CPU sampler (outside the program)");
	add_cost(&line, c, cost_kind_timer_sample, "CPU samples (inside the program)");
	add_cost(&line, c, cost_kind_write, "writing");
	if (c->overhead_count)
		sentence_add(&line, WORDS(line.length ? ", " : ""),
			     WORDS("the profiling library's own overhead "),
			     DURATION(c->overhead_ns));
	if (c->clock_replaced)
		sentence_add(&line, WORDS(line.length ? "; " : ""),
			     WORDS("other costs are unknown, because the program did not run on "
				   "the machine's clock (for example, a tape was played)"));
	report_labelled(v, STYLE_NONE, "cost",
			line.length ? strbuf_text(&line) : "not measured in this recording");
}

#define SUM(member) MEMBER(struct cost_sum, member)

static const struct field kind_fields[] = {
	FIELD("count", NULL, COUNT, SUM(count)),
	FIELD("total_ns", NULL, NS, SUM(total_ns)),
	FIELD("bytes", NULL, BYTES, SUM(bytes)),
};

ROW_IF(is_unknown, struct cost_sum, !row->any)
ROW_IF(has_clock, struct cost, !row->clock_replaced)

static const struct field fields[] = {
	LIST(NULL, ARRAY(struct cost, kinds), kind_fields, .all = true, .hidden = is_unknown,
	     .names = cost_kind_name),
	FIELD("target_ns", NULL, NS, MEMBER(struct cost, target_ns), .when = has_clock,
	      .null = true),
	FIELD("cupti_overhead_ns", NULL, NS, MEMBER(struct cost, overhead_ns)),
};

const struct section section_cost = { .key = "cost", RESULT(cost), FIELDS(fields), .text = print };
