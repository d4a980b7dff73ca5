/* section_failures.c: failed calls; section_verdict.c shows a failed context first. */
#include "report/section.h"

#include <string.h>

#include "analysis/calls.h"
#include "analysis/failures.h"
#include "report/words.h"

static void add_result(const struct report *r, const struct failure *f, struct strbuf *out)
{
	size_t length;
	const char *function = calls_function_name(r->trace, f->function, &length),
		   *name = failure_name(f->result);

	/* The numbers of HIP's errors are mostly CUDA's, but not their names. */
	if (length > 3 && memcmp(function, "hip", 3) == 0)
		strbuf_addf(out, "HIP error %u", f->result);
	else if (name)
		strbuf_adds(out, name);
	else
		strbuf_addf(out, "error %u", f->result);
}

ROW_READ(read_result, struct failure, add_result(v->report, row, &out->text))

#define FAILURE(member) MEMBER(struct failure, member)

static const struct field failure_fields[] = {
	FIELD("count", "count", COUNT, FAILURE(count)),
	FIELD("first_ns", "first at", TIME, FAILURE(first_ns)),
	FIELD("error", "error", TEXT, .value = read_result, LEFT_COLUMN),
	FIELD("result", NULL, ID, FAILURE(result)),
	FIELD("function", "returned by", FUNCTION, FAILURE(function), LEFT_COLUMN),
	FIELD("pid", NULL, PID, FAILURE(process)),
	FIELD("caller", "line", LINE, FAILURE(caller), FLEXIBLE_COLUMN),
};

static void read_fatal(const struct report_view *v, const void *row, struct value *out)
{
	const struct failures *f = row;

	report_failure_text(v->report, &out->text);
	out->state = f->fatal < f->count ? VALUE_KNOWN : VALUE_UNKNOWN;
}

static const struct field fields[] = {
	FIELD("context", NULL, TEXT, .value = read_fatal),
	LIST("items", ITEMS(struct failures, items, count), failure_fields),
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	sentence_add(out, COUNTED_AS(v->report->failures->calls, "call"));
}

const struct section section_failures = {
	.key = "failures",
	.title = "failed calls",
	RESULT(failures),
	FIELDS(fields),
	.remark = add_remark,
};

void report_failure_text(const struct report *r, struct strbuf *out)
{
	const struct failures *all = r->failures;
	const struct failure *f;
	size_t length;
	const char *name;

	if (all->fatal == all->count)
		return;
	f = &all->items[all->fatal];
	name = calls_function_name(r->trace, f->function, &length);
	strbuf_adds(out, "the GPU context failed: ");
	add_result(r, f, out);
	strbuf_adds(out, ", returned by ");
	text_safe(out, length ? name : "?", length ? length : 1);
	if (f->caller != CALLER_NONE) {
		strbuf_adds(out, " at ");
		report_line_text(r, f->caller, CALLER_NONE, out);
	}
	if (all->last_config != TRACE_NO_ROW) {
		strbuf_adds(out, "; last kernel launched: ");
		report_kernel_text(r, all->last_config, false, out);
		strbuf_addf(out, " (launch %llu)", (unsigned long long)all->last_launches);
	} else if (all->has_no_record) {
		strbuf_addf(out, "; of the last launch, number %llu",
			    (unsigned long long)all->last_launches);
		if (all->last_name != TRACE_NO_ROW) {
			strbuf_adds(out, ", of ");
			report_launch_name(r, all->last_name, out);
		}
		if (all->last_caller != CALLER_NONE) {
			strbuf_adds(out, " at ");
			report_line_text(r, all->last_caller, CALLER_NONE, out);
		}
		strbuf_adds(out, ", there is no record");
	}
}
