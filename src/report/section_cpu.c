/* section_cpu.c: what the CPU did. */
#include "report/section.h"

#include <string.h>

#include "analysis/cpu_use.h"
#include "analysis/flame/flame.h"
#include "base/human.h"
#include "report/words.h"

#define CPU(member) MEMBER(struct cpu_use, member)

static const struct field thread_fields[] = {
	FIELD("thread", NULL, THREAD, MEMBER(struct cpu_thread, process)),
	FIELD("samples", NULL, COUNT, MEMBER(struct cpu_thread, samples)),
	FIELD("total_ns", NULL, NS, MEMBER(struct cpu_thread, total_ns)),
};

static enum frame_class class_of(const struct report_view *v, const void *function)
{
	return (enum frame_class)caller_at(&v->report->callers,
					   ((const struct function_time *)function)->caller)
		->class;
}

static void read_function(const struct report_view *v, const void *row, struct value *out)
{
	const struct function_time *f = row;

	strbuf_adds(&out->text, stacks_text(&v->report->callers.stacks, f->function));
}

static void read_function_and_class(const struct report_view *v, const void *row, struct value *out)
{
	read_function(v, row, out);
	if (class_of(v, row) == FRAME_SYSTEM)
		strbuf_adds(&out->text, " [kernel]");
}

static void read_class(const struct report_view *v, const void *row, struct value *out)
{
	strbuf_adds(&out->text, frame_class_name(class_of(v, row)));
}

/* Functions are sorted by it: the rest only called those above. */
static bool has_no_self(const struct report_view *v, const void *row)
{
	(void)v;
	return !((const struct function_time *)row)->self_ns;
}

#define FUNCTION(member) MEMBER(struct function_time, member)

static const struct field function_fields[] = {
	FIELD(NULL, "self", SHARE, FUNCTION(self_ns), WHOLE(struct cpu_use, total_ns)),
	FIELD("function", NULL, TEXT, .value = read_function),
	FIELD("class", NULL, TEXT, .value = read_class),
	FIELD("self_ns", "", NS, FUNCTION(self_ns)),
	FIELD("total_ns", NULL, NS, FUNCTION(total_ns)),
	FIELD(NULL, "total", SHARE, FUNCTION(total_ns), WHOLE(struct cpu_use, total_ns)),
	FIELD(NULL, "function", TEXT, .value = read_function_and_class, FLEXIBLE_COLUMN),
};

#define LINE(member) MEMBER(struct cpu_line, member)

static const struct field line_fields[] = {
	FIELD(NULL, "share", SHARE, LINE(total_ns), WHOLE(struct cpu_use, total_ns)),
	FIELD("total_ns", "time", NS, LINE(total_ns)),
	FIELD("samples", "samples", COUNT, LINE(samples)),
	FIELD("caller", "line", PATH, LINE(caller), FLEXIBLE_COLUMN),
};

/* Where no frame is the operating system's, none was looked for. */
static void read_kernel(const struct report_view *v, const void *row, struct value *out)
{
	(void)v;
	out->n = ((const struct cpu_use *)row)->kernel_ns;
	out->state = out->n ? VALUE_KNOWN : VALUE_UNKNOWN;
}

static void read_method(const struct report_view *v, const void *row, struct value *out)
{
	(void)v;
	strbuf_adds(&out->text, ((const struct cpu_use *)row)->way.got);
}

static void read_reason(const struct report_view *v, const void *row, struct value *out)
{
	(void)v;
	strbuf_adds(&out->text, ((const struct cpu_use *)row)->way.reason);
}

