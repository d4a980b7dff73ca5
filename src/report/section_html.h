/* section_html.h: output of section.c as HTML instead of text. */
#ifndef PITOT_REPORT_SECTION_HTML_H
#define PITOT_REPORT_SECTION_HTML_H

#include "report/report_view.h"
#include "report/text.h"
#include "report/text_table.h"

/* Begin and end the page, and a section of it. `what` the page is: "report". */
void html_begin(const struct report_view *v, const char *what);
void html_end(const struct report_view *v);
void html_section_begin(const struct report_view *v, const char *name);
void html_section_end(const struct report_view *v);

void html_heading(const struct report_view *v, const char *text);
void html_title(const struct report_view *v, enum style style, const char *title, const char *rest);
void html_verdict(const struct report_view *v, enum style style, const char *verdict,
		  const char *rest);
void html_labelled(const struct report_view *v, enum style style, const char *label,
		   const char *text);
/* A title, and another page below it. */
void html_frame(const struct report_view *v, const char *title, const char *page);
void html_paragraph(const struct report_view *v, const char *text); /* one per line of text */
void html_table(const struct report_view *v, struct text_table *t);
/* Adds a cell with a percentage that also is a bar; other text is shown as it is. */
void html_share(struct text_table *t, const char *text);
/* Adds a cell whose colour shows how low (-1) or high (1) its value is among the others. */
void html_heat(struct text_table *t, const char *text, double heat);
/* Adds a cell with a short name, and its full name for the tooltip. */
void html_named(struct text_table *t, const char *text, const char *full);
/* Adds a cell with a bar for part / whole. */
void html_bar(struct text_table *t, uint64_t part, uint64_t whole);

#endif
