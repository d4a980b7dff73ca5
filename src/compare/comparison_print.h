/* comparison_print.h: a comparison for people and for machines. */
#ifndef PITOT_COMPARE_COMPARISON_PRINT_H
#define PITOT_COMPARE_COMPARISON_PRINT_H

#include "base/json.h"
#include "compare/condition.h"

struct comparison_view {
	const struct comparison *comparison;
	const struct condition *conditions;
	size_t condition_count;
	bool inconclusive_passes; /* what is unknown does not make the exit status 1 */
	uint64_t top; /* rows of a table; UINT64_MAX: all */
	unsigned width;
	bool color;
	bool html; /* of comparison_print_html() */
	const char *title; /* of a page */
	const char *flame, *flame_title; /* of a page: a flame graph to show below; NULL: none */
	struct strbuf *out;
};

void comparison_print_text(const struct comparison_view *v);
/* A self-contained page with the same contents; view.html must be true. */
void comparison_print_html(const struct comparison_view *v);
void comparison_print_json(const struct comparison_view *v);
/* An array of what is known of each run. */
void comparison_runs_json(struct json *j, const char *key, struct run_side side);
/* A heading, the verdict and tables for a pull request. */
void comparison_print_markdown(const struct comparison_view *v);
/* JUnit's XML: one test case for the verdict, and one for each condition. */
void comparison_print_junit(const struct comparison_view *v);
/*
 * Workflow commands of GitHub, a line each: for the verdict and each condition an error if it makes
 * the exit status 1, else a warning or a notice.
 */
void comparison_print_github(const struct comparison_view *v);

/* --- comparison_words.c --- */

/* "B is slower: a step takes 12.3 ms instead of 11.9 ms, +3.4% (95% +2.9% to +3.9%, p 0.008)" */
void comparison_verdict_text(const struct comparison *c, struct strbuf *out);
/* Why few runs leave the step open, and how many would settle it: of runs_needed. */
void comparison_unsettled_text(const struct comparison *c, struct strbuf *out);
/* What few runs cannot show, of a step. */
void comparison_few_text(const struct comparison *c, struct strbuf *out);
/* "1.23 ms", "1,002", "1.2 GiB" */
void comparison_value_text(enum quantity_kind kind, double value, struct strbuf *out);
/* The same with a sign. */
void comparison_change_text(enum quantity_kind kind, double value, struct strbuf *out);
/* "+3.4%"; "new", "gone" or "-" if there is no ratio. */
void comparison_ratio_text(const struct comparison_row *row, struct strbuf *out);
/* "+2.9% to +3.9%"; "-" if there is no interval. */
void comparison_interval_text(const struct sample_difference *d, struct strbuf *out);
/* "step > 2%: failed, +3.4% (95% +2.9% to +3.9%)" */
void comparison_condition_text(const struct condition *c, struct strbuf *out);
/* "NAME (was OTHER)" of a part. Not made safe. */
void comparison_part_text(const struct comparison_row *row, struct strbuf *out);
/* "kernel:NAME", or a quantity without parts. Not made safe. */
void comparison_name_text(const struct comparison_row *row, struct strbuf *out);

#endif
