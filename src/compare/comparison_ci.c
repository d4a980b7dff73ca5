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

/* --- What a condition comes to --- */

enum outcome { OUTCOME_PASSED, OUTCOME_FAILURE, OUTCOME_ERROR, OUTCOME_SKIPPED, OUTCOME_COUNT };

/* Failures and errors are what makes the exit status 1. */
static enum outcome outcome_of(const struct comparison_view *v, enum condition_state state)
{
	switch (state) {
	case CONDITION_FAILED:
		return OUTCOME_FAILURE;
	case CONDITION_UNKNOWN:
		return v->inconclusive_passes ? OUTCOME_SKIPPED : OUTCOME_ERROR;
	case CONDITION_PASSED:
		break;
	}
	return OUTCOME_PASSED;
}

static enum condition_state state_of_verdict(const struct comparison *c)
{
	return c->verdict == VERDICT_INCONCLUSIVE ? CONDITION_UNKNOWN : CONDITION_PASSED;
}

/* --- JUnit --- */

static void add_escaped(struct strbuf *out, const char *text)
{
	html_escape(out, text, strlen(text));
}

/* `step`: the time of the test case; may be NULL */
static void add_case(struct strbuf *out, const char *name, enum outcome outcome, const char *text,
		     const struct comparison_row *step)
{
	static const char *const results[] = {
		[OUTCOME_FAILURE] = "failure type=\"condition met\"",
		[OUTCOME_ERROR] = "error type=\"inconclusive\"",
		[OUTCOME_SKIPPED] = "skipped type=\"inconclusive\"",
	};

	strbuf_adds(out, "    <testcase classname=\"pitot.diff\" name=\"");
	add_escaped(out, name);
	strbuf_addc(out, '"');
	if (step)
		strbuf_addf(out, " time=\"%.9f\"", step->difference.b / 1e9);
	strbuf_adds(out, ">\n");
	if (outcome != OUTCOME_PASSED) {
		strbuf_addf(out, "      <%s message=\"", results[outcome]);
		add_escaped(out, text);
		strbuf_adds(out, "\"/>\n");
	}
	strbuf_adds(out, "      <system-out>");
	add_escaped(out, text);
	strbuf_adds(out, "</system-out>\n    </testcase>\n");
}

void comparison_print_junit(const struct comparison_view *v)
{
	const struct comparison *c = v->comparison;
	enum outcome verdict = outcome_of(v, state_of_verdict(c));
	size_t count[OUTCOME_COUNT] = { 0 };
	_cleanup_strbuf_ struct strbuf line = STRBUF_INIT;

	count[verdict]++;
	for (size_t i = 0; i < v->condition_count; i++)
		count[outcome_of(v, v->conditions[i].state)]++;
	strbuf_addf(v->out,
		    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n"
		    "  <testsuite name=\"pitot diff\" tests=\"%zu\" failures=\"%zu\" "
		    "errors=\"%zu\" skipped=\"%zu\">\n",
		    v->condition_count + 1, count[OUTCOME_FAILURE], count[OUTCOME_ERROR],
		    count[OUTCOME_SKIPPED]);
	comparison_verdict_text(c, &line);
	add_case(v->out, "comparable", verdict, strbuf_text(&line),
		 comparison_row_of(c, QUANTITY_step));
	for (size_t i = 0; i < v->condition_count; i++) {
		const struct condition *condition = &v->conditions[i];

		strbuf_clear(&line);
		comparison_condition_text(condition, &line);
		add_case(v->out, condition->text, outcome_of(v, condition->state),
			 strbuf_text(&line), NULL);
	}
	strbuf_adds(v->out, "  </testsuite>\n</testsuites>\n");
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

static void add_command(struct strbuf *out, const char *level, const char *title, const char *text)
{
	strbuf_addf(out, "::%s title=", level);
	add_escaped_data(out, title, true);
	strbuf_adds(out, "::");
	add_escaped_data(out, text, false);
	strbuf_addc(out, '\n');
}

void comparison_print_github(const struct comparison_view *v)
{
	static const char *const levels[] = {
		[OUTCOME_PASSED] = "notice",
		[OUTCOME_FAILURE] = "error",
		[OUTCOME_ERROR] = "error",
		[OUTCOME_SKIPPED] = "warning",
	};
	const struct comparison *c = v->comparison;
	_cleanup_strbuf_ struct strbuf text = STRBUF_INIT;

	comparison_verdict_text(c, &text);
	add_command(v->out,
		    c->verdict == VERDICT_SLOWER ? "warning"
						 : levels[outcome_of(v, state_of_verdict(c))],
		    "pitot diff", strbuf_text(&text));
	for (size_t i = 0; i < v->condition_count; i++) {
		const struct condition *condition = &v->conditions[i];

		strbuf_clear(&text);
		comparison_condition_text(condition, &text);
		add_command(v->out, levels[outcome_of(v, condition->state)], condition->text,
			    strbuf_text(&text));
	}
}
