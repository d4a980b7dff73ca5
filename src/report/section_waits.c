/* section_waits.c: the lines of the program that waited for the GPU. */
#include "report/section.h"

#include "analysis/sync_calls.h"
#include "report/words.h"

#define WAIT(member) MEMBER(struct call_group, member)

static const struct field wait_fields[] = {
	FIELD(NULL, "share", SHARE, WAIT(total_ns), WHOLE(struct waits, total_ns)),
	FIELD("total_ns", "time", NS, WAIT(total_ns)),
	FIELD("count", "count", COUNT, WAIT(count)),
	FIELD("max_ns", "longest", NS, WAIT(max_ns)),
	FIELD("function", "call", FUNCTION, WAIT(function), LEFT_COLUMN),
	FIELD("caller", "line", LINE, WAIT(caller), FLEXIBLE_COLUMN),
};

/* Without stacks the rows would be those of section_calls. */
ROW_IF(has_no_line, void, !v->report->callers.any)

static const struct field fields[] = {
	LIST("waits", ITEMS(struct waits, items, count), wait_fields, .half = true,
	     .ends = has_no_line),
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	sentence_add(out, DURATION(v->report->waits->total_ns), WORDS(" in "),
		     COUNTED_AS(v->report->waits->calls, "call"));
}

const struct section section_waits = {
	.title = "waits for the GPU by line",
	RESULT(waits),
	FIELDS(fields),
	.remark = add_remark,
};
