/* report_flame.h: the flame graphs inside of the pages of `pitot report` and `pitot diff`. */
#ifndef PITOT_CLI_REPORT_FLAME_H
#define PITOT_CLI_REPORT_FLAME_H

#include "analysis/report.h"
#include "base/strbuf.h"

/*
 * Appends the flame graph's page of what the report is about; nothing if no stacks were recorded,
 * or if a flame graph does not have the report's filter. Returns 0 or a negative code.
 */
int report_flame(const struct report *r, const char *path, struct strbuf *page,
		 struct error *e) MUST_USE;

/* Same of a whole recording, in more detail, as a page of its own. */
int flame_page(struct trace *t, const char *path, struct strbuf *page, struct error *e) MUST_USE;

/*
 * Appends the flame graph's page of a recording, compared with another one; nothing if one of them
 * has no stacks. Paths are for people. Returns 0 or a negative code.
 */
int report_flame_diff(struct trace *t, const char *path, struct trace *before,
		      const char *before_path, struct strbuf *page, struct error *e) MUST_USE;

#endif
