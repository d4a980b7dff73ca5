/* section_waits.c: which lines of the program waited for the GPU. */
#include "report/section.h"

#include "analysis/waits.h"
#include "base/human.h"
#include "report/words.h"

#define WAIT(member) MEMBER(struct wait_line, member)

static const struct field wait_fields[] = {
	{ .head = "share", .unit = UNIT_SHARE, WAIT(total_ns) },
	{ .head = "time", .unit = UNIT_NS, WAIT(total_ns) },
	{ .head = "count", WAIT(count) },
	{ .head = "longest", .unit = UNIT_NS, WAIT(max_ns) },
	{ .head = "call", .unit = UNIT_FUNCTION, .layout = LAYOUT_LEFT, WAIT(function) },
	{ .key = "caller",
	  .head = "waited for the GPU at",
	  .unit = UNIT_LINE,
	  .layout = LAYOUT_FLEXIBLE,
	  WAIT(caller) },
	{ .key = "function", .unit = UNIT_FUNCTION, WAIT(function) },
	{ .key = "count", WAIT(count) },
	{ .key = "total_ns", .unit = UNIT_NS, WAIT(total_ns) },
	{ .key = "max_ns", .unit = UNIT_NS, WAIT(max_ns) },
};

/* Without stacks the calls alone say it: section_calls. */
static bool has_no_line(const struct report_view *v, const void *row)
{
	(void)row;
	return !v->report->callers.any;
}

static const struct field fields[] = {
	{ .key = "waits",
	  .unit = UNIT_LIST,
	  .list = &(const struct list){ ITEMS(struct waits, items, count), FIELDS(wait_fields),
					.half = true, .ends = has_no_line } },
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	human_duration(out, v->report->waits->total_ns);
	strbuf_adds(out, " in ");
	report_count_text(v->report->waits->calls, "call", out);
}

const struct section section_waits = {
	.title = "lines that waited for the GPU",
	RESULT(waits),
	FIELDS(fields),
	.remark = add_remark,
};
