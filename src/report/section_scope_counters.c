/* section_scope_counters.c: the program's own counters by scope (--scopes). */
#include "report/section.h"

#include <string.h>

#include "analysis/scope_counters.h"
#include "analysis/nvtx_ranges.h"
#include "report/words.h"

#define COUNTER(member) MEMBER(struct scope_counter, member)

ROW_IF(is_sum, struct scope_counter, !row->is_gauge)
ROW_IF(is_gauge, struct scope_counter, row->is_gauge)
ROW_IF(is_cut, struct scope_counter,
       (size_t)(row - v->report->scope_counters->items) >= report_tree_rows(v))
ROW_IF(is_inside, struct scope_counter, row->path != SCOPE_NONE)

ROW_READ(read_path, struct scope_counter,
	 scope_path_text(&v->report->ranges, v->report->trace, row->path, &out->text))

static void read_mean(const struct report_view *v, const void *row, struct value *out)
{
	const struct scope_counter *c = row;
	double mean = c->sum / (double)c->count;

	(void)v;
	memcpy(&out->n, &mean, sizeof(mean));
}

static void read_scope(const struct report_view *v, const void *row, struct value *out)
{
	if (is_inside(v, row))
		read_path(v, row, out);
	else
		strbuf_adds(&out->text, "(outside any scope)");
}

static const struct field counter_fields[] = {
	FIELD("path", NULL, TEXT, .value = read_path, .when = is_inside, .null = true),
	FIELD("sum", "sum", REAL, COUNTER(sum), .when = is_sum),
	FIELD("self", "self", REAL, COUNTER(self), .when = is_sum),
	FIELD("mean", "mean", REAL, .value = read_mean, .when = is_gauge),
	FIELD("min", "min", REAL, COUNTER(min), .when = is_gauge, OPTIONAL_COLUMN),
	FIELD("max", "max", REAL, COUNTER(max), .when = is_gauge, OPTIONAL_COLUMN),
	FIELD("count", "count", COUNT, COUNTER(count)),
	FIELD("unit", "unit", STRING, COUNTER(unit), LEFT_COLUMN),
	FIELD("counter", "counter", STRING, COUNTER(name), LEFT_COLUMN),
	FIELD(NULL, "scope", TEXT, .value = read_scope, FLEXIBLE_COLUMN),
};

static const struct field fields[] = {
	LIST("items", ITEMS(struct scope_counters, items, count), counter_fields, .all = true,
	     .hidden = is_cut),
};

static void add_cut(const struct report_view *v, struct strbuf *out)
{
	uint64_t count = v->report->scope_counters->count, shown = report_tree_rows(v);

	if (count > shown)
		sentence_add(out, NUMBER(count - shown), WORDS(" of "), NUMBER(count),
			     WORDS(" rows are not shown; to show all: --top 0\n"));
}

const struct section section_scope_counters = {
	.key = "scope_counters",
	.title = "counters of scopes",
	RESULT(scope_counters),
	FIELDS(fields),
	.after = add_cut,
};
