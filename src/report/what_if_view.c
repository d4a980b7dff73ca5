#include "report/what_if_view.h"

#include <stdlib.h>

#include "base/json.h"
#include "report/section.h"
#include "report/words.h"

static const char *const class_texts[] = {
	[PATH_KERNEL] = "kernels",
	[PATH_COPY] = "copies",
	[PATH_MEMSET] = "memory sets",
	[PATH_GRAPH] = "graphs",
	[PATH_LAUNCH] = "launch latency",
	[PATH_GAP] = "latency between work",
	[PATH_RETURN] = "returns of calls that waited",
	[PATH_LATE] = "longer latency than usual",
	[PATH_CALL] = "other calls",
	[PATH_HOST] = "host code",
	[PATH_UNKNOWN] = "unknown",
};

static const struct {
	const char *key, *text;
	size_t offset;
} bars[] = {
	{ "steps_ns", "differences between steps", offsetof(struct what_if, steps_bar_ns) },
	{ "recording_ns", "what recording adds to calls", offsetof(struct what_if, call_bar_ns) },
	{ "overlap_ns", "work that ran side by side", offsetof(struct what_if, overlap_bar_ns) },
	{ "identity_ns", "a simulation without a change", offsetof(struct what_if, identity_ns) },
	{ "runs_ns", "differences between runs", offsetof(struct what_if, runs_bar_ns) },
	{ "graph_ns", "latencies inside of the graph", offsetof(struct what_if, graph_bar_ns) },
};

static const char *const call_cost_names[] = {
#define SOURCE(name) [CALL_COST_##name] = #name,
	CALL_COST_SOURCES(SOURCE)
#undef SOURCE
};

static const char *const call_cost_texts[] = {
	[CALL_COST_assumption] = ", which is an assumption: `pitot calibrate` on the recorded "
				 "machine measures it (--call-cost)\n",
	[CALL_COST_option] = "\n",
	[CALL_COST_calibration] = ", as `pitot calibrate` measured\n",
};

static const char *const graph_cost_names[] = {
#define SOURCE(name) [GRAPH_COST_##name] = #name,
	GRAPH_COST_SOURCES(SOURCE)
#undef SOURCE
};

static const char *const graph_cost_texts[] = {
	[GRAPH_COST_option] = ", as given",
	[GRAPH_COST_recording] = ", the median of the recorded ones",
	[GRAPH_COST_calibration] = ", as `pitot calibrate` measured",
};

static uint64_t bar_of(const struct what_if *w, size_t i)
{
	return *(const uint64_t *)(const void *)((const char *)w + bars[i].offset);
}

static void add_title(const struct report_view *v, const struct what_if *w)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (w->loop)
		sentence_add(&text, WORDS("the last "), COUNTED_AS(w->step_count, "step"),
			     WORDS(" of "), NUMBER(w->loop->count));
	else
		sentence_add(&text, DURATION(w->recorded.span_ns),
			     WORDS(" as a whole: no steps were found"));
	report_of_process(v->report, w->process, &text);
	style_add(v->out, v->color, STYLE_BOLD, "what if");
	strbuf_addf(v->out, "  %s\n", strbuf_text(&text));
}

static void add_percent(struct text_table *t, int64_t part, uint64_t whole)
{
	struct strbuf *cell = text_table_begin(t);

	if (part > 0)
		strbuf_addc(cell, '+');
	else if (part < 0)
		strbuf_addc(cell, '-');
	sentence_add(cell, PERCENT((uint64_t)llabs(part), whole));
}

/* --- predictions --- */

static void print_transforms(const struct report_view *v, const struct what_if_rule *rules,
			     size_t count)
{
	static const struct text_column columns[] = { FLEXIBLE("transform"), RIGHT("changes"),
						      RIGHT("which took") };
	_cleanup_table_ struct text_table t = TEXT_TABLE_INIT(columns);

	for (size_t i = 0; i < count; i++) {
		text_table_safe(&t, rules[i].text);
		text_table_count(&t, rules[i].matched);
		text_table_duration(&t, rules[i].cost_ns);
	}
	report_table(v, &t);
}

