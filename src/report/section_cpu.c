/* section_cpu.c: CPU time by thread, line and function. */
#include "report/section.h"

#include <string.h>

#include "analysis/cpu_use.h"
#include "report/words.h"

#define CPU(member) MEMBER(struct cpu_use, member)

static const struct field thread_fields[] = {
	FIELD("thread", NULL, THREAD, MEMBER(struct cpu_thread, process)),
	FIELD("samples", NULL, COUNT, MEMBER(struct cpu_thread, samples)),
	FIELD("total_ns", NULL, NS, MEMBER(struct cpu_thread, total_ns)),
};

static void read_function_and_class(const struct report_view *v, const void *row, struct value *out)
{
	const struct callers *callers = &v->report->callers;
	const struct function_time *f = row;

	strbuf_adds(&out->text, stacks_text(&callers->stacks, f->function));
	if (caller_at(callers, f->caller)->class == FRAME_SYSTEM)
		strbuf_adds(&out->text, " [kernel]");
}

/* Functions are sorted by self time; the rest have none. */
ROW_IF(has_no_self, struct function_time, !row->self_ns)

#define FUNCTION(member) MEMBER(struct function_time, member)

static const struct field function_fields[] = {
	FIELD(NULL, "self", SHARE, FUNCTION(self_ns), WHOLE(struct cpu_use, total_ns)),
	FIELD("function", NULL, CODE, FUNCTION(function)),
	FIELD("class", NULL, CLASS, FUNCTION(caller)),
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

/* 0 means that frames of the operating system's kernel were not recorded. */
ROW_IF(has_kernel, struct cpu_use, row->kernel_ns)

static const struct field fields[] = {
	FIELD("samples", NULL, COUNT, CPU(samples)),
	FIELD("total_ns", NULL, NS, CPU(total_ns)),
	FIELD("kernel_ns", NULL, NS, CPU(kernel_ns), .when = has_kernel, .null = true),
	FIELD("inside_ns", NULL, NS, CPU(inside_ns)),
	FIELD("without_stack", NULL, COUNT, CPU(stackless)),
	FIELD("without_stack_ns", NULL, NS, CPU(stackless_ns)),
	FIELD("pauses", NULL, COUNT, CPU(pauses)),
	FIELD("pause_ns", NULL, NS, CPU(pause_ns)),
	FIELD("processes", NULL, COUNT, CPU(processes)),
	FIELD("way", NULL, TEXT, CPU(sampling.actual)),
	FIELD("reason", NULL, TEXT, CPU(sampling.reason)),
	LIST("threads", ITEMS(struct cpu_use, threads, thread_count), thread_fields),
	LIST("lines", ITEMS(struct cpu_use, lines, line_count), line_fields, .half = true),
	LIST("functions", ITEMS(struct cpu_use, functions.items.data, functions.items.count),
	     function_fields, .half = true, .ends = has_no_self),
};

static bool is_shown(const struct report_view *v)
{
	return v->report->cpu_use->samples > 0;
}

/* Says why there are no samples, if that is known. */
static void print_none(const struct report_view *v)
{
	const struct capability_note *sampling = &v->report->cpu_use->sampling;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, reason = STRBUF_INIT;

	if (!sampling->known)
		return;
	capability_no_samples(v->report->trace, sampling, &reason);
	strbuf_adds(&line, "no samples");
	strbuf_adds(&line, reason.length ? ": " : "");
	text_safe(&line, strbuf_text(&reason), reason.length);
	report_title(v, "CPU", strbuf_text(&line));
}

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct cpu_use *c = v->report->cpu_use;

	sentence_add(out, DURATION(c->total_ns), WORDS(" in "),
		     COUNTED_AS(c->thread_count, "thread"), WORDS(" of "),
		     COUNTED_AS(c->processes, "process"), WORDS(", "),
		     COUNTED_AS(c->samples, "sample"));
	if (*c->sampling.actual) {
		strbuf_adds(out, " (");
		text_safe(out, c->sampling.actual, strlen(c->sampling.actual));
		strbuf_addc(out, ')');
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
		sentence_add(out, WORDS(": "), DURATION(t->total_ns));
	}
	if (c->thread_count > shown)
		strbuf_addf(out, ", and %zu more", c->thread_count - shown);
	strbuf_addc(out, '\n');
}

static void add_remarks(const struct report_view *v, struct strbuf *out)
{
	const struct cpu_use *c = v->report->cpu_use;
	size_t start;

	add_threads(v->report, out);
	start = out->length;
#define SEPARATOR WORDS(out->length > start ? ", " : "")
	if (c->kernel_ns)
		sentence_add(out, PERCENT(c->kernel_ns, c->total_ns),
			     WORDS(" in the operating system's kernel"));
	if (c->inside_ns && c->inside_ns < c->total_ns)
		sentence_add(out, SEPARATOR, PERCENT(c->inside_ns, c->total_ns),
			     WORDS(" sampled by timers inside the process"));
	if (c->pauses)
		sentence_add(out, SEPARATOR, DURATION(c->pause_ns), WORDS(" off the CPU in "),
			     COUNTED_AS(c->pauses, "interval"));
	if (c->stackless)
		sentence_add(out, SEPARATOR, PERCENT(c->stackless_ns, c->total_ns),
			     WORDS(" without a stack"));
	if (*c->sampling.reason && c->sampling.state != capability_state_on) {
		sentence_add(out, SEPARATOR);
		text_safe(out, c->sampling.reason, strlen(c->sampling.reason));
	}
	if (*c->python.reason && c->python.state != capability_state_on) {
		sentence_add(out, SEPARATOR, WORDS("Python frames: "));
		text_safe(out, c->python.actual, strlen(c->python.actual));
		strbuf_adds(out, " (");
		text_safe(out, c->python.reason, strlen(c->python.reason));
		strbuf_addc(out, ')');
	}
	if (*c->symbols.reason && c->symbols.state != capability_state_on) {
		sentence_add(out, SEPARATOR);
		text_safe(out, c->symbols.reason, strlen(c->symbols.reason));
	}
#undef SEPARATOR
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
