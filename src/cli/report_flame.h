/* report_flame.h: the flame graphs inside of the pages of `pitot report` and `pitot diff`. */
#ifndef PITOT_CLI_REPORT_FLAME_H
#define PITOT_CLI_REPORT_FLAME_H

#include "analysis/report.h"
#include "base/strbuf.h"
#include "cli/command.h"

/*
 * Appends the flame graph's page of what the report is about; nothing if no stacks were recorded,
 * or if a flame graph does not have the report's filter. Returns 0 or a negative code.
 */
int report_flame(const struct report *r, const char *path, struct strbuf *page,
		 struct error *e) MUST_USE;

/*
 * Appends the flame graph's page of `path`, compared with `before`, another recording; nothing if
 * one of them has no stacks. Prints errors; returns an exit status.
 */
int report_flame_diff(const struct context *c, const char *path, const char *before,
		      struct strbuf *page) MUST_USE;

#endif
