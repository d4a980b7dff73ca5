/*
 * section_stalls.c: what warps waited for, by kernel and, with --stalls, by reason, line and
 * instruction.
 */
#include "report/section.h"

#include <string.h>

#include "analysis/capabilities.h"
#include "analysis/stalls.h"
#include "base/human.h"
#include "base/path.h"
#include "report/words.h"
#include "names/demangle.h"

#define KERNELS_SHOWN 3 /* in the ordinary report */
#define REASONS_SHOWN 3
#define ADVICES_SHOWN 3

static bool is_asked_for(const struct report_view *v)
{
	return v->report->options.stalls;
}

ROW_IF(is_short, void, !is_asked_for(v))
ROW_IF(has_hottest, struct stall_place, row->hottest)
ROW_IF(has_lines, struct stalls, is_asked_for(v))
ROW_IF(has_period, struct stalls, row->period_cycles)
ROW_IF(has_line, struct stall_place, row->file)
ROW_IF(has_frame_function, struct source_frame, row->function)
ROW_IF(has_frame_file, struct source_frame, row->file)

/* Without --stalls, only the first kernels are shown. */
ROW_IF(is_rest, struct stall_place,
       !is_asked_for(v) && row - v->report->stalls->kernels.items >= KERNELS_SHOWN)

static const char *not_issued_head(const struct report_view *v)
{
	return is_asked_for(v) && v->report->stalls->not_issued ? "not issued" : NULL;
}

static const char *hottest_head(const struct report_view *v)
{
	return is_asked_for(v) || !v->report->stalls->lines.count ? NULL : "hottest line";
}

/* Appends a name for a table; it may take half of the line, the rest is for the reasons. */
static void add_cell(const struct report_view *v, const char *name, size_t columns,
		     struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	kernel_name_text(name, v->full_names, &text);
	if (!v->full_names)
		text_shorten(&text, columns);
	strbuf_adds(out, strbuf_text(&text));
	out->failed |= text.failed;
}

static size_t name_columns(const struct report_view *v)
{
	return (v->width - 24) / 2;
}

/* The most frequent wait first; without waits, the other states. */
ROW_READ(read_reasons, struct stall_place,
	 stalls_describe(row, is_asked_for(v) ? REASONS_SHOWN : 1, &out->text))
ROW_READ(read_label, struct stall_place,
	 kernel_name_text(row->kernel_name, v->full_names, &out->text))
ROW_READ(read_name, struct stall_place, demangle(row->kernel_name, &out->text))

static void add_place(const char *file, uint32_t line, struct strbuf *out)
{
	strbuf_addf(out, "%s:%u", base_name(file), line);
}

ROW_READ(read_kernel_cell, struct stall_place,
	 add_cell(v, row->kernel_name, name_columns(v), &out->text))
/*
 * "kernel.cu:16"; for instructions also the line that it was inlined into, "math.h:3 in
 * kernel.cu:16", or its function, "kernel.cu:7 in gather".
 */
static void read_line(const struct report_view *v, const void *row, struct value *out)
{
	const struct stall_place *p = row;
	const struct source_frame *outer = p->frame_count ? &p->frames[0] : NULL;

	if (!p->file) {
		out->state = VALUE_UNKNOWN;
		return;
	}
	add_place(p->file, p->line, &out->text);
	if (p->frame_count > 1 && outer->file) {
		strbuf_adds(&out->text, " in ");
		add_place(outer->file, outer->line, &out->text);
	} else if (outer && outer->function && strcmp(outer->function, p->kernel_name) != 0) {
		strbuf_adds(&out->text, " in ");
		add_cell(v, outer->function, name_columns(v) / 2, &out->text);
	}
}

/* "smooth+0xe0" */
static void read_instruction(const struct report_view *v, const void *row, struct value *out)
{
	const struct stall_place *p = row;

	add_cell(v, p->kernel_name, name_columns(v) / 2, &out->text);
	strbuf_addf(&out->text, "+0x%llx", (unsigned long long)p->offset);
}

ROW_READ(read_crc, struct stall_place,
	 strbuf_addf(&out->text, "%016llx", (unsigned long long)row->function->crc))
ROW_READ(read_frame_function, struct source_frame, demangle(row->function, &out->text))

#define COUNT(member) MEMBER(struct stall_count, member)
#define COUNT_FIELDS                                                                               \
	FIELD("samples", NULL, COUNT, COUNT(samples)),                                             \
		FIELD("not_issued", NULL, COUNT, COUNT(not_issued))

