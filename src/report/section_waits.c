/* section_waits.c: which lines of the program waited for the GPU. */
#include "report/section.h"

#include "analysis/waits.h"
#include "base/human.h"
#include "report/words.h"

#define WAIT(member) MEMBER(struct wait_line, member)

static const struct field wait_fields[] = {
	FIELD(NULL, "share", SHARE, WAIT(total_ns)),
	FIELD("total_ns", "time", NS, WAIT(total_ns)),
	FIELD("count", "count", COUNT, WAIT(count)),
	FIELD("max_ns", "longest", NS, WAIT(max_ns)),
	FIELD("function", "call", FUNCTION, WAIT(function), LEFT_COLUMN),
	FIELD("caller", "waited for the GPU at", LINE, WAIT(caller), FLEXIBLE_COLUMN),
};

/* Without stacks the calls alone say it: section_calls. */
static bool has_no_line(const struct report_view *v, const void *row)
{
	(void)row;
	return !v->report->callers.any;
}

static const struct field fields[] = {
	LIST("waits", ITEMS(struct waits, items, count), wait_fields, .half = true,
	     .ends = has_no_line),
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