static void print_times(const struct report_view *v, const struct what_if *w)
{
	static const struct text_column columns[] = { LEFT(""), RIGHT("time"), RIGHT("+/-"),
						      RIGHT("change") };
	_cleanup_table_ struct text_table t = TEXT_TABLE_INIT(columns);
	const char *what = w->loop ? "step" : "all";

	text_table_addf(&t, "%s, recorded", what);
	text_table_duration(&t, w->recorded.step_ns);
	text_table_end_row(&t);
	text_table_addf(&t, "%s, corrected", what);
	text_table_duration(&t, w->corrected.step_ns);
	text_table_end_row(&t);
	text_table_addf(&t, "%s, predicted", what);
	text_table_duration(&t, w->predicted.step_ns);
	text_table_duration(&t, w->bar_ns);
	add_percent(&t, (int64_t)(w->predicted.step_ns - w->corrected.step_ns),
		    w->corrected.step_ns);
	report_table(v, &t);
}

static void print_classes(const struct report_view *v, const struct what_if *w)
{
	static const struct text_column columns[] = { FLEXIBLE("bounded by"), RIGHT("recorded"),
						      RIGHT("corrected"), RIGHT("predicted") };
	_cleanup_table_ struct text_table t = TEXT_TABLE_INIT(columns);

	for (unsigned class = 0; class < PATH_CLASSES; class ++) {
		const struct what_if_times *times[] = { &w->recorded, &w->corrected,
							&w->predicted };

		if (!w->recorded.class_ns[class] && !w->predicted.class_ns[class])
			continue;
		text_table_add(&t, class_texts[class]);
		for (size_t i = 0; i < ARRAY_SIZE(times); i++)
			text_table_percent(&t, times[i]->class_ns[class],
					   MAX(times[i]->span_ns, 1));
	}
	report_table(v, &t);
}

/* What the figures do not include. */
static void print_notes(const struct report_view *v, const struct what_if *w)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	if (w->call_ns)
		sentence_add(&text, WORDS("corrected: each of "),
			     COUNTED_AS(w->launches, "launching call"), WORDS(" takes "),
			     DURATION(w->call_ns), WORDS(" less than recorded"),
			     WORDS(call_cost_texts[w->call_source]));
	if (w->call_ns && w->call_spread_ns)
		sentence_add(&text, WORDS("and weighed with the usual "), DURATION(WHAT_IF_CALL_NS),
			     WORDS(" (+/- "), DURATION(WHAT_IF_CALL_SPREAD_NS), WORDS("): +/- "),
			     DURATION(w->call_spread_ns), WORDS("\n"));
	if (w->graph_launches && w->graph_added_ns)
		sentence_add(&text, WORDS("those of graphs ("), NUMBER(w->graph_launches),
			     WORDS(") take "), DURATION(w->graph_added_ns), WORDS(" less, and "),
			     DURATION(w->node_added_ns),
			     WORDS(" for each further node; such a node takes "),
			     DURATION(w->node_gap_ns), WORDS(" (+/- "),
			     DURATION(w->node_gap_bar_ns), WORDS(") less on the GPU\n"));
	sentence_add(&text, WORDS("a simulation without a change is "), DURATION(w->identity_ns),
		     WORDS(" off\n"));
	if (w->rank_wait_ns)
		sentence_add(
			&text, WORDS("collectives only waited for other ranks in "),
			DURATION(w->rank_wait_ns),
			WORDS(" of the recording, which is no cost of their kernels"),
			WORDS(w->ranks.ranges.count ? "\n" : "; other ranks are not simulated\n"));
	if (w->ranks.ranges.count)
		sentence_add(&text, COUNTED_AS(w->ranks.ranges.count, "rank"),
			     WORDS(" are simulated together, with the same changes\n"));
	if (w->ranks.unresolved)
		sentence_add(&text, WORDS("ranks launch collectives in different orders: "),
			     NUMBER(w->ranks.unresolved),
			     WORDS(" of them begin on other ranks as recorded\n"));
	if (w->unknown_waits)
		sentence_add(&text, WORDS("of "), COUNTED_AS(w->unknown_waits, "collective"),
			     WORDS(" it is unknown how long they only waited for other ranks: that "
				   "counts as their cost"),
			     WORDS(trace_only_rank(v->report->trace, NULL)
					   ? "; without --rank it is known of recorded ranks\n"
					   : "\n"));
	if (w->omitted)
		sentence_add(&text, NUMBER(w->omitted),
			     WORDS(" more kernels, copies, calls and lines cost at most "),
			     DURATION(w->omitted_ns / MAX(w->step_count, 1)),
			     WORDS(w->loop ? " of a step each\n" : " each\n"));
	if (w->beside)
		strbuf_adds(&text, "threads make calls side by side: what they wait for each other "
				   "for is unknown, so predictions may be wrong\n");
	if (w->recorded.class_ns[PATH_UNKNOWN])
		sentence_add(&text,
			     PERCENT(w->recorded.class_ns[PATH_UNKNOWN], w->recorded.span_ns),
			     WORDS(" of what bounds the time is unknown, and stays as it was\n"));
	report_paragraph(v, 2, strbuf_text(&text));
}