static const struct field reason_fields[] = {
	FIELD(NULL, "share", SHARE, COUNT(samples), WHOLE(struct stalls, samples)),
	FIELD("reason", "reason", TEXT, COUNT(what.name), LEFT_COLUMN),
	FIELD("text", "its warps were", TEXT, COUNT(what.words), FLEXIBLE_COLUMN),
	FIELD("wait", NULL, FLAG, COUNT(what.is_wait)),
	COUNT_FIELDS,
	FIELD("advice", NULL, TEXT, COUNT(what.advice)),
};

/* A reason of a place; the properties of reasons are only in the list of all reasons. */
static const struct field place_reason_fields[] = {
	FIELD("reason", NULL, TEXT, COUNT(what.name)),
	COUNT_FIELDS,
};

#define PLACE(member) MEMBER(struct stall_place, member)
#define COMMON_FIELDS                                                                              \
	FIELD(NULL, "share", SHARE, PLACE(samples), WHOLE(struct stalls, samples)),                \
		FIELD("samples", "samples", COUNT, PLACE(samples)),                                \
		FIELD("not_issued", NULL, COUNT, PLACE(not_issued)),                               \
		FIELD(NULL, NULL, SHARE, PLACE(not_issued), PER(struct stall_place, samples),      \
		      .head_of = not_issued_head, .wide = true),                                   \
		LIST("reasons", ITEMS(struct stall_place, reasons, reason_count),                  \
		     place_reason_fields)
#define REASONS FIELD(NULL, "its warps were", TEXT, .value = read_reasons, FLEXIBLE_COLUMN)

/* "61.1% kernel.cu:16" */
static void read_hottest(const struct report_view *v, const void *row, struct value *out)
{
	const struct stall_place *p = row;

	(void)v;
	human_percent(&out->text, p->hottest->samples, p->samples);
	strbuf_addc(&out->text, ' ');
	add_place(p->hottest->file, p->hottest->line, &out->text);
}

ROW_OF(hottest_of, ((const struct stall_place *)row)->hottest)

static const struct field hottest_fields[] = {
	FIELD("file", NULL, TEXT, PLACE(file)),
	FIELD("line", NULL, ID, PLACE(line)),
	FIELD("samples", NULL, COUNT, PLACE(samples)),
};

static const struct field kernel_fields[] = {
	FIELD("label", NULL, TEXT, .value = read_label),
	FIELD("name", NULL, TEXT, .value = read_name),
	FIELD("symbol", NULL, TEXT, PLACE(kernel_name)),
	COMMON_FIELDS,
	OBJECT("hottest", hottest_fields, .of = hottest_of, .null = true),
	FIELD(NULL, "kernel", TEXT, .value = read_kernel_cell, LEFT_COLUMN),
	FIELD(NULL, NULL, TEXT, .value = read_hottest, .when = has_hottest, .null = true,
	      .head_of = hottest_head, LEFT_COLUMN),
	REASONS,
};

static const struct field line_fields[] = {
	FIELD("kernel", NULL, TEXT, .value = read_label),
	FIELD("file", NULL, TEXT, PLACE(file)),
	FIELD("line", NULL, ID, PLACE(line)),
	COMMON_FIELDS,
	FIELD(NULL, "line", TEXT, .value = read_line, LEFT_COLUMN),
	FIELD(NULL, "kernel", TEXT, .value = read_kernel_cell, LEFT_COLUMN),
	REASONS,
};

static const struct field frame_fields[] = {
	FIELD("function", NULL, TEXT, .value = read_frame_function, .when = has_frame_function,
	      .null = true),
	FIELD("file", NULL, TEXT, MEMBER(struct source_frame, file), .null = true),
	FIELD("line", NULL, ID, MEMBER(struct source_frame, line), .when = has_frame_file,
	      .null = true),
};

static const struct field instruction_fields[] = {
	FIELD("kernel", NULL, TEXT, .value = read_label),
	FIELD("function", NULL, TEXT, PLACE(kernel_name)),
	FIELD("offset", NULL, ID, PLACE(offset)),
	FIELD("crc", NULL, TEXT, .value = read_crc),
	FIELD("file", NULL, TEXT, PLACE(file), .null = true),
	FIELD("line", NULL, ID, PLACE(line), .when = has_line, .null = true),
	LIST("frames", ITEMS(struct stall_place, frames, frame_count), frame_fields, .all = true),
	COMMON_FIELDS,
	FIELD(NULL, "instruction", TEXT, .value = read_instruction, LEFT_COLUMN),
	FIELD(NULL, "line", TEXT, .value = read_line, LEFT_COLUMN),
	REASONS,
};

