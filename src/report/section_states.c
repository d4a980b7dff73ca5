/* section_states.c: what each GPU and each stream did. */
#include "report/section.h"

#include "analysis/stream_states.h"
#include "report/words.h"

#define ROW(member) MEMBER(struct stream_row, member)

static void read_place(const struct report_view *v, const void *row_, struct value *out)
{
	const struct stream_row *row = row_;

	if (row->is_gpu) {
		strbuf_addf(&out->text, "GPU %u", row->gpu);
		return;
	}
	strbuf_addf(&out->text, "  stream %u", row->stream);
	report_of_process(v->report, row->process, &out->text);
}

ROW_IF(is_stream, struct stream_row, !row->is_gpu)
ROW_IF(has_waited, struct stream_row, row->longest_wait_ns)

static void read_wait(const struct report_view *v, const void *row_, struct value *out)
{
	const struct stream_row *row = row_;

	(void)v;
	sentence_add(&out->text, DURATION(row->longest_wait_ns));
	strbuf_addf(&out->text, " (stream %u)", row->longest_wait_for);
}

#define STATE_FIELD(name)                                                                          \
	FIELD(NULL, #name, SHARE, ROW(ns[STREAM_STATE_##name]),                                    \
	      WHOLE(struct stream_states, window_ns)),                                             \
		FIELD(#name "_ns", NULL, NS, ROW(ns[STREAM_STATE_##name])),

static const struct field row_fields[] = {
	FIELD(NULL, "", CODE, .value = read_place, LEFT_COLUMN),
	FIELD("gpu", NULL, ID, ROW(gpu)),
	FIELD("pid", NULL, PID, ROW(process), .when = is_stream, .null = true),
	FIELD("stream", NULL, ID, ROW(stream), .when = is_stream, .null = true),
	FIELD("count", "work", COUNT, ROW(count)),
	FIELD("span_ns", NULL, NS, ROW(span_ns)),
	STREAM_STATES(STATE_FIELD) /* each with its comma */
	FIELD("longest_wait_ns", NULL, NS, ROW(longest_wait_ns), .when = has_waited, .null = true),
	FIELD("longest_wait_for", NULL, ID, ROW(longest_wait_for), .when = has_waited,
	      .null = true),
	FIELD(NULL, "longest wait", TEXT, .value = read_wait, .when = has_waited, OPTIONAL_COLUMN),
};

static const struct field fields[] = {
	FIELD("start_ns", NULL, TIME, MEMBER(struct stream_states, start_ns)),
	FIELD("window_ns", NULL, NS, MEMBER(struct stream_states, window_ns)),
	LIST("rows", ITEMS(struct stream_states, rows, count), row_fields),
};

static bool is_computed(const struct report_view *v)
{
	return v->report->stream_states->window_ns != 0;
}

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	sentence_add(out, WORDS("within "), DURATION(v->report->stream_states->window_ns));
}

static void print_none(const struct report_view *v)
{
	if (v->report->options.states)
		report_title(v, "states", "no GPU work in the window");
}

const struct section section_states = {
	.key = "states",
	.title = "states",
	RESULT(stream_states),
	FIELDS(fields),
	.computed = is_computed,
	.remark = add_remark,
	.empty = print_none,
};
