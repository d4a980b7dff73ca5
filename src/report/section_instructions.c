/*
 * section_instructions.c: hints from instruction counts, in recordings made with --engine
 * sass-metrics.
 */
#include "report/section.h"

#include "analysis/instructions.h"
#include "analysis/sentence.h"
#include "report/words.h"

ROW_IF(has_file, struct instruction_hint, row->place->file)
ROW_READ(read_kind, struct instruction_hint, strbuf_adds(&out->text, instruction_hint_kind(row)))
ROW_READ(read_evidence, struct instruction_hint, instruction_hint_evidence(row, &out->text))
ROW_READ(read_path, struct instruction_hint, strbuf_adds(&out->text, row->place->file))
ROW_READ(read_line, struct instruction_hint, out->n = row->place->line)

static void read_text(const struct report_view *v, const void *row, struct value *out)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	(void)v;
	instruction_hint_text(row, &text);
	text_safe(&out->text, strbuf_text(&text), text.length);
}

static const struct field hint_fields[] = {
	FIELD("hint", NULL, TEXT, .value = read_kind),
	FIELD("text", "hint", TEXT, .value = read_text, LEFT_COLUMN),
	FIELD("evidence", "evidence", TEXT, .value = read_evidence, FLEXIBLE_COLUMN),
	FIELD("file", NULL, TEXT, .value = read_path, .when = has_file, .null = true),
	FIELD("line", NULL, ID, .value = read_line, .when = has_file, .null = true),
};

static const void *hint_at(const struct report_view *v, const void *of, size_t i)
{
	const struct instructions *all = of;

	(void)v;
	return i < all->hint_count ? &all->hints[i] : NULL;
}

ROW_IF(has_launches, struct instructions, row->stalls.launches || !row->stalls.sass.known)

#define OF(member) MEMBER(struct instructions, stalls.member)
static const struct field fields[] = {
	FIELD("launches", NULL, COUNT, OF(launches), .when = has_launches, .null = true),
	FIELD("executed", NULL, COUNT, OF(sass.of[SASS_EXECUTED])),
	LIST("hints", .item = hint_at, hint_fields),
};

static void add_remark(const struct report_view *v, struct strbuf *out)
{
	const struct stalls *s = &v->report->instructions->stalls;

	sentence_add(out, NUMBER(s->sass.of[SASS_EXECUTED]), WORDS(" executed"));
	if (s->launches)
		sentence_add(out, WORDS(" in "), COUNTED_AS(s->launches, "measured launch"));
}

static bool is_measured(const struct report_view *v)
{
	return v->report->instructions->stalls.sass.known;
}

static void add_more(const struct report_view *v, struct strbuf *out)
{
	report_unfiltered_text(v->report, "counts", out);
	strbuf_adds(out, "for counts by line and instruction: pitot source\n");
}

const struct section section_instructions = {
	.key = "instructions",
	.title = "instructions",
	RESULT(instructions),
	FIELDS(fields),
	.shown = is_measured,
	.remark = add_remark,
	.after = add_more,
};