#define STALLS(member) MEMBER(struct stalls, member)

static const struct field fields[] = {
	FIELD("samples", NULL, COUNT, STALLS(samples)),
	FIELD("not_issued", NULL, COUNT, STALLS(not_issued)),
	FIELD("readings", NULL, COUNT, STALLS(readings)),
	FIELD("period_cycles", NULL, COUNT, STALLS(period_cycles), .when = has_period,
	      .null = true),
	FIELD("total", NULL, COUNT, STALLS(total)),
	FIELD("dropped", NULL, COUNT, STALLS(dropped)),
	FIELD("other", NULL, COUNT, STALLS(other)),
	FIELD("unwanted", NULL, COUNT, STALLS(excluded)),
	FIELD("unaccounted", NULL, COUNT, STALLS(unaccounted)),
	FIELD("without_line", NULL, COUNT, STALLS(without_line), .when = has_lines, .null = true),
	FIELD("without_code", NULL, COUNT, STALLS(without_code), .when = has_lines, .null = true),
	LIST("kernels", ITEMS(struct stalls, kernels.items, kernels.count), kernel_fields,
	     .ends = is_rest),
	LIST("reasons", ITEMS(struct stalls, reasons, reason_count), reason_fields,
	     .ends = is_short),
	LIST("lines", ITEMS(struct stalls, lines.items, lines.count), line_fields,
	     .hidden = is_short),
	LIST("instructions", ITEMS(struct stalls, instructions.items, instructions.count),
	     instruction_fields, .hidden = is_short),
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct stalls *s = v->report->stalls;

	sentence_add(out, COUNTED_AS(s->samples, "sample"), WORDS(" of "),
		     COUNTED_AS(s->kernels.count, "kernel"));
	if (s->period_cycles)
		sentence_add(out, WORDS(", one per multiprocessor every "),
			     NUMBER(s->period_cycles), WORDS(" cycles"));
	if (s->not_issued)
		sentence_add(out, WORDS("; "), PERCENT(s->not_issued, s->samples),
			     WORDS(" while the scheduler issued nothing"));
}

/* Appends what helps against the most frequent waits. */
static void add_advice(const struct stalls *s, struct strbuf *out)
{
	size_t shown = 0;

	for (size_t i = 0; i < s->reason_count && shown < ADVICES_SHOWN; i++) {
		const struct stall_count *c = &s->reasons[i];

		if (!*c->what.advice || c->samples < s->samples / 20)
			continue;
		strbuf_addf(out, "what helps when warps are %s: %s\n", c->what.words,
			    c->what.advice);
		shown++;
	}
}

static void add_missing(const struct report_view *v, struct strbuf *out)
{
	const struct stalls *s = v->report->stalls;

	if (s->dropped)
		sentence_add(out, PERCENT(s->dropped, s->total),
			     WORDS(" of all samples were lost by the hardware\n"));
	if (s->other + s->unaccounted)
		sentence_add(out, PERCENT(s->other + s->unaccounted, s->total),
			     WORDS(" of all samples are in none of the program's kernels, or in "
				   "unknown code\n"));
	if (s->without_line && is_asked_for(v))
		sentence_add(out, PERCENT(s->without_line, s->samples),
			     WORDS(" are in code without line information; to add it: nvcc "
				   "-lineinfo\n"));
	if (s->without_code && is_asked_for(v))
		sentence_add(out, PERCENT(s->without_code, s->samples),
			     WORDS(" are in code that is not in the recording, so its lines are "
				   "unknown\n"));
	report_unfiltered_text(v->report, "samples", out);
	if (is_asked_for(v))
		add_advice(s, out);
	else
		strbuf_adds(out, "for lines, instructions and advice: pitot report --stalls\n");
}

static void print_none(const struct report_view *v)
{
	const char *why = capability_engine_refusal(v->report->trace, "pc-sampling");

	if (!is_asked_for(v))
		return;
	if (v->report->stalls->rows)
		why = "no recorded sample matches the filters";
	else if (!*why)
		why = "no samples of kernels were recorded; to record them: pitot record --engine "
		      "pc-sampling";
	report_title(v, "stalls", why);
}

const struct section section_stalls = {
	.key = "stalls",
	.title = "stalls",
	RESULT(stalls),
	FIELDS(fields),
	.remark = add_remark,
	.after = add_missing,
	.empty = print_none,
};
