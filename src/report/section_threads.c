/* section_threads.c: what threads did when a dump was made. */
#include "report/section.h"

#include <string.h>

#include "analysis/thread_states.h"
#include "report/words.h"

static void add_string(const struct report_view *v, uint32_t string, struct value *out)
{
	const char *text = string ? trace_string(v->report->trace, string) : "";

	text_safe(&out->text, text, strlen(text));
	if (!*text)
		out->state = VALUE_UNKNOWN;
}

ROW_READ(read_call, struct thread_at_dump, add_string(v, row->system_call, out))
ROW_READ(read_reason, struct thread_at_dump, add_string(v, row->reason, out))
ROW_IF(is_in_system_call, struct thread_at_dump, row->system_call)
ROW_IF(is_in_gpu_call, struct thread_at_dump, row->gpu_call)
ROW_IF(has_stack, struct thread_at_dump, row->frame_count)

/* "train.py:61 step -> Tensor.item", or why there is no stack */
static void read_place(const struct report_view *v, const void *row, struct value *out)
{
	const struct thread_at_dump *t = row;

	if (!t->frame_count) {
		strbuf_adds(&out->text, "no stack: ");
		add_string(v, t->reason, out);
	} else {
		report_line_text(v->report, t->caller, t->callee, &out->text);
	}
}

static void add_text(const struct report_view *v, uint32_t text, struct value *out)
{
	strbuf_adds(&out->text, stacks_text(&v->report->callers.stacks, text));
	if (!text)
		out->state = VALUE_UNKNOWN;
}

ROW_READ(read_name, struct thread_frame, add_text(v, row->name, out))
ROW_READ(read_file, struct thread_frame, add_text(v, row->file, out))
ROW_IF(has_line, struct thread_frame, row->line)

static const void *frame_item(const struct report_view *v, const void *row, size_t i)
{
	const struct thread_at_dump *t = row;

	return i < t->frame_count ? &v->report->thread_states->frames.data[t->first_frame + i]
				  : NULL;
}

static const struct field frame_fields[] = {
	FIELD("name", NULL, TEXT, .value = read_name),
	FIELD("python", NULL, FLAG, MEMBER(struct thread_frame, is_python)),
	FIELD("file", NULL, TEXT, .value = read_file),
	FIELD("line", NULL, ID, MEMBER(struct thread_frame, line), .when = has_line, .null = true),
};

#define THREAD(member) MEMBER(struct thread_at_dump, member)

static const struct field thread_fields[] = {
	FIELD("pid", NULL, PID, THREAD(process)),
	FIELD("thread", NULL, ID, THREAD(thread)),
	FIELD(NULL, "thread", THREAD, THREAD(process), LEFT_COLUMN),
	FIELD("time_ns", NULL, TIME, THREAD(time_ns)),
	FIELD("state", "state", NAME, THREAD(state), ENUM(unfinished, state), LEFT_COLUMN),
	FIELD("system_call", NULL, TEXT, .value = read_call),
	FIELD(NULL, "system call", TEXT, .value = read_call, .when = is_in_system_call,
	      .layout = LAYOUT_OPTIONAL_LEFT),
	FIELD("gpu_call", NULL, CODE, THREAD(gpu_call), .when = is_in_gpu_call, .null = true),
	FIELD(NULL, "GPU call", CODE, THREAD(gpu_call), .when = is_in_gpu_call,
	      .layout = LAYOUT_OPTIONAL_LEFT),
	FIELD("caller", NULL, LINE, THREAD(caller)),
	FIELD(NULL, "line", TEXT, .value = read_place, FLEXIBLE_COLUMN),
	FIELD("no_stack", NULL, TEXT, .value = read_reason),
	FIELD("complete", NULL, FLAG, THREAD(is_complete), .when = has_stack, .null = true),
	{ .key = "frames",
	  .unit = UNIT_LIST,
	  .list = &(const struct list){ FIELDS(frame_fields), .item = frame_item } },
};

static const struct field fields[] = {
	LIST("thread_states", ITEMS(struct thread_states, threads.data, threads.count),
	     thread_fields),
};

const struct section section_threads = {
	.title = "threads when the dump was made",
	RESULT(thread_states),
	FIELDS(fields),
};
