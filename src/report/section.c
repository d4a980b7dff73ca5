/* section.c: renders sections as text: titles, and tables from fields. */
#include "report/section.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "report/section_html.h"

#define COLUMNS_MAX 24
#define LABEL 10 /* columns of the labels of report_labelled */

void report_gap(const struct report_view *v)
{
	if (!v->html)
		strbuf_addc(v->out, '\n');
}

void report_paragraph(const struct report_view *v, unsigned indent, const char *text)
{
	if (v->html)
		html_paragraph(v, text);
	else
		text_fold(v->out, text, indent, v->width);
}

void report_table(const struct report_view *v, struct text_table *t)
{
	if (v->html)
		html_table(v, t);
	else
		text_table_print(t, 2, v->full_names ? UINT32_MAX : v->width, v->color, v->out);
}

void report_heading(const struct report_view *v, const char *text)
{
	if (v->html) {
		html_heading(v, text);
		return;
	}
	style_add(v->out, v->color, STYLE_BOLD, text);
	strbuf_addc(v->out, '\n');
}

void report_verdict(const struct report_view *v, enum style style, const char *verdict,
		    const char *rest)
{
	if (v->html) {
		html_verdict(v, style, verdict, rest);
		return;
	}
	report_gap(v);
	style_add(v->out, v->color, STYLE_BOLD, "verdict  ");
	style_add(v->out, v->color, style, verdict);
	strbuf_addf(v->out, "%s\n", rest);
}

/* Appends "label  text", folded; all lines of the text start at `column`. */
static void add_labelled(const struct report_view *v, enum style style, const char *label,
			 const char *text, size_t column)
{
	_cleanup_strbuf_ struct strbuf folded = STRBUF_INIT;

	text_fold(&folded, text, (unsigned)column, v->width);
	style_add(v->out, v->color, style, label);
	for (size_t i = strlen(label); i < column && *text; i++)
		strbuf_addc(v->out, ' ');
	strbuf_adds(v->out, folded.length > column ? strbuf_text(&folded) + column : "\n");
	v->out->failed |= folded.failed;
}

void report_title(const struct report_view *v, const char *title, const char *rest)
{
	if (v->html) {
		html_title(v, STYLE_NONE, title, rest);
		return;
	}
	report_gap(v);
	add_labelled(v, STYLE_BOLD, title, rest, strlen(title) + 2);
}

void report_labelled(const struct report_view *v, enum style style, const char *label,
		     const char *text)
{
	if (v->html)
		html_labelled(v, style, label, text);
	else
		add_labelled(v, style, label, text, LABEL);
}

void report_bar(struct text_table *t, const struct report_view *v, uint64_t part, uint64_t whole,
		unsigned columns)
{
	struct strbuf *bar;
	uint64_t eighths =
		whole ? (uint64_t)((unsigned __int128)MIN(part, whole) * columns * 8 / whole) : 0;

	if (v->html) {
		html_bar(t, eighths, columns * 8);
		return;
	}
	bar = text_table_begin(t);
	for (; v->bars && eighths >= 8; eighths -= 8)
		strbuf_adds(bar, "\u2588");
	if (v->bars && eighths)
		strbuf_add(bar, (const char[]){ '\xe2', '\x96', (char)(0x90 - eighths) }, 3);
}

static const char *head_of(const struct field *f, const struct report_view *v)
{
	if (f->wide && v->width < REPORT_WIDE)
		return NULL;
	return f->head_of ? f->head_of(v) : f->head;
}

static struct text_column column_of(const struct field *f, const char *head)
{
	return (struct text_column){
		.head = head,
		.left = f->layout != LAYOUT_RIGHT && f->layout != LAYOUT_OPTIONAL,
		.flexible = f->layout == LAYOUT_FLEXIBLE,
		.optional = f->layout == LAYOUT_OPTIONAL || f->layout == LAYOUT_OPTIONAL_LEFT,
	};
}

/* Appends the text that a cell has with full names. */
static void add_full_text(const struct report_view *v, const struct field *f, const void *result,
			  const void *row, struct strbuf *out)
{
	struct report_view full = *v;
	struct value value = { 0 };

	full.full_names = true;
	value_read(&full, f, result, row, &value);
	value_text(&full, f, &value, out);
	out->failed |= value.text.failed;
	strbuf_release(&value.text);
}

static void add_cell(const struct report_view *v, const struct field *f, const void *result,
		     const void *row, struct text_table *t)
{
	struct value value = { 0 };
	struct strbuf text = STRBUF_INIT, full = STRBUF_INIT;
	uint64_t count = 1;
	double heat = 0;

	value_read(v, f, result, row, &value);
	if (v->html && value.state == VALUE_KNOWN && f->layout == LAYOUT_FLEXIBLE)
		add_full_text(v, f, result, row, &full);
	if (f->count)
		memcpy(&count, (const char *)row + f->count - 1, sizeof(count));
	if (value.state == VALUE_UNKNOWN || !count)
		strbuf_addc(&text, '-');
	else if (value.state == VALUE_KNOWN)
		value_text(v, f, &value, &text);
	if (f->heat)
		memcpy(&heat, (const char *)row + f->heat - 1, sizeof(heat));
	if (v->html && f->unit == UNIT_SHARE)
		html_share(t, strbuf_text(&text));
	else if (v->html && f->heat && isfinite(heat))
		html_heat(t, strbuf_text(&text), heat);
	else if (full.length && strcmp(strbuf_text(&full), strbuf_text(&text)) != 0)
		html_named(t, strbuf_text(&text), strbuf_text(&full));
	else
		text_table_add(t, strbuf_text(&text));
	t->failed |= text.failed || value.text.failed || full.failed;
	strbuf_release(&text);
	strbuf_release(&full);
	strbuf_release(&value.text);
}

