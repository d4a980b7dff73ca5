/* what_if_view.h: what a change would bring, as text and JSON. */
#ifndef PITOT_REPORT_WHAT_IF_VIEW_H
#define PITOT_REPORT_WHAT_IF_VIEW_H

#include "analysis/what_if.h"
#include "report/report_view.h"

/*
 * Append the prediction by these rules or, without any, the candidates. Text is for people; JSON is
 * one object and a newline (docs/what-if.md describes its keys).
 */
void what_if_text(const struct report_view *v, const struct what_if *w,
		  const struct what_if_rule *rules, size_t count);
void what_if_json(const struct report_view *v, const struct what_if *w,
		  const struct what_if_rule *rules, size_t count);

#endif