static void print_graphs(const struct report_view *v, const struct what_if_rule *rules,
			 size_t count)
{
	for (size_t i = 0; i < count; i++) {
		_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

		if (rules[i].target != WHAT_IF_graph)
			continue;
		sentence_add(&text, WORDS("a launch of the graph takes "),
			     DURATION((uint64_t)rules[i].ns),
			     WORDS(graph_cost_texts[rules[i].graph_source]),
			     WORDS("; its nodes follow each other after "),
			     DURATION(rules[i].latency_ns),
			     WORDS(rules[i].latency_measured
					   ? ", as `pitot calibrate` measured\n"
					   : ", a quarter of what other work takes, which is an "
					     "assumption\n"));
		report_paragraph(v, 2, strbuf_text(&text));
	}
}

static void print_largest_bar(const struct report_view *v, const struct what_if *w)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;
	size_t largest = 0;

	for (size_t i = 1; i < ARRAY_SIZE(bars); i++)
		if (bar_of(w, i) > bar_of(w, largest))
			largest = i;
	if (w->bar_ns)
		sentence_add(&text, WORDS("the largest part of +/- "), DURATION(w->bar_ns),
			     WORDS(" is "), DURATION(bar_of(w, largest)), WORDS(" for "),
			     WORDS(bars[largest].text), WORDS("\n"));
	report_paragraph(v, 2, strbuf_text(&text));
}

/* --- candidates --- */

static void add_candidate(const struct report_view *v, const struct what_if *w,
			  const struct what_if_candidate *c, struct strbuf *out)
{
	if (c->target == WHAT_IF_wait)
		strbuf_adds(out, "waiting for other ranks");
	else if (c->target == WHAT_IF_comm)
		strbuf_adds(out, "transfers of collectives, on all ranks");
	else if (c->target == WHAT_IF_straggler)
		strbuf_adds(out, "what ranks need longer than the median rank");
	else if (c->is_class)
		strbuf_addf(out, "all %s", class_texts[c->place.class]);
	else
		report_place_text(v, c->place, out);
	if (c->process != w->process)
		report_of_process(v->report, c->process, out);
}

static void print_candidates(const struct report_view *v, const struct what_if *w)
{
	static const struct text_column columns[] = { RIGHT("gain"), RIGHT("change"),
						      RIGHT("costs now"),
						      FLEXIBLE("if it took half") };
	_cleanup_table_ struct text_table t = TEXT_TABLE_INIT(columns);
	uint64_t count = w->step_count ? w->step_count : 1;

	for (size_t i = 0; i < MIN(w->candidate_count, v->top); i++) {
		const struct what_if_candidate *c = &w->candidates[i];

		if (c->gain_ns < 0)
			strbuf_addc(text_table_begin(&t), '-');
		else
			text_table_duration(&t, (uint64_t)c->gain_ns);
		add_percent(&t, -c->gain_ns, w->corrected.step_ns);
		text_table_duration(&t, c->cost_ns / count);
		add_candidate(v, w, c, text_table_begin(&t));
	}
	report_table(v, &t);
}

