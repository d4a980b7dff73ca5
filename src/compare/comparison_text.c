/* comparison_text.c: a comparison as text and as a page, with the report's tables. */
#include <math.h>
#include <string.h>

#include "base/plural.h"
#include "compare/comparison_print.h"
#include "report/section.h"
#include "report/section_html.h"

#define INDENT 2u

static const struct text_column columns[] = {
	FLEXIBLE(""),   RIGHT("A"),      RIGHT("B"), RIGHT("change"),
	RIGHT("ratio"), OPTIONAL("95%"), RIGHT(""),
};
static const struct text_column path_columns[] = {
	FLEXIBLE(""),
	RIGHT("A"),
	RIGHT("B"),
	RIGHT("change"),
};

/* What is rendered with the report's functions. */
static struct report_view view_of(const struct comparison_view *v)
{
	return (struct report_view){ .path = v->title,
				     .width = v->width,
				     .color = v->color,
				     .html = v->html,
				     .out = v->out };
}

/* --- tables --- */

/* Kinds of rows that are one table. */
static const struct table {
	const char *id, *heading; /* id: of its section in a page */
	enum quantity_kind from, to;
} tables[] = {
	{ "steps", "a step", QUANTITY_step, QUANTITY_memory },
	{ "path", "on the critical path of a step, means", QUANTITY_path, QUANTITY_path },
	{ "kernels", "kernels, time in a step", QUANTITY_kernel, QUANTITY_kernel },
	{ "copies", "copies and memory sets, time in a step", QUANTITY_copy, QUANTITY_copy },
	{ "functions", "GPU work of a step, by the function that launched it", QUANTITY_function,
	  QUANTITY_function },
	{ "scopes", "GPU work of a step, by the scope or range that launched it", QUANTITY_scope,
	  QUANTITY_scope },
};

/* Medians; on the path means, which add up. */
static double change_of(const struct comparison_row *row)
{
	return row->kind == QUANTITY_path ? row->mean_b - row->mean_a
					  : row->difference.b - row->difference.a;
}

static void add_name(const struct comparison_view *v, const struct comparison_row *row,
		     struct text_table *t)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

	if (quantity_types[row->kind].has_parts)
		comparison_part_text(row, &name);
	else
		comparison_name_text(row, &name);
	t->failed |= name.failed;
	if (v->html)
		text_table_add(t, strbuf_text(&name));
	else
		text_table_safe(t, strbuf_text(&name));
}

/* `most`: the largest change in the table, beside which the page's colours are. */
static void add_change(const struct comparison_view *v, enum quantity_kind kind, double change,
		       double most, struct text_table *t)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	comparison_change_text(kind, change, &text);
	if (v->html && most > 0)
		html_heat(t, strbuf_text(&text), change / most);
	else
		text_table_add(t, strbuf_text(&text));
}

static void add_row(const struct comparison_view *v, const struct comparison_row *row, double most,
		    struct text_table *t)
{
	bool has_parts = quantity_types[row->kind].has_parts;
	const struct sample_difference *d = &row->difference;

	add_name(v, row, t);
	comparison_value_text(row->kind, d->a, text_table_begin(t));
	comparison_value_text(row->kind, d->b, text_table_begin(t));
	add_change(v, row->kind, change_of(row), has_parts ? most : 0, t);
	comparison_ratio_text(row, text_table_begin(t));
	comparison_interval_text(d, text_table_begin(t));
	text_table_add(t, row->is_significant ? "significant" : "");
}

/* The parts of the critical path, which make up the mean of the steps. */
static void add_sum(const struct comparison *c, struct text_table *t)
{
	double a = 0, b = 0;

	for (size_t i = 0; i < c->rows.count; i++) {
		a += c->rows.data[i].kind == QUANTITY_path ? c->rows.data[i].mean_a : 0;
		b += c->rows.data[i].kind == QUANTITY_path ? c->rows.data[i].mean_b : 0;
	}
	text_table_add(t, "all, the mean of the steps");
	comparison_value_text(QUANTITY_path, a, text_table_begin(t));
	comparison_value_text(QUANTITY_path, b, text_table_begin(t));
	comparison_change_text(QUANTITY_path, b - a, text_table_begin(t));
}

static void add_path_row(const struct comparison_view *v, const struct comparison_row *row,
			 double most, struct text_table *t)
{
	add_name(v, row, t);
	comparison_value_text(row->kind, row->mean_a, text_table_begin(t));
	comparison_value_text(row->kind, row->mean_b, text_table_begin(t));
	add_change(v, row->kind, change_of(row), most, t);
}

static bool is_in(const struct table *table, const struct comparison_row *row)
{
	return row->kind >= table->from && row->kind <= table->to;
}

static void print_table(const struct comparison_view *v, const struct table *table,
			struct text_table *t, uint64_t hidden)
{
	struct report_view view = view_of(v);
	_cleanup_strbuf_ struct strbuf more = STRBUF_INIT;

	if (hidden)
		strbuf_addf(&more, "… %llu more: --top 0 shows all", (unsigned long long)hidden);
	if (v->html)
		html_section_begin(&view, table->id);
	report_title(&view, table->heading, "");
	if (table->from == QUANTITY_path)
		add_sum(v->comparison, t);
	report_table(&view, t);
	report_paragraph(&view, INDENT, strbuf_text(&more));
	if (v->html)
		html_section_end(&view);
}

