/* section_counters.c: hardware counters of kernels, with --counters. */
#include "report/section.h"

#include "analysis/counters.h"
#include "report/words.h"
#include "symbol/demangle.h"

static bool is_asked_for(const struct report_view *v)
{
	return v->report->options.counters;
}

/* The ordinary report only says that there are some. */
static bool is_short(const struct report_view *v, const void *row)
{
	(void)row;
	return !is_asked_for(v);
}

static void add_name(const struct report_view *v, uint32_t name, struct strbuf *out)
{
	const char *text = trace_string(v->report->trace, name);

	if (v->full_names)
		demangle(text, out);
	else
		kernel_name_short(text, out);
}

ROW_IF(is_first, struct counter_of_kernel, row->is_first)
ROW_READ(read_kernel, struct counter_of_kernel, add_name(v, row->kernel, &out->text))

#define COUNTER(member) MEMBER(struct counter_of_kernel, member)

static const struct field counter_fields[] = {
	FIELD(NULL, "kernel", TEXT, .value = read_kernel, .when = is_first, FLEXIBLE_COLUMN),
	FIELD("kernel", NULL, TEXT, .value = read_kernel),
	FIELD("symbol", NULL, STRING, COUNTER(kernel)),
	FIELD("metric", "metric", STRING, COUNTER(metric), LEFT_COLUMN),
	FIELD("count", "launches", COUNT, COUNTER(count)),
	FIELD("mean", "mean", REAL, COUNTER(mean)),
	FIELD("min", "least", REAL, COUNTER(min)),
	FIELD("max", "most", REAL, COUNTER(max)),
	FIELD("unit", "unit", STRING, COUNTER(unit), LEFT_COLUMN),
	FIELD("weighted_by_time", NULL, FLAG, COUNTER(is_rate)),
};

static const struct field fields[] = {
	FIELD("launches", NULL, COUNT, MEMBER(struct counters, launches)),
	LIST("metrics", ITEMS(struct counters, items, count), counter_fields, .all = true,
	     .ends = is_short),
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	sentence_add(out, COUNTED_AS(v->report->counters->launches, "launch"),
		     WORDS(" measured; means of rates and shares are weighted by time"));
}

static void print_none(const struct report_view *v)
{
	const struct counters *c = v->report->counters;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	if (!is_asked_for(v) && c->launches) {
		sentence_add(&line, COUNTED_AS(c->launches, "launch"),
			     WORDS(" measured: --counters shows them"));
		report_title(v, "counters", strbuf_text(&line));
	} else if (is_asked_for(v)) {
		report_title(v, "counters",
			     c->rows ? "none of the launches that were measured match"
				     : "no hardware counters were recorded: `pitot record "
				       "--engine range-profiler` records them");
	}
}

const struct section section_counters = {
	.key = "counters",
	.title = "counters",
	RESULT(counters),
	FIELDS(fields),
	.remark = add_remark,
	.empty = print_none,
};