/* Each rank alone, which may gain nothing where others are as late. */
static void print_slow_ranks(const struct report_view *v, const struct what_if *w)
{
	static const struct text_column columns[] = {
		RIGHT("gain"), RIGHT("change"), RIGHT("step then"), RIGHT("slower by"),
		FLEXIBLE("if it were as fast as the median rank")
	};
	_cleanup_table_ struct text_table t = TEXT_TABLE_INIT(columns);

	for (size_t i = 0; i < MIN(w->slow_rank_count, v->top); i++) {
		const struct what_if_rank *r = &w->slow_ranks[i];
		int64_t gain_ns = (int64_t)(w->corrected.step_ns - r->step_ns);

		if (gain_ns < 0)
			strbuf_addc(text_table_begin(&t), '-');
		else
			text_table_duration(&t, (uint64_t)gain_ns);
		add_percent(&t, -gain_ns, w->corrected.step_ns);
		text_table_duration(&t, r->step_ns);
		text_table_duration(&t, r->slower_ns / MAX(w->step_count, 1));
		text_table_addf(&t, "rank %u: 'no straggler %u'", r->rank, r->rank);
	}
	if (w->slow_rank_count)
		report_gap(v);
	if (w->slow_rank_count)
		report_table(v, &t);
}

void what_if_text(const struct report_view *v, const struct what_if *w,
		  const struct what_if_rule *rules, size_t count)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	add_title(v, w);
	if (w->contradicts_busy)
		report_paragraph(
			v, 2,
			"the GPU was busy nearly all the time, but host code and calls bound it "
			"for longer than GPU work: the recording lacks what work waited for, or "
			"both limit the pace alike, so the following may be wrong\n");
	if (count) {
		print_transforms(v, rules, count);
		report_gap(v);
		print_times(v, w);
		print_largest_bar(v, w);
		report_gap(v);
		print_classes(v, w);
	} else {
		sentence_add(&text, WORDS(w->loop ? "a step takes " : "all takes "),
			     DURATION(w->recorded.step_ns), WORDS(" recorded, "),
			     DURATION(w->corrected.step_ns),
			     WORDS(" corrected; gains are of that\n"));
		report_paragraph(v, 2, strbuf_text(&text));
		print_candidates(v, w);
		print_slow_ranks(v, w);
	}
	print_graphs(v, rules, count);
	print_notes(v, w);
}

/* --- JSON --- */

static void write_times(struct json *j, const char *key, const struct what_if_times *t)
{
	json_key_object(j, key);
	json_key_u64(j, "step_ns", t->step_ns);
	json_key_u64(j, "span_ns", t->span_ns);
	json_key_object(j, "bounded_by");
	for (unsigned class = 0; class < PATH_CLASSES; class ++)
		json_key_u64(j, path_class_names[class], t->class_ns[class]);
	json_end(j);
	json_end(j);
}

static void write_graph(const struct what_if_rule *rule, struct json *j)
{
	json_key_i64(j, "graph_launch_ns", rule->ns);
	json_key_string(j, "graph_launch_source", graph_cost_names[rule->graph_source]);
	json_key_u64(j, "node_latency_ns", rule->latency_ns);
	json_key_string(j, "node_latency_source",
			rule->latency_measured ? "calibration" : "assumption");
}

static void write_prediction(const struct what_if *w, const struct what_if_rule *rules,
			     size_t count, struct json *j)
{
	json_key_array(j, "transforms");
	for (size_t i = 0; i < count; i++) {
		json_object(j);
		json_key_string(j, "text", rules[i].text);
		json_key_u64(j, "matched", rules[i].matched);
		json_key_u64(j, "cost_ns", rules[i].cost_ns);
		if (rules[i].target == WHAT_IF_graph)
			write_graph(&rules[i], j);
		json_end(j);
	}
	json_end(j);
	write_times(j, "predicted", &w->predicted);
	json_key_u64(j, "uncertainty_ns", w->bar_ns);
	json_key_object(j, "uncertainty");
	for (size_t i = 0; i < ARRAY_SIZE(bars); i++)
		json_key_u64(j, bars[i].key, bar_of(w, i));
	json_end(j);
}