static void add_table(const struct comparison_view *v, const struct table *table)
{
	const struct comparison *c = v->comparison;
	bool is_path = table->from == QUANTITY_path;
	_cleanup_table_ struct text_table t = {
		.columns = is_path ? path_columns : columns,
		.column_count = is_path ? ARRAY_SIZE(path_columns) : ARRAY_SIZE(columns),
	};
	uint64_t shown = 0, all = 0;
	double most = 0;

	for (size_t i = 0; i < c->rows.count; i++)
		if (is_in(table, &c->rows.data[i]))
			most = MAX(most, fabs(change_of(&c->rows.data[i])));
	for (size_t i = 0; i < c->rows.count; i++) {
		if (!is_in(table, &c->rows.data[i]) || all++ >= v->top)
			continue;
		(is_path ? add_path_row : add_row)(v, &c->rows.data[i], most, &t);
		shown++;
	}
	if (all)
		print_table(v, table, &t, all - shown);
}

/* --- sides --- */

static void add_side(const struct comparison_view *v, const char *name, struct run_side side)
{
	struct report_view view = view_of(v);

	for (size_t i = 0; i < side.count; i++) {
		const struct measured_run *run = &side.runs[i];
		_cleanup_strbuf_ struct strbuf line = STRBUF_INIT, safe = STRBUF_INIT;

		strbuf_addf(&line, "%s  %zu step%s", run->path, run->step_count,
			    plural(run->step_count));
		if (*run->facts[RUN_FACT_steps_by])
			strbuf_addf(&line, " (%s)", run->facts[RUN_FACT_steps_by]);
		if (*run->facts[RUN_FACT_gpu])
			strbuf_addf(&line, ", %s", run->facts[RUN_FACT_gpu]);
		if (*run->facts[RUN_FACT_rank])
			strbuf_addf(&line, ", %s", run->facts[RUN_FACT_rank]);
		v->out->failed |= line.failed;
		if (v->html) {
			html_labelled(&view, STYLE_NONE, i ? "" : name, strbuf_text(&line));
			continue;
		}
		text_safe(&safe, strbuf_text(&line), line.length);
		v->out->failed |= safe.failed;
		strbuf_addf(v->out, "%s  %s\n", i ? " " : name, strbuf_text(&safe));
	}
}

/* --- sentences --- */

/* Adds sentences for a terminal or a page. */
static void add_paragraph(const struct comparison_view *v, enum style style, const char *text)
{
	_cleanup_strbuf_ struct strbuf safe = STRBUF_INIT, folded = STRBUF_INIT;
	struct report_view view = view_of(v);

	if (v->html) {
		html_paragraph(&view, text);
		return;
	}
	text_safe(&safe, text, strlen(text));
	text_fold(&folded, strbuf_text(&safe), 0, v->width);
	style_add(v->out, v->color, style, strbuf_text(&folded));
}

static void add_notes(const struct comparison_view *v)
{
	const struct comparison *c = v->comparison;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	if (c->is_few && !c->reasons.count && comparison_row_of(c, QUANTITY_step)) {
		comparison_few_text(c, &line);
		add_paragraph(v, STYLE_NONE, strbuf_text(&line));
	}
	for (size_t i = 0; i < c->notes.count; i++) {
		strbuf_clear(&line);
		strbuf_addf(&line, "note: %s", c->notes.data[i]);
		add_paragraph(v, STYLE_NONE, strbuf_text(&line));
	}
}

static void add_conditions(const struct comparison_view *v)
{
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	for (size_t i = 0; i < v->condition_count; i++) {
		strbuf_clear(&line);
		comparison_condition_text(&v->conditions[i], &line);
		add_paragraph(v, STYLE_NONE, strbuf_text(&line));
	}
}

void comparison_print_text(const struct comparison_view *v)
{
	const struct comparison *c = v->comparison;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	add_side(v, "A", c->a);
	add_side(v, "B", c->b);
	comparison_verdict_text(c, &line);
	strbuf_addc(v->out, '\n');
	add_paragraph(v, STYLE_BOLD, strbuf_text(&line));
	add_notes(v);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		add_table(v, &tables[i]);
	strbuf_adds(v->out, v->condition_count ? "\n" : "");
	add_conditions(v);
}

/* --- the page --- */

static void add_header(const struct comparison_view *v, const struct report_view *view)
{
	html_section_begin(view, "header");
	html_heading(view, v->title);
	add_side(v, "A", v->comparison->a);
	add_side(v, "B", v->comparison->b);
	html_section_end(view);
}

static void add_verdict(const struct comparison_view *v, const struct report_view *view)
{
	static const enum style styles[] = {
		[VERDICT_SAME] = STYLE_NONE,
		[VERDICT_SLOWER] = STYLE_RED,
		[VERDICT_FASTER] = STYLE_GREEN,
		[VERDICT_INCONCLUSIVE] = STYLE_YELLOW,
	};
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	comparison_verdict_text(v->comparison, &line);
	html_section_begin(view, "verdict");
	html_verdict(view, styles[v->comparison->verdict], strbuf_text(&line), "");
	add_notes(v);
	for (size_t i = 0; i < v->condition_count; i++) {
		enum condition_state state = v->conditions[i].state;

		strbuf_clear(&line);
		comparison_condition_text(&v->conditions[i], &line);
		html_labelled(view,
			      state == CONDITION_PASSED   ? STYLE_GREEN
			      : state == CONDITION_FAILED ? STYLE_RED
							  : STYLE_YELLOW,
			      condition_states[state], strbuf_text(&line));
	}
	html_section_end(view);
}

void comparison_print_html(const struct comparison_view *v)
{
	struct report_view view = view_of(v);

	html_begin(&view, "diff");
	add_header(v, &view);
	add_verdict(v, &view);
	for (size_t i = 0; i < ARRAY_SIZE(tables); i++)
		add_table(v, &tables[i]);
	if (v->flame && *v->flame) {
		html_section_begin(&view, "flame");
		html_frame(&view, v->flame_title, v->flame);
		html_section_end(&view);
	}
	html_end(&view);
}
