/* read_report.h: the report for programs. */
#ifndef PITOT_READ_READ_REPORT_H
#define PITOT_READ_READ_REPORT_H

#include "analysis/report.h"
#include "pitot/read.h"

/*
 * Returns E_USAGE, listing the existing ones, if the filter names a process or GPU that the
 * recording lacks.
 */
int report_check_filter(const struct report *r, struct error *e) MUST_USE;

/*
 * Renders the report as JSON. since_ns and until_ns are CLOCK_MONOTONIC. The caller frees *json.
 * Returns 0 or a negative code.
 */
int read_report(struct trace *t, const char *path, const struct pitot_read_report *options,
		char **json, struct error *e) MUST_USE;

#endif
