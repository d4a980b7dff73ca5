/* section_cost.c: what Pitot itself cost. */
#include "report/section.h"

#include "analysis/cost.h"
#include "base/human.h"

/* "callback 12.3 ms (1,002,000 times 12 ns)" */
static void add_cost(struct strbuf *line, const struct cost *c, enum cost_kind kind,
		     const char *text)
{
	const struct cost_sum *sum = &c->kinds[kind];

	if (!sum->any)
		return;
	strbuf_addf(line, "%s%s ", line->length ? ", " : "", text);
	human_duration(line, sum->total_ns);
	if (kind == cost_kind_callback && sum->count) {
		strbuf_adds(line, " (");
		human_count(line, sum->count);
		strbuf_adds(line, " times ");
		human_duration(line, sum->total_ns / sum->count);
		strbuf_addc(line, ')');
	}
	if (sum->bytes) {
		strbuf_adds(line, " for ");
		human_bytes(line, sum->bytes);
	}
}

static void print(const struct report_view *v)
{
	const struct cost *c = v->report->cost;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	add_cost(&line, c, cost_kind_callback, "callbacks");
	add_cost(&line, c, cost_kind_setup, "set-up");
	add_cost(&line, c, cost_kind_exit, "exit");
	add_cost(&line, c, cost_kind_buffer_request, "buffer requests");
	add_cost(&line, c, cost_kind_collector, "collector (own thread)");
	add_cost(&line, c, cost_kind_sampler, "CPU sampler (outside)");
	add_cost(&line, c, cost_kind_timer_sample, "CPU samples (inside)");
	add_cost(&line, c, cost_kind_write, "writing");
	if (c->overhead_count) {
		strbuf_addf(&line, "%sCUPTI says ", line.length ? ", " : "");
		human_duration(&line, c->overhead_ns);
		strbuf_adds(&line, " of its own");
	}
	report_labelled(v, STYLE_NONE, "cost",
			line.length ? strbuf_text(&line) : "not measured in this recording");
}

static void write_kinds(struct report_view *v, const void *row)
{
	const struct cost *c = row;

	for (unsigned i = 0; i < COST_KINDS; i++) {
		if (!c->kinds[i].any)
			continue;
		report_json_object(v, cost_kind_name(i));
		json_key_u64(&v->json, "count", c->kinds[i].count);
		json_key_u64(&v->json, "total_ns", c->kinds[i].total_ns);
		json_key_u64(&v->json, "bytes", c->kinds[i].bytes);
		json_end(&v->json);
	}
}

static const struct field fields[] = {
	{ .json = write_kinds },
	FIELD("target_ns", NULL, NS, MEMBER(struct cost, target_ns)),
	FIELD("cupti_overhead_ns", NULL, NS, MEMBER(struct cost, overhead_ns)),
};

const struct section section_cost = { .key = "cost", RESULT(cost), FIELDS(fields), .text = print };
