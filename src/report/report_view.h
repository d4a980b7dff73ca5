/* report_view.h: a report and how to render it. */
#ifndef PITOT_REPORT_REPORT_VIEW_H
#define PITOT_REPORT_REPORT_VIEW_H

#include <stdbool.h>

#include "base/strbuf.h"

struct report;

#define REPORT_WIDTH_MIN 40u
#define REPORT_WIDTH_MAX 180u
#define REPORT_WIDE 132u /* with at least this width, all figures of a kernel fit into one line */

struct report_view {
	const struct report *report;
	const char *path; /* of the recording */
	unsigned width; /* in columns, within the limits above */
	bool color;
	bool html; /* render HTML instead of text, see section_html.c */
	bool bars; /* draw bars on a terminal; HTML always has them */
	bool system; /* show readings of GPUs and the machine */
	bool full_names; /* kernel names with parameters and template arguments */
	uint64_t callers; /* maximum number of lines below each kernel */
	uint64_t top; /* maximum number of rows of tables and items of lists */
	const char
		*flame; /* HTML: page of a flame graph to show below the tables; "" or NULL: none */
	struct strbuf *out;
};

#endif