static const char *class_of(const struct what_if_candidate *c)
{
	switch (c->target) {
	case WHAT_IF_wait:
		return "wait";
	case WHAT_IF_comm:
		return "comm";
	case WHAT_IF_straggler:
		return "straggler";
	default:
		return path_class_names[c->place.class];
	}
}

static void write_candidates(const struct report_view *v, const struct what_if *w, struct json *j)
{
	json_key_array(j, "candidates");
	for (size_t i = 0; i < MIN(w->candidate_count, v->top); i++) {
		const struct what_if_candidate *c = &w->candidates[i];
		_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

		add_candidate(v, w, c, &name);
		json_object(j);
		json_key_string(j, "class", class_of(c));
		json_key(j, "name");
		json_bytes(j, strbuf_text(&name), name.length);
		json_key_u64(j, "pid", trace_process(v->report->trace, c->process)->pid);
		json_key_bool(j, "is_class", c->is_class);
		json_key_u64(j, "cost_ns", c->cost_ns);
		json_key_i64(j, "gain_ns", c->gain_ns);
		json_end(j);
	}
	json_end(j);
	json_key_array(j, "slow_ranks");
	for (size_t i = 0; i < MIN(w->slow_rank_count, v->top); i++) {
		const struct what_if_rank *r = &w->slow_ranks[i];

		json_object(j);
		json_key_u64(j, "rank", r->rank);
		json_key_u64(j, "pid", trace_process(v->report->trace, r->process)->pid);
		json_key_u64(j, "slower", r->slower);
		json_key_u64(j, "slower_ns", r->slower_ns);
		json_key_u64(j, "step_ns", r->step_ns);
		json_end(j);
	}
	json_end(j);
	json_key_u64(j, "omitted", w->omitted);
	json_key_u64(j, "omitted_cost_ns", w->omitted_ns);
}

void what_if_json(const struct report_view *v, const struct what_if *w,
		  const struct what_if_rule *rules, size_t count)
{
	struct json j = JSON_PRETTY(v->out);

	json_object(&j);
	json_key_string(&j, "recording", v->path);
	json_key_u64(&j, "pid", trace_process(v->report->trace, w->process)->pid);
	json_key_known(&j, "steps", w->loop != NULL, w->step_count);
	json_key_u64(&j, "launching_calls", w->launches);
	json_key_u64(&j, "call_cost_ns", w->call_ns);
	json_key_u64(&j, "synchronize_cost_ns", w->synchronize_ns);
	json_key_u64(&j, "graph_launches", w->graph_launches);
	json_key_u64(&j, "graph_launch_cost_ns", w->graph_added_ns);
	json_key_u64(&j, "node_call_cost_ns", w->node_added_ns);
	json_key_u64(&j, "node_gap_cost_ns", w->node_gap_ns);
	json_key_string(&j, "call_cost_source", call_cost_names[w->call_source]);
	json_key_bool(&j, "threads_side_by_side", w->beside);
	json_key_u64(&j, "rank_wait_ns", w->rank_wait_ns);
	json_key_u64(&j, "unknown_rank_waits", w->unknown_waits);
	json_key_u64(&j, "ranks", MAX(w->ranks.ranges.count, 1));
	json_key_u64(&j, "unresolved_collectives", w->ranks.unresolved);
	json_key_u64(&j, "identity_ns", w->identity_ns);
	json_key_bool(&j, "contradicts_busy", w->contradicts_busy);
	write_times(&j, "recorded", &w->recorded);
	write_times(&j, "corrected", &w->corrected);
	if (count)
		write_prediction(w, rules, count, &j);
	else
		write_candidates(v, w, &j);
	json_finish(&j);
}
