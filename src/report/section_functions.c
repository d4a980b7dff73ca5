/* section_functions.c: GPU time by the function that launched the work. */
#include "report/section.h"

#include "analysis/gpu_functions.h"
#include "report/words.h"

ROW_IF(is_plumbing, struct function_time, caller_at(&v->report->callers, row->caller)->plumbing)

#define FUNCTION(member) MEMBER(struct function_time, member)

static const struct field function_fields[] = {
	FIELD(NULL, "total", SHARE, FUNCTION(total_ns), WHOLE(struct gpu_functions, total_ns)),
	FIELD("total_ns", "", NS, FUNCTION(total_ns)),
	FIELD(NULL, "self", SHARE, FUNCTION(self_ns), WHOLE(struct gpu_functions, total_ns)),
	FIELD("self_ns", "", NS, FUNCTION(self_ns)),
	FIELD("class", NULL, CLASS, FUNCTION(caller)),
	FIELD("function", "function", CODE, FUNCTION(function), FLEXIBLE_COLUMN),
};

static const struct field fields[] = {
	FIELD("total_ns", NULL, NS, MEMBER(struct gpu_functions, total_ns)),
	FIELD("without_stack_ns", NULL, NS, MEMBER(struct gpu_functions, stackless_ns)),
	LIST("items", ITEMS(struct gpu_functions, functions.items.data, functions.items.count),
	     function_fields, .hidden = is_plumbing),
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct gpu_functions *g = v->report->gpu_functions;

	sentence_add(out, DURATION(g->total_ns));
	if (g->stackless_ns)
		sentence_add(out, WORDS(", "), PERCENT(g->stackless_ns, g->total_ns),
			     WORDS(" without a stack"));
}

const struct section section_functions = {
	.key = "functions",
	.title = "GPU time by function",
	RESULT(gpu_functions),
	FIELDS(fields),
	.remark = add_remark,
};