static const struct field fields[] = {
	FIELD("samples", NULL, COUNT, CPU(samples)),
	FIELD("total_ns", NULL, NS, CPU(total_ns)),
	FIELD("kernel_ns", NULL, NS, .value = read_kernel),
	FIELD("inside_ns", NULL, NS, CPU(inside_ns)),
	FIELD("without_stack", NULL, COUNT, CPU(stackless)),
	FIELD("without_stack_ns", NULL, NS, CPU(stackless_ns)),
	FIELD("pauses", NULL, COUNT, CPU(pauses)),
	FIELD("pause_ns", NULL, NS, CPU(pause_ns)),
	FIELD("processes", NULL, COUNT, CPU(processes)),
	FIELD("way", NULL, TEXT, .value = read_method),
	FIELD("reason", NULL, TEXT, .value = read_reason),
	LIST("threads", ITEMS(struct cpu_use, threads, thread_count), thread_fields),
	LIST("lines", ITEMS(struct cpu_use, lines, line_count), line_fields, .half = true),
	LIST("functions", ITEMS(struct cpu_use, functions.items.data, functions.items.count),
	     function_fields, .half = true, .ends = has_no_self),
};

static bool is_shown(const struct report_view *v)
{
	return v->report->cpu_use->samples > 0;
}

/* Why there are no samples, where that is known. */
static void print_none(const struct report_view *v)
{
	const struct capability_note *way = &v->report->cpu_use->way;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, reason = STRBUF_INIT;

	if (!way->known)
		return;
	capability_no_samples(way, &reason);
	strbuf_adds(&line, "no samples");
	strbuf_adds(&line, reason.length ? ": " : "");
	text_safe(&line, strbuf_text(&reason), reason.length);
	report_title(v, "CPU", strbuf_text(&line));
}

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct cpu_use *c = v->report->cpu_use;

	human_duration(out, c->total_ns);
	strbuf_adds(out, " in ");
	report_count_text(c->thread_count, "thread", out);
	strbuf_addf(out, " of %zu process%s, ", c->processes, c->processes == 1 ? "" : "es");
	report_count_text(c->samples, "sample", out);
	if (*c->way.got) {
		strbuf_adds(out, " by ");
		text_safe(out, c->way.got, strlen(c->way.got));
	}
}

static void add_threads(const struct report *r, struct strbuf *out)
{
	const struct cpu_use *c = r->cpu_use;
	size_t shown = MIN(c->thread_count, 6);

	for (size_t i = 0; i < shown; i++) {
		const struct cpu_thread *t = &c->threads[i];

		strbuf_adds(out, i ? ", " : "");
		report_thread_text(r, t->process, t->thread, out);
		strbuf_adds(out, ": ");
		human_duration(out, t->total_ns);
	}
	if (c->thread_count > shown)
		strbuf_addf(out, ", and %zu more", c->thread_count - shown);
	strbuf_addc(out, '\n');
}

/* Begins the next remark of a line. */
static void add_comma(struct strbuf *out, size_t start)
{
	strbuf_adds(out, out->length > start ? ", " : "");
}

static void add_remarks(const struct report_view *v, struct strbuf *out)
{
	const struct cpu_use *c = v->report->cpu_use;
	size_t start;

	add_threads(v->report, out);
	start = out->length;
	if (c->kernel_ns) {
		human_percent(out, c->kernel_ns, c->total_ns);
		strbuf_adds(out, " in the operating system's kernel");
	}
	if (c->inside_ns && c->inside_ns < c->total_ns) {
		add_comma(out, start);
		human_percent(out, c->inside_ns, c->total_ns);
		strbuf_adds(out, " sampled by timers inside");
	}
	if (c->pauses) {
		add_comma(out, start);
		human_duration(out, c->pause_ns);
		strbuf_adds(out, " off the CPU in ");
		report_count_text(c->pauses, "interval", out);
	}
	if (c->stackless) {
		add_comma(out, start);
		human_percent(out, c->stackless_ns, c->total_ns);
		strbuf_adds(out, " without a stack");
	}
	if (*c->way.reason && c->way.state != capability_state_on) {
		add_comma(out, start);
		text_safe(out, c->way.reason, strlen(c->way.reason));
	}
	if (out->length > start)
		strbuf_addc(out, '\n');
}

const struct section section_cpu = {
	.key = "cpu",
	.title = "CPU",
	RESULT(cpu_use),
	FIELDS(fields),
	.shown = is_shown,
	.empty = print_none,
	.remark = add_remark,
	.before = add_remarks,
};
