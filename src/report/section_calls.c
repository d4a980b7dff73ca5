/* section_calls.c: calls that synchronize and copy, and synchronizations as CUPTI reports them. */
#include "report/section.h"

#include "analysis/sync_calls.h"
#include "report/words.h"

#define CALL(member) MEMBER(struct call_group, member)

static const struct field call_fields[] = {
	FIELD("function", "call", FUNCTION, CALL(function), FLEXIBLE_COLUMN),
	FIELD("kind", NULL, NAME, CALL(kind), ENUM(api_function, kind)),
	FIELD("thread", "thread", THREAD, CALL(process), LEFT_COLUMN),
	FIELD("count", "count", COUNT, CALL(count)),
	FIELD("total_ns", "time", NS, CALL(total_ns)),
	FIELD(NULL, "share", SHARE, CALL(total_ns), WHOLE(struct syncs, total_ns)),
	FIELD(NULL, "mean", NS, CALL(total_ns), PER(struct call_group, count), OPTIONAL_COLUMN),
	FIELD("max_ns", "longest", NS, CALL(max_ns)),
};

#define KIND(member) MEMBER(struct sync_kind, member)

static const struct field kind_fields[] = {
	FIELD("kind", NULL, NAME, KIND(kind), ENUM(synchronization, kind)),
	FIELD("count", NULL, COUNT, KIND(count)),
	FIELD("timed", NULL, COUNT, KIND(timed)),
	FIELD("total_ns", NULL, NS, KIND(total_ns)),
};

ROW_IF(has_none, struct sync_kind, !row->count)

static const struct field fields[] = {
	LIST("calls", ITEMS(struct syncs, items, count), call_fields),
	LIST("synchronizations", ARRAY(struct syncs, kinds), kind_fields, .all = true,
	     .hidden = has_none),
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	sentence_add(out, DURATION(v->report->syncs->total_ns), WORDS(" in "),
		     COUNTED_AS(v->report->syncs->calls, "call"), WORDS(", all threads"));
}

const struct section section_calls = {
	.title = "synchronizing and copying calls",
	RESULT(syncs),
	FIELDS(fields),
	.remark = add_remark,
};
