/* report_flame.h: the flame graph inside of a report's page. */
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

#endif
