/* section_ranges.c: ranges by text, and the GPU time of the work launched inside them. */
#include "report/section.h"

#include <string.h>

#include "analysis/range_times.h"
#include "report/words.h"

#define RANGE(member) MEMBER(struct range_group, member)

static void read_label(const struct report_view *v, const void *row, struct value *out)
{
	strbuf_adds(&out->text,
		    trace_string(v->report->trace, ((const struct range_group *)row)->message));
	if (!out->text.length)
		strbuf_adds(&out->text, "(range without text)");
}

/* The work of start/end ranges, which may cross threads, is unknown. */
ROW_IF(has_work, struct range_group, row->launches)

/* Without ranges the sums are not computed. */
ROW_IF(has_ranges, struct range_times, row->count)

#define WORK(member) RANGE(member), .when = has_work, .null = true
#define ALL(member) MEMBER(struct range_times, member), .when = has_ranges, .null = true
#define TIMED(member) RANGE(time.member), COUNTED(struct range_group, time.count)
static const struct field range_fields[] = {
	FIELD("name", NULL, STRING, RANGE(message)),
	FIELD(NULL, "share", SHARE, WORK(gpu_ns), WHOLE(struct range_times, gpu_ns)),
	FIELD("gpu_ns", "GPU time", NS, WORK(gpu_ns)),
	FIELD("work", "GPU ops", COUNT, WORK(work), OPTIONAL_COLUMN),
	FIELD("count", "count", COUNT, RANGE(count)),
	FIELD("open", NULL, COUNT, RANGE(open)),
	FIELD("time", NULL, STATS, RANGE(time)),
	FIELD(NULL, "wall", NS, TIMED(total_ns)),
	FIELD(NULL, "mean", NS, RANGE(time.total_ns), PER(struct range_group, time.count),
	      COUNTED(struct range_group, time.count)),
	FIELD(NULL, "p99", NS, TIMED(p99_ns)),
	FIELD(NULL, "range", TEXT, .value = read_label, FLEXIBLE_COLUMN),
};

static const struct field fields[] = {
	FIELD("ranges", NULL, COUNT, MEMBER(struct range_times, ranges)),
	FIELD("gpu_ns", NULL, NS, ALL(gpu_ns)),
	FIELD("outside_ns", NULL, NS, ALL(outside_ns)),
	LIST("items", ITEMS(struct range_times, items, count), range_fields),
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct range_times *r = v->report->range_times;

	sentence_add(out, DURATION(r->gpu_ns), WORDS(" of GPU time"));
	if (r->outside_ns)
		sentence_add(out, WORDS(", "), PERCENT(r->outside_ns, r->gpu_ns),
			     WORDS(" launched outside any range"));
}

/* The tree of scopes contains the same times. */
static bool is_shown(const struct report_view *v)
{
	return v->report->range_times->count && !v->report->options.scope_tree;
}

const struct section section_ranges = {
	.key = "nvtx",
	.title = "scopes and NVTX ranges",
	RESULT(range_times),
	FIELDS(fields),
	.shown = is_shown,
	.remark = add_remark,
};
