/* section_scopes.c: the tree of scopes (--scopes). */
#include "report/section.h"

#include "analysis/cpu_use.h"
#include "analysis/nvtx_ranges.h"
#include "analysis/scope_times.h"
#include "analysis/sync_calls.h"
#include "report/words.h"

#define INDENT_MAX 16u

#define SCOPE(member) MEMBER(struct scope_time, member)
#define COUNTED_SCOPE(member) SCOPE(member), COUNTED(struct scope_time, member)

/* Outer scopes rank before the scopes inside of them, so no scope is shown without them. */
ROW_IF(is_cut, struct scope_time, row->rank >= report_tree_rows(v))
ROW_IF(is_requested, void, v->report->options.scope_tree)
ROW_IF(has_runs, struct scope_time, row->repeats || row->warmups)

/* Columns that would be empty are not shown. */
static const char *wait_head(const struct report_view *v)
{
	return v->report->waits->total_ns ? "waiting" : NULL;
}

static const char *cpu_head(const struct report_view *v)
{
	return v->report->cpu_use->samples ? "CPU time" : NULL;
}

static const char *runs_head(const struct report_view *v)
{
	return v->report->scope_times->runs ? "runs" : NULL;
}

static void read_runs(const struct report_view *v, const void *row, struct value *out)
{
	const struct scope_time *s = row;

	(void)v;
	strbuf_addu(&out->text, s->repeats);
	if (s->warmups)
		strbuf_addf(&out->text, "+%llu", (unsigned long long)s->warmups);
}

static void read_tree(const struct report_view *v, const void *row, struct value *out)
{
	const struct scope_time *s = row;

	for (uint32_t i = 0; i < MIN(s->depth, INDENT_MAX); i++)
		strbuf_adds(&out->text, "  ");
	strbuf_adds(&out->text, scope_path_name(&v->report->ranges, v->report->trace, s->path));
}

ROW_READ(read_path, struct scope_time,
	 scope_path_text(&v->report->ranges, v->report->trace, row->path, &out->text))

static const struct field scope_fields[] = {
	FIELD("path", NULL, TEXT, .value = read_path),
	FIELD("name", NULL, STRING, SCOPE(message)),
	FIELD("depth", NULL, COUNT, SCOPE(depth)),
	FIELD(NULL, "share", SHARE, SCOPE(gpu_ns), WHOLE(struct scope_times, gpu_ns)),
	FIELD("gpu_ns", "GPU time", NS, COUNTED_SCOPE(gpu_ns)),
	FIELD("self_ns", "self", NS, COUNTED_SCOPE(self_ns)),
	FIELD("busy_ns", "busy", NS, COUNTED_SCOPE(busy_ns)),
	FIELD("kernels", "kernels", COUNT, SCOPE(kernels), OPTIONAL_COLUMN),
	FIELD("launches", "launches", COUNT, SCOPE(launches), OPTIONAL_COLUMN),
	FIELD("wait_ns", NULL, NS, COUNTED_SCOPE(wait_ns), .head_of = wait_head, OPTIONAL_COLUMN),
	FIELD("samples", NULL, COUNT, SCOPE(samples)),
	FIELD("cpu_ns", NULL, NS, COUNTED_SCOPE(cpu_ns), .head_of = cpu_head, OPTIONAL_COLUMN),
	FIELD("calls", "calls", COUNT, SCOPE(calls)),
	FIELD("open", NULL, COUNT, SCOPE(open)),
	FIELD("wall_ns", "wall", NS, SCOPE(wall_ns), COUNTED(struct scope_time, timed)),
	FIELD(NULL, "mean", NS, SCOPE(wall_ns), PER(struct scope_time, timed),
	      COUNTED(struct scope_time, timed), OPTIONAL_COLUMN),
	FIELD("repeats", NULL, COUNT, SCOPE(repeats), .when = has_runs),
	FIELD("warmups", NULL, COUNT, SCOPE(warmups), .when = has_runs),
	FIELD(NULL, NULL, TEXT, .value = read_runs, .head_of = runs_head, .when = has_runs),
	FIELD(NULL, "scope", TEXT, .value = read_tree, FLEXIBLE_COLUMN),
};

#define ALL(member) MEMBER(struct scope_times, member), .when = is_requested, .null = true

static const struct field fields[] = {
	FIELD("gpu_ns", NULL, NS, ALL(gpu_ns)),
	FIELD("outside_ns", NULL, NS, ALL(outside_ns)),
	FIELD("count", NULL, COUNT, ALL(count)),
	LIST("items", ITEMS(struct scope_times, items, count), scope_fields, .all = true,
	     .hidden = is_cut),
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct scope_times *s = v->report->scope_times;

	sentence_add(out, DURATION(s->gpu_ns), WORDS(" of GPU time"));
	if (s->outside_ns)
		sentence_add(out, WORDS(", "), PERCENT(s->outside_ns, s->gpu_ns),
			     WORDS(" launched outside any scope"));
}

static void add_cut(const struct report_view *v, struct strbuf *out)
{
	const struct scope_times *s = v->report->scope_times;

	if (s->count > report_tree_rows(v))
		sentence_add(out, NUMBER(s->count - report_tree_rows(v)), WORDS(" of "),
			     NUMBER(s->count),
			     WORDS(" scopes, with less time, are not shown; to show all: --top "
				   "0\n"));
}

static void print_none(const struct report_view *v)
{
	if (v->report->options.scope_tree)
		report_title(v, "scopes",
			     v->report->ranges.path_count ? "no recorded scope matches the filters"
							  : "none recorded");
}

const struct section section_scopes = {
	.key = "scopes",
	.title = "scopes",
	RESULT(scope_times),
	FIELDS(fields),
	.remark = add_remark,
	.after = add_cut,
	.empty = print_none,
};
