/* comparison_ci.c: what continuous integration shows of a comparison. */
#include <math.h>
#include <string.h>

#include "base/html.h"
#include "compare/comparison_print.h"
#include "report/text.h"

/* --- Markdown --- */

/* A cell: names of kernels have '|', '<' and '*' in them. */
static void add_cell(struct strbuf *out, const char *text)
{
	for (; *text; text++) {
		if (strchr("|<>*_`[]\\&", *text))
			strbuf_addf(out, "&#%d;", *text);
		else
			strbuf_addc(out, (unsigned char)*text < ' ' ? ' ' : *text);
	}
}

static void add_markdown_row(const struct comparison_row *row, struct strbuf *out)
{
	_cleanup_strbuf_ struct strbuf name = STRBUF_INIT;

	comparison_name_text(row, &name);
	strbuf_adds(out, "| ");
	add_cell(out, strbuf_text(&name));
	strbuf_adds(out, " | ");
	comparison_value_text(row->kind, row->difference.a, out);
	strbuf_adds(out, " | ");
	comparison_value_text(row->kind, row->difference.b, out);
	strbuf_adds(out, " | ");
	comparison_ratio_text(row, out);
	strbuf_adds(out, " | ");
	comparison_interval_text(&row->difference, out);
	strbuf_adds(out, row->is_significant ? " | significant |\n" : " | |\n");
}

void comparison_print_markdown(const struct comparison_view *v)
{
	const struct comparison *c = v->comparison;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;
	uint64_t shown = 0;

	comparison_verdict_text(c, &line);
	strbuf_adds(v->out, "### Pitot: ");
	add_cell(v->out, strbuf_text(&line));
	strbuf_adds(v->out, "\n\n");
	for (size_t i = 0; i < v->condition_count; i++) {
		strbuf_clear(&line);
		comparison_condition_text(&v->conditions[i], &line);
		strbuf_adds(v->out, "- ");
		add_cell(v->out, strbuf_text(&line));
		strbuf_addc(v->out, '\n');
	}
	strbuf_adds(v->out, v->condition_count ? "\n" : "");
	strbuf_adds(v->out, "| | A | B | change | 95% | |\n|:--|--:|--:|--:|--:|:--|\n");
	for (size_t i = 0; i < c->rows.count; i++) {
		const struct comparison_row *row = &c->rows.data[i];

		if (row->kind > QUANTITY_memory && (!row->is_significant || shown++ >= v->top))
			continue;
		add_markdown_row(row, v->out);
	}
}

/* --- JUnit --- */

static void add_escaped(struct strbuf *out, const char *text)
{
	html_escape(out, text, strlen(text));
}

static void add_case(const struct comparison_view *v, const char *name, enum condition_state state,
		     const char *text)
{
	const struct comparison_row *step = comparison_row_of(v->comparison, QUANTITY_step);

	strbuf_adds(v->out, "  <testcase classname=\"pitot.diff\" name=\"");
	add_escaped(v->out, name);
	strbuf_addf(v->out, "\" time=\"%.9f\">\n", step ? step->difference.b / 1e9 : 0.0);
	if (state != CONDITION_PASSED) {
		strbuf_addf(v->out, "    <%s message=\"",
			    state == CONDITION_FAILED ? "failure" : "error");
		add_escaped(v->out, text);
		strbuf_adds(v->out, "\"/>\n");
	}
	strbuf_adds(v->out, "    <system-out>");
	add_escaped(v->out, text);
	strbuf_adds(v->out, "</system-out>\n  </testcase>\n");
}

void comparison_print_junit(const struct comparison_view *v)
{
	const struct comparison *c = v->comparison;
	size_t failed = 0, unknown = c->verdict == VERDICT_INCONCLUSIVE;
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	for (size_t i = 0; i < v->condition_count; i++) {
		failed += v->conditions[i].state == CONDITION_FAILED;
		unknown += v->conditions[i].state == CONDITION_UNKNOWN;
	}
	strbuf_addf(v->out,
		    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"pitot diff\" "
		    "tests=\"%zu\" failures=\"%zu\" errors=\"%zu\">\n",
		    v->condition_count + 1, failed, unknown);
	comparison_verdict_text(c, &line);
	add_case(v, "comparable",
		 c->verdict == VERDICT_INCONCLUSIVE ? CONDITION_UNKNOWN : CONDITION_PASSED,
		 strbuf_text(&line));
	for (size_t i = 0; i < v->condition_count; i++) {
		strbuf_clear(&line);
		comparison_condition_text(&v->conditions[i], &line);
		add_case(v, v->conditions[i].text, v->conditions[i].state, strbuf_text(&line));
	}
	strbuf_adds(v->out, "</testsuite>\n");
}

/* --- GitHub --- */

/*
 * The runner decodes this. Properties end with ',' and ':', and commands with their line: safe text
 * has no others.
 */
static void add_escaped_data(struct strbuf *out, const char *text, bool is_property)
{
	_cleanup_strbuf_ struct strbuf safe = STRBUF_INIT;

	text_safe(&safe, text, strlen(text));
	out->failed |= safe.failed;
	for (const char *at = strbuf_text(&safe); *at; at++) {
		if (*at == '%' || (is_property && (*at == ':' || *at == ',')))
			strbuf_addf(out, "%%%02X", *at);
		else
			strbuf_addc(out, *at);
	}
}

enum level { LEVEL_NOTICE, LEVEL_WARNING, LEVEL_ERROR };

static void add_command(struct strbuf *out, enum level level, const char *title, const char *text)
{
	static const char *const levels[] = { "notice", "warning", "error" };

	strbuf_addf(out, "::%s title=", levels[level]);
	add_escaped_data(out, title, true);
	strbuf_adds(out, "::");
	add_escaped_data(out, text, false);
	strbuf_addc(out, '\n');
}

static enum level level_of_verdict(const struct comparison_view *v)
{
	switch (v->comparison->verdict) {
	case VERDICT_INCONCLUSIVE:
		return v->inconclusive_passes ? LEVEL_WARNING : LEVEL_ERROR;
	case VERDICT_SLOWER:
		return LEVEL_WARNING;
	case VERDICT_SAME:
	case VERDICT_FASTER:
		break;
	}
	return LEVEL_NOTICE;
}

void comparison_print_github(const struct comparison_view *v)
{
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	comparison_verdict_text(v->comparison, &text);
	add_command(v->out, level_of_verdict(v), "pitot diff", strbuf_text(&text));
	for (size_t i = 0; i < v->condition_count; i++) {
		const struct condition *condition = &v->conditions[i];
		enum level level = condition->state == CONDITION_PASSED   ? LEVEL_NOTICE
				   : condition->state == CONDITION_FAILED ? LEVEL_ERROR
				   : v->inconclusive_passes               ? LEVEL_WARNING
									  : LEVEL_ERROR;

		strbuf_clear(&text);
		comparison_condition_text(condition, &text);
		add_command(v->out, level, condition->text, strbuf_text(&text));
	}
}