/* Prints a table, and before the section's first table the title. */
static void print_table(const struct section *s, const struct report_view *v, struct text_table *t,
			bool *titled)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, before = STRBUF_INIT;
	const char *title = s->title_of ? s->title_of(v) : s->title;

	if (!*titled && title) {
		if (s->remark)
			s->remark(v, &line);
		report_title(v, title, strbuf_text(&line));
		if (s->before)
			s->before(v, &before);
		if (before.length)
			report_paragraph(v, 2, strbuf_text(&before));
		if (v->html && s->picture)
			s->picture(v);
	}
	*titled = true;
	if (text_table_rows(t))
		report_table(v, t);
}

static void print_list(const struct section *s, const struct report_view *v, const void *result,
		       const struct list *list, bool *titled)
{
	struct text_column columns[COLUMNS_MAX];
	const struct field *fields[COLUMNS_MAX];
	_cleanup_table_ struct text_table t = { .columns = columns };
	uint64_t top = list->half ? v->top / 2 + v->top % 2 : v->top, shown = 0;
	const void *row;

	if (list->all)
		top = UINT64_MAX;
	for (size_t i = 0; i < list->field_count && t.column_count < COLUMNS_MAX; i++) {
		const char *head = head_of(&list->fields[i], v);

		if (!head)
			continue;
		fields[t.column_count] = &list->fields[i];
		columns[t.column_count++] = column_of(&list->fields[i], head);
	}
	for (size_t i = 0; t.column_count && shown < top && (row = list_row(list, v, result, i));
	     i++) {
		if (list->hidden && list->hidden(v, row))
			continue;
		if (list->ends && list->ends(v, row))
			break;
		shown++;
		for (size_t c = 0; c < t.column_count; c++)
			add_cell(v, fields[c], result, row, &t);
		if (list->notes)
			list->notes(v, row, &t);
	}
	if (text_table_rows(&t))
		print_table(s, v, &t, titled);
}

/* Prints a table with a row for each field with UNIT_STATS. */
static void print_stats(const struct section *s, const struct report_view *v, const void *result,
			bool *titled)
{
	static const struct text_column columns[] = {
		FLEXIBLE(""), RIGHT("count"),   RIGHT("mean"),  RIGHT("median"),
		RIGHT("p99"), RIGHT("longest"), RIGHT("total"),
	};
	_cleanup_table_ struct text_table t = TEXT_TABLE_INIT(columns);

	for (size_t i = 0; i < s->field_count; i++) {
		const struct field *f = &s->fields[i];
		const struct duration_stats *stats =
			(const void *)((const char *)result + f->offset);

		if (f->unit != UNIT_STATS || !f->head || !stats->count)
			continue;
		text_table_add(&t, f->head);
		text_table_count(&t, stats->count);
		text_table_duration(&t, stats_mean_ns(stats));
		text_table_duration(&t, stats->median_ns);
		text_table_duration(&t, stats->p99_ns);
		text_table_duration(&t, stats->max_ns);
		text_table_duration(&t, stats->total_ns);
	}
	if (text_table_rows(&t))
		print_table(s, v, &t, titled);
}

void section_print_text(const struct section *s, const struct report_view *v)
{
	const void *result = section_result(s, v->report);
	_cleanup_strbuf_ struct strbuf after = STRBUF_INIT;
	struct text_table none = { 0 };
	bool titled = false;

	if (s->text) {
		s->text(v);
		return;
	}
	if (s->shown && s->shown(v))
		print_table(s, v, &none, &titled);
	if (!s->shown || titled) {
		print_stats(s, v, result, &titled);
		for (size_t i = 0; i < s->field_count; i++)
			if (s->fields[i].unit == UNIT_LIST)
				print_list(s, v, result, s->fields[i].list, &titled);
	}
	if (!titled && s->empty)
		s->empty(v);
	if (titled && s->after)
		s->after(v, &after);
	if (after.length)
		report_paragraph(v, 2, strbuf_text(&after));
}

#define DECLARE(name) extern const struct section section_##name;
SECTIONS(DECLARE)
#undef DECLARE

#define ENTRY(name) &section_##name,
static const struct section *const sections[] = { SECTIONS(ENTRY) };
#undef ENTRY
#define NAME(name) #name,
static const char *const section_names[] = { SECTIONS(NAME) };
#undef NAME

void report_print_text(const struct report_view *v)
{
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		section_print_text(sections[i], v);
}

void report_print_html(const struct report_view *v)
{
	html_begin(v, "report");
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++) {
		size_t before = v->out->length, begun;

		html_section_begin(v, section_names[i]);
		begun = v->out->length;
		section_print_text(sections[i], v);
		if (v->out->length == begun)
			v->out->length = before;
		else
			html_section_end(v);
	}
	if (v->flame && *v->flame) {
		html_section_begin(v, "flame");
		html_frame(v, "flame graph", v->flame);
		html_section_end(v);
	}
	html_end(v);
}

void report_print_json(const struct report_view *v)
{
	struct json j = JSON_PRETTY(v->out);

	json_object(&j);
	for (size_t i = 0; i < ARRAY_SIZE(sections); i++)
		section_print_json(sections[i], v, &j);
	json_finish(&j);
}
