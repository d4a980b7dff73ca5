#include <string.h>

#include "base/plural.h"
#include "compare/comparison_print.h"
#include "report/text_table.h"

#define INDENT 2u

static const struct text_column columns[] = {
	FLEXIBLE(""),   RIGHT("A"),      RIGHT("B"), RIGHT("change"),
	RIGHT("ratio"), OPTIONAL("95%"), LEFT(""),
};

static void add_safe(struct strbuf *out, const char *text)
{
	text_safe(out, text, strlen(text));
}

static void add_row(const struct comparison_row *row, struct text_table *t)
{
	bool has_parts = quantity_types[row->kind].has_parts;

	const struct sample_difference *d = &row->difference;

	text_table_safe(t, has_parts ? row->name : quantity_types[row->kind].name);
	comparison_value_text(row->kind, d->a, text_table_begin(t));
	comparison_value_text(row->kind, d->b, text_table_begin(t));
	comparison_change_text(row->kind, d->b - d->a, text_table_begin(t));
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
	text_table_end_row(t);
}

/* Means, which add up. */
static void add_path_row(const struct comparison_row *row, struct text_table *t)
{
	text_table_safe(t, row->name);
	comparison_value_text(row->kind, row->mean_a, text_table_begin(t));
	comparison_value_text(row->kind, row->mean_b, text_table_begin(t));
	comparison_change_text(row->kind, row->mean_b - row->mean_a, text_table_begin(t));
	text_table_end_row(t);
}

/* One table a heading: rows of kinds from … to. */
static void add_table(const struct comparison_view *v, const char *heading, unsigned from,
		      unsigned to)
{
	const struct comparison *c = v->comparison;
	struct text_table t = TEXT_TABLE_INIT(columns);
	uint64_t shown = 0, all = 0;

	for (size_t i = 0; i < c->rows.count; i++) {
		if (c->rows.data[i].kind < from || c->rows.data[i].kind > to)
			continue;
		all++;
		if (shown == v->top)
			continue;
		(from == QUANTITY_path ? add_path_row : add_row)(&c->rows.data[i], &t);
		shown++;
	}
	if (all) {
		strbuf_addf(v->out, "\n%s\n", heading);
		if (from == QUANTITY_path)
			add_sum(c, &t);
		text_table_print(&t, INDENT, v->width, v->color, v->out);
		if (all > shown)
			strbuf_addf(v->out, "%*s… %llu more: --top 0 shows all\n", INDENT, "",
				    (unsigned long long)(all - shown));
	}
	text_table_release(&t);
}

static void add_side(const struct comparison_view *v, const char *name, struct run_side side)
{
	for (size_t i = 0; i < side.count; i++) {
		const struct measured_run *run = &side.runs[i];

		strbuf_addf(v->out, "%s  ", i ? " " : name);
		add_safe(v->out, run->path);
		strbuf_addf(v->out, "  %zu step%s", run->step_count, plural(run->step_count));
		if (*run->facts[RUN_FACT_steps_by]) {
			strbuf_adds(v->out, " (");
			add_safe(v->out, run->facts[RUN_FACT_steps_by]);
			strbuf_addc(v->out, ')');
		}
		if (*run->facts[RUN_FACT_gpu]) {
			strbuf_adds(v->out, ", ");
			add_safe(v->out, run->facts[RUN_FACT_gpu]);
		}
		if (*run->facts[RUN_FACT_rank])
			strbuf_addf(v->out, ", %s", run->facts[RUN_FACT_rank]);
		strbuf_addc(v->out, '\n');
	}
}

/* Adds sentences for a terminal. */
static void add_paragraph(const struct comparison_view *v, enum style style, const char *text)
{
	_cleanup_strbuf_ struct strbuf safe = STRBUF_INIT, folded = STRBUF_INIT;

	add_safe(&safe, text);
	text_fold(&folded, strbuf_text(&safe), 0, v->width);
	style_add(v->out, v->color, style, strbuf_text(&folded));
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
	if (c->within_runs && c->verdict != VERDICT_INCONCLUSIVE) {
		strbuf_clear(&line);
		strbuf_addf(&line,
			    "within runs: steps were compared, because a side has fewer than %u "
			    "runs; that another run would be the same is not shown",
			    COMPARISON_RUNS_MIN);
		add_paragraph(v, STYLE_NONE, strbuf_text(&line));
	}
	for (size_t i = 0; i < c->notes.count; i++) {
		strbuf_clear(&line);
		strbuf_addf(&line, "note: %s", c->notes.data[i]);
		add_paragraph(v, STYLE_NONE, strbuf_text(&line));
	}
	add_table(v, "a step, medians", QUANTITY_step, QUANTITY_memory);
	add_table(v, "on the critical path of a step, means", QUANTITY_path, QUANTITY_path);
	add_table(v, "kernels, median time in a step", QUANTITY_kernel, QUANTITY_kernel);
	add_table(v, "copies and memory sets, median time in a step", QUANTITY_copy, QUANTITY_copy);
	add_table(v, "GPU work of a step, by the function that launched it", QUANTITY_function,
		  QUANTITY_function);
	strbuf_adds(v->out, v->condition_count ? "\n" : "");
	for (size_t i = 0; i < v->condition_count; i++) {
		strbuf_clear(&line);
		comparison_condition_text(&v->conditions[i], &line);
		add_paragraph(v, STYLE_NONE, strbuf_text(&line));
	}
}
