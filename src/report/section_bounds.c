/* section_bounds.c: the critical path of the verdict by what bounded it. */
#include "report/section.h"

#include "analysis/verdict.h"
#include "report/words.h"

#define SUM(member) MEMBER(struct bound_sum, member)
#define WHOLE_PATH(member) MEMBER(struct verdicts, whole.bounds.member)

static const char *bound_key(unsigned bound)
{
	return verdict_key(VERDICT_BOUND + bound);
}

ROW_READ(read_bound, struct bound_sum, strbuf_adds(&out->text, verdict_bound_text(row->bound)))

static const struct field sum_fields[] = {
	FIELD("kind", NULL, CHOICE, SUM(bound), .names = bound_key),
	FIELD(NULL, "share", SHARE, SUM(ns), WHOLE(struct verdicts, whole.bounds.span_ns)),
	FIELD("total_ns", "time", NS, SUM(ns)),
	FIELD("count", "pieces", COUNT, SUM(count)),
	FIELD(NULL, "bounded by", TEXT, .value = read_bound, FLEXIBLE_COLUMN),
};

/* The i-th longest. */
static const void *sum_at(const struct report_view *v, const void *row, size_t i)
{
	const struct verdicts *verdicts = row;
	const struct bound_sum *sums = verdicts->whole.bounds.sums;

	(void)v;
	for (size_t n = 0; n < BOUNDS; n++) {
		size_t longer = 0;

		for (size_t other = 0; other < BOUNDS; other++)
			longer += sums[other].ns > sums[n].ns ||
				  (sums[other].ns == sums[n].ns && other < n);
		if (longer == i)
			return &sums[n];
	}
	return NULL;
}

ROW_IF(is_none, struct bound_sum, !row->ns)
ROW_IF(is_small, struct bound_sum, row->ns <= v->report->verdicts->whole.bounds.span_ns / 200)

static const struct field fields[] = {
	FIELD("pid", NULL, PID, WHOLE_PATH(process)),
	FIELD("span_ns", NULL, NS, WHOLE_PATH(span_ns)),
	{
		.key = "kinds",
		.unit = UNIT_LIST,
		.list = &(const struct list){ FIELDS(sum_fields), .all = true, .item = sum_at,
					      .hidden = is_none, .ends = is_small },
	},
};

static bool is_shown(const struct report_view *v)
{
	return v->report->verdicts->whole.kind > VERDICT_MEASURED;
}

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct verdict *w = &v->report->verdicts->whole;

	sentence_add(out, WORDS("of "), DURATION(w->bounds.span_ns));
	report_of_process(v->report, w->bounds.process, out);
	if (w->processes > 1)
		sentence_add(out, WORDS("; "), NUMBER(w->processes),
			     WORDS(" processes have GPU work, this one most (--process)"));
}

const struct section section_bounds = {
	.key = "bounds",
	.title = "critical path",
	RESULT(verdicts),
	FIELDS(fields),
	.shown = is_shown,
	.computed = is_shown,
	.remark = add_remark,
};
